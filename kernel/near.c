// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Memory of our own in reach of the kernel's text: the slots, the landings of return probes, programs as machine code,
 * the table of reserve.c.
 * The addresses are set aside when the module is loaded, pages come when they are needed and stay until it goes. Code
 * is never mapped writable here: who fills it writes through the page. Control side, under the lock.
 */
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/vmalloc.h>

#include "abi/abi-limits.h"
#include "arch/arch.h"
#include "kernel-priv.h"

struct dp_near dp_k_near;

static struct vm_struct *area;
static struct page **pages; /* of the area, in order; NULL: not there yet */

static int map_page(pte_t *pte, unsigned long addr, void *arg)
{
	struct page *page = arg;

	set_pte(pte, mk_pte(page, addr < dp_k_near.data ? PAGE_KERNEL_ROX : PAGE_KERNEL));
	return 0;
}

static int add_page(u64 addr)
{
	struct page **at = &pages[(addr - dp_k_near.slots) / PAGE_SIZE], *p;
	int r;

	if (*at)
		return 0;
	p = alloc_page(GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	memset(page_address(p), addr < dp_k_near.data ? DP_TRAP_BYTE : 0, PAGE_SIZE);
	r = apply_to_page_range(dp_k_sym.init_mm, addr, PAGE_SIZE, map_page, p);
	if (r)
		__free_page(p);
	else
		*at = p;
	return r;
}

int dp_k_near_want(u64 lo, u64 hi)
{
	int r = 0;

	for (u64 at = lo & PAGE_MASK; at < hi && !r; at += PAGE_SIZE)
		r = add_page(at);
	return r;
}

int dp_k_near_init(void)
{
	size_t landings = PAGE_ALIGN(DP_K_LANDINGS * DP_K_LANDING_SIZE), data = PAGE_ALIGN(DP_K_NEAR_DATA);
	size_t size = DP_K_POOL + landings + DP_K_PROGRAMS + data;

	pages = kvcalloc(size / PAGE_SIZE, sizeof(struct page *), GFP_KERNEL);
	area = pages ? dp_k_sym.vm_area(size, VM_MAP, MODULES_VADDR, MODULES_END, __builtin_return_address(0)) : NULL;
	if (!area) {
		kvfree(pages);
		return -ENOMEM;
	}
	dp_k_near.slots = (u64)area->addr;
	dp_k_near.landings = dp_k_near.slots + DP_K_POOL;
	dp_k_near.programs = dp_k_near.landings + landings;
	dp_k_near.data = dp_k_near.programs + DP_K_PROGRAMS;
	dp_k_near.end = dp_k_near.data + data;
	return 0;
}

void dp_k_near_exit(void)
{
	size_t n = (dp_k_near.end - dp_k_near.slots) / PAGE_SIZE;

	free_vm_area(area);
	vm_unmap_aliases(); /* no processor knows the pages any more */
	for (size_t i = 0; i < n; i++)
		if (pages[i])
			__free_page(pages[i]);
	kvfree(pages);
}
