// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* What the machine of ../src/hit asks of its host, in a kernel. Hit path: nothing here sleeps or
 * faults. */
#include <linux/cgroup.h>
#include <linux/compiler.h>
#include <linux/cred.h>
#include <linux/io.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>

#include "k-unwind.h"
#include "run.h"

#include <asm/asm.h>
#include <asm/debugreg.h>
#include <asm/desc.h>
#include <asm/smap.h>

/* User memory is below, the kernel's above; neither is ever paged in. */
static __always_inline bool is_user(u64 addr)
{
	return addr < TASK_SIZE_MAX;
}

HIT int dp_hit_read(struct dp_hit *h, void *dst, u64 src, u32 len)
{
	long r;

	if (likely(len == 8 && dp_k_near_stack((u64)h->regs, src))) {
		*(u64 *)dst = READ_ONCE_NOCHECK(*(const unsigned long *)src);
		return 0;
	}
	if (is_user(src))
		r = current->mm ? copy_from_user_nofault(dst, (const void __user *)src, len) : -EFAULT;
	else
		r = copy_from_kernel_nofault(dst, (const void *)src, len);
	return r ? -EFAULT : 0;
}

/* Text of the kernel is not writable this way, and what is read-only stays so. */
HIT int dp_hit_write(struct dp_hit *h, u64 dst, const void *src, u32 len)
{
	long r;

	if (is_user(dst))
		r = current->mm ? copy_to_user_nofault((void __user *)dst, src, len) : -EFAULT;
	else
		r = dp_k_sym.copy_to_kernel ? dp_k_sym.copy_to_kernel((void *)dst, src, len) : -EFAULT;
	return r ? -EFAULT : 0;
}

/* By aligned pieces, so that none crosses into a page that is not there before the text ends. */
HIT int dp_hit_read_str(struct dp_hit *h, char *dst, u64 src, u32 size)
{
	u32 n = 0;

	while (n + 1 < size) {
		u32 piece = min_t(u32, 32 - ((src + n) & 31), size - 1 - n);

		if (dp_hit_read(h, dst + n, src + n, piece)) {
			if (!n)
				return -EFAULT;
			break;
		}
		for (u32 end = n + piece; n < end; n++)
			if (!dst[n])
				return n + 1;
	}
	dst[n] = '\0';
	return n + 1;
}

HIT void dp_hit_comm(struct dp_hit *h, char *dst16)
{
	memcpy(dst16, current->comm, TASK_COMM_LEN);
}

/* A store that changes nothing, whoever stores there at the same time. */
static __always_inline bool touch(u8 *p)
{
	/* clang-format off */
	asm goto("1: lock; orb $0, %0\n" _ASM_EXTABLE(1b, %l[fault]) : : "m"(*p) : "memory", "cc" : fault);
	/* clang-format on */
	return true;
fault:
	return false;
}

HIT bool dp_hit_writable(struct dp_hit *h, u64 addr)
{
	u8 byte;
	bool is;

	if (dp_hit_read(h, &byte, addr, 1)) /* it knows which addresses may be touched at all */
		return false;
	if (!is_user(addr))
		return touch((u8 *)addr);
	pagefault_disable();
	stac();
	is = touch((u8 *)addr);
	clac();
	pagefault_enable();
	return is;
}

HIT u32 dp_hit_pid(struct dp_hit *h)
{
	return current->tgid;
}

HIT s64 dp_hit_uid(struct dp_hit *h)
{
	return __kuid_val(current_uid());
}

HIT s64 dp_hit_ppid(struct dp_hit *h)
{
	pid_t id;

	rcu_read_lock(); /* the parent may end, and another one take its place */
	id = rcu_dereference(current->real_parent)->tgid;
	rcu_read_unlock();
	return id;
}

HIT u64 dp_hit_ns(struct dp_hit *h)
{
	return ktime_get_mono_fast_ns();
}

/* Of user mode: in the processor still, or where the kernel has put them; what was never used is not written there. */
HIT void dp_hit_fxsave(struct dp_hit *h, void *area512)
{
	const union fpregs_state *f = current->flags & PF_KTHREAD ? NULL : dp_k_fpregs(current);
	struct fxregs_state *fx = area512;
	u64 used;

	if (!f || !boot_cpu_has(X86_FEATURE_FXSR)) {
		memset(fx, 0, sizeof(*fx));
		return;
	}
	if (!test_thread_flag(TIF_NEED_FPU_LOAD)) {
		dp_fxsave(fx);
		return;
	}
	memcpy(fx, &f->fxsave, sizeof(*fx));
	used = boot_cpu_has(X86_FEATURE_XSAVE) ? f->xsave.header.xfeatures : ~0ull;
	if (!(used & XFEATURE_MASK_FP)) {
		memset(fx, 0, offsetof(struct fxregs_state, mxcsr));
		memset(fx->st_space, 0, sizeof(fx->st_space));
		fx->cwd = 0x37f;
	}
	if (!(used & XFEATURE_MASK_SSE))
		memset(fx->xmm_space, 0, sizeof(fx->xmm_space));
}

static __always_inline u64 read_dr(u32 which)
{
	unsigned long v;

	switch (which) {
	case 0:
		get_debugreg(v, 0);
		break;
	case 1:
		get_debugreg(v, 1);
		break;
	case 2:
		get_debugreg(v, 2);
		break;
	case 3:
		get_debugreg(v, 3);
		break;
	case 4:
		get_debugreg(v, 6);
		break;
	default:
		get_debugreg(v, 7);
	}
	return v;
}

