// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A module as it is written for the kernel's own Kprobes, of any age; the build alone says that it is for ours
 * (<dprobes/kernel-compat.h>).
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>

long compat_work(long a, long b);

noinline __attribute__((noipa)) long compat_work(long a, long b)
{
	return a * 3 + b;
}

static int before, behind, returned, entered, batch;

static int handler_pre(struct kprobe *p, struct pt_regs *regs)
{
	before++;
	return 0;
}

static void handler_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	behind++;
}

static int handler_batch(struct kprobe *p, struct pt_regs *regs)
{
	batch++;
	return 0;
}

static int handler_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	returned += get_kretprobe(ri)->maxactive == 4 && regs_return_value(regs) == 25;
	return 0;
}
NOKPROBE_SYMBOL(handler_return);

static long handler_entry(long a, long b)
{
	entered += a == 7 && b == 4;
	jprobe_return();
	return 0;
}

static struct kprobe kp = {.symbol_name = "compat_work", .pre_handler = handler_pre, .post_handler = handler_post};
static struct kprobe first = {.symbol_name = "compat_work", .pre_handler = handler_batch};
static struct kprobe second = {.symbol_name = "compat_work", .pre_handler = handler_batch};
static struct kprobe *both[] = {&first, &second};
static struct kretprobe rp = {.kp.symbol_name = "compat_work", .handler = handler_return, .maxactive = 4};
static struct jprobe jp = {.kp.symbol_name = "compat_work", .entry = JPROBE_ENTRY(handler_entry)};

int init_module(void)
{
	void *at;
	int r = register_kprobe(&kp);

	r = r ? r : register_kprobes(both, 2);
	r = r ? r : register_kretprobe(&rp);
	r = r ? r : register_jprobe(&jp);
	if (r)
		return r;
	compat_work(7, 4);
	disable_kprobe(&kp);
	compat_work(7, 4);
	at = kp.addr;
	unregister_jprobe(&jp);
	unregister_kretprobe(&rp);
	unregister_kprobes(both, 2);
	unregister_kprobe(&kp);
	compat_work(7, 4);
	pr_info("compat: %d before, %d behind, %d of a batch, %d returned, %d entered, addr %s\n", before, behind,
		batch, returned, entered, at && kp.addr == at ? "kept" : "lost");
	return 0;
}

void cleanup_module(void)
{
}

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests: a module written for the kernel's own Kprobes");