static __always_inline u64 read_table(u32 which)
{
	struct desc_ptr gdt, idt;

	native_store_gdt(&gdt);
	store_idt(&idt);
	return which == 0 ? gdt.address : which == 1 ? gdt.size : which == 2 ? idt.address : idt.size;
}

/* Selectors are those of now; the bases those of user mode. */
HIT u64 dp_hit_segment(struct dp_hit *h, u32 which)
{
	u16 v = 0;
	u64 base;

	switch (which) {
	case 0:
		savesegment(ds, v);
		return v;
	case 1:
		savesegment(es, v);
		return v;
	case 2:
		savesegment(fs, v);
		return v;
	case 3:
		savesegment(gs, v);
		return v;
	case 4:
		rdmsrl(MSR_FS_BASE, base);
		return base;
	case 5:
		rdmsrl(MSR_KERNEL_GS_BASE, base);
		return base;
	case 6:
		return dp_task_selector();
	case 7:
		return dp_local_selector();
	case 8:
	case 9:
	case 10:
	case 11:
		return read_table(which - 8);
	case 12:
		return read_cr0();
	case 13:
		return read_cr2();
	case 14:
		return __read_cr3();
	case 15:
		return __read_cr4();
	default:
		return read_dr(which - 16);
	}
}

HIT u64 dp_hit_msr(struct dp_hit *h, u32 number)
{
	u64 v;

	return rdmsrl_safe(number, &v) ? 0 : v;
}

/* Of the processor's own table; tasks with a local one are not served. */
HIT bool dp_hit_segment_base(struct dp_hit *h, u64 selector, u64 *base)
{
	const struct desc_struct *d = get_current_gdt_ro();
	u64 i = selector >> 3;

	if (!i || i >= GDT_ENTRIES || selector & 4 || selector >> 16 || !d[i].p || !d[i].s)
		return false;
	*base = get_desc_base(&d[i]);
	return true;
}

HIT void dp_hit_cpuid(struct dp_hit *h, u32 leaf, u32 abcd[4])
{
	cpuid_count(leaf, 0, &abcd[0], &abcd[1], &abcd[2], &abcd[3]);
}

/*
 * The kernel's own unwinder, from the registers at the hit; then, where the session knows the process, on in its own
 * code, from the registers with which it came into the kernel.
 */
HIT u32 dp_hit_frames(struct dp_hit *h, u64 *ips, u32 n)
{
	const struct dp_k_prog *p = container_of(h->prog, struct dp_k_prog, rt);
	struct pt_regs *regs = (struct pt_regs *)h->regs;
	u32 found = 0;

	if (p->stacks && user_mode(regs))
		return current->mm ? dp_k_stacks_walk(p->stacks, regs, ips, n) : 0;
	if (dp_k_sym.save_trace)
		found = dp_k_sym.save_trace(regs, (unsigned long *)ips, n, 0);
	if (!found)
		ips[found++] = dp_regs_ip(h->regs);
	if (p->stacks && found < n && current->mm && !(current->flags & PF_KTHREAD))
		found += dp_k_stacks_walk(p->stacks, task_pt_regs(current), ips + found, n - found);
	return found;
}

HIT u64 dp_hit_chain(struct dp_hit *h, u32 n)
{
	u64 ips[DP_FRAMES_MAX];

	return dp_chain_digest(ips, dp_hit_frames(h, ips, n));
}

HIT u32 dp_hit_cpu(struct dp_hit *h)
{
	return raw_smp_processor_id();
}

HIT struct dp_regs *dp_hit_user(struct dp_hit *h)
{
	if (current->mm && !(current->flags & PF_KTHREAD))
		return (struct dp_regs *)task_pt_regs(current);
	memset(h->vm->scratch, 0, sizeof(struct dp_regs));
	return (struct dp_regs *)h->vm->scratch;
}

HIT u64 dp_hit_task(struct dp_hit *h)
{
	return (u64)current;
}

HIT u32 dp_hit_own_tid(struct dp_hit *h)
{
	return task_pid_vnr(current);
}

HIT u64 dp_hit_cgroup(struct dp_hit *h)
{
	u64 id = 0;

#ifdef CONFIG_CGROUPS
	rcu_read_lock(); /* the task may be moved */
	id = cgroup_id(task_dfl_cgroup(current));
	rcu_read_unlock();
#endif
	return id;
}

HIT u64 dp_hit_in(u16 port, u32 bytes)
{
	return bytes == 1 ? inb(port) : bytes == 2 ? inw(port) : inl(port);
}

HIT void dp_hit_out(u16 port, u32 bytes, u64 v)
{
	if (bytes == 1)
		outb((u8)v, port);
	else if (bytes == 2)
		outw((u16)v, port);
	else
		outl((u32)v, port);
}

/* Each only where the module was told to allow it. The debugger is entered behind the record (dp_k_unusual()). */
HIT void dp_hit_exit(struct dp_hit *h, u32 facility)
{
	if (facility == DP_EXIT_CRASHDUMP)
		panic("dprobes: exit %u of a program at %pS", facility, (void *)dp_regs_ip(h->regs));
}
