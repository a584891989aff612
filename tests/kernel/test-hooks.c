// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Hooks in the kernel: order, places, groups, values, dynamic hooks, and exits that come and go
 * under load. */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "dprobes/hooks.h"
#include "test.h"

DECLARE_HOOK(t_passing, int, long *);
DECLARE_HOOK(t_asking, int *, const char *);
DECLARE_HOOK(t_leaving, int);
DECLARE_EXCLUSIVE_HOOK(t_alone, long *);
DECLARE_GENERIC_HOOK(t_plainly, long *);
DECLARE_DYNAMIC_HOOK(t_entering, long, long);
DECLARE_DYNAMIC_HOOK(t_anywhere);

static char trail[32];

static int mark(char c, int r)
{
	size_t n = strlen(trail);

	if (n + 1 < sizeof(trail))
		trail[n] = c;
	return r;
}

static int a(struct hook *h, int x, long *y)
{
	return mark('a', HOOK_CONTINUE);
}
static int b(struct hook *h, int x, long *y)
{
	return mark('b', HOOK_CONTINUE);
}
static int stops(struct hook *h, int x, long *y)
{
	return mark('s', HOOK_TERMINATE);
}
static int adds(struct hook *h, int x, long *y)
{
	*y += x;
	return mark('c', HOOK_CONTINUE);
}

static noinline long pass(int x)
{
	long y = 100;

	HOOK(t_passing, x, &y);
	return y;
}

static const char *passed(void)
{
	memset(trail, 0, sizeof(trail));
	pass(1);
	return trail;
}

static void order(void)
{
	struct hook_rec f1 = HOOK_EXIT(t_passing, a, .flags = HOOK_PRIORITY_FIRST), f2 = f1;
	struct hook_rec l1 = HOOK_EXIT(t_passing, stops, .flags = HOOK_PRIORITY_LAST), l2 = l1;
	struct hook_rec lifo = HOOK_EXIT(t_passing, adds, .flags = HOOK_QUEUE_LIFO);
	struct hook_rec fifo = HOOK_EXIT(t_passing, b);
	struct hook_rec *all[] = {&f1, &l1, &lifo, &fifo};

	ok(!hook_exit_register(&t_passing, &l1) && !hook_exit_register(&t_passing, &fifo) &&
	       !hook_exit_register(&t_passing, &f1) && !hook_exit_register(&t_passing, &lifo),
	   "hooks: exits are registered");
	ok(hook_exit_register(&t_passing, &f2) == -HOOK_EPRIORITY_FIRST &&
	       hook_exit_register(&t_passing, &l2) == -HOOK_EPRIORITY_LAST,
	   "hooks: one first, one last");
	ok(!strcmp(passed(), "") && pass(7) == 100, "hooks: idle");
	ok(!hook_exits_arm(all, 4) && !strcmp(passed(), "acbs") && pass(7) == 107,
	   "hooks: a group is armed, called in order (%s)", trail);
	fifo.flags &= ~HOOK_ARMED;
	ok(!strcmp(passed(), "acs"), "hooks: a flag disarms");
	hook_exit_disarm(&f1);
	ok(!strcmp(passed(), "cs"), "hooks: one is disarmed");
	for (int i = 0; i < 4; i++)
		hook_exit_deregister(all[i]);
	ok(!strcmp(passed(), "") && !(t_passing.flags & HOOK_ACTIVE), "hooks: all gone");
	ok(hook_exit_arm(&f1) == -EINVAL, "hooks: what is not registered is not armed");
}

static int answers(struct hook *h, int *value, const char *s)
{
	*value = strlen(s);
	return HOOK_RETURN;
}

static int leaves(struct hook *h, int x)
{
	return x < 0 ? HOOK_RETURN : HOOK_CONTINUE;
}

static noinline int ask(const char *s)
{
	HOOK_RET(t_asking, s);
	return -1;
}

static int went_on;

static noinline void leave_early(int x)
{
	HOOK_RET_NORC(t_leaving, x);
	went_on++;
}

static int plus(struct hook *h, long *x)
{
	*x += 1;
	return HOOK_CONTINUE;
}

static noinline long variants(long x)
{
	EXCLUSIVE_HOOK(t_alone, &x);
	GENERIC_HOOK(t_plainly, &x);
	return x;
}

static void kinds(void)
{
	struct hook_rec r1 = HOOK_EXIT(t_asking, answers), r2 = HOOK_EXIT(t_leaving, leaves);
	struct hook_rec e = HOOK_EXIT(t_alone, plus), e2 = e, g = HOOK_EXIT(t_plainly, plus);

	hook_exit_register(&t_asking, &r1);
	hook_exit_register(&t_leaving, &r2);
	ok(ask("four") == -1 && !hook_exit_arm(&r1) && ask("four") == 4, "hooks: a value is returned");
	hook_exit_arm(&r2);
	leave_early(-1);
	leave_early(1);
	ok(went_on == 1, "hooks: a function without a value returns");
	hook_exit_deregister(&r1);
	hook_exit_deregister(&r2);
	hook_exit_register(&t_alone, &e);
	ok(hook_exit_register(&t_alone, &e2) == -HOOK_EPRIORITY, "hooks: an exclusive one takes one exit");
	hook_exit_register(&t_plainly, &g);
	ok(variants(5) == 5 && !hook_exit_arm(&e) && variants(5) == 6 && !hook_exit_arm(&g) && variants(5) == 7,
	   "hooks: exclusive and generic");
	hook_exit_deregister(&e);
	hook_exit_deregister(&g);
	ok(variants(5) == 5, "hooks: idle again");
}

static int sees(struct hook *h, struct pt_regs *regs, long x, long y)
{
	regs->di = x + 1000;
	return y == 3 ? HOOK_CONTINUE : HOOK_TERMINATE;
}

static int refuses(struct hook *h, struct pt_regs *regs, long x, long y)
{
	regs_set_return_value(regs, -EPERM);
	return x == 77 ? HOOK_RETURN : HOOK_CONTINUE;
}

static int any(struct hook *h, struct pt_regs *regs)
{
	atomic_inc(&hits);
	return HOOK_RETURN;
}

static void dynamic(void)
{
	struct hook_rec r1 = HOOK_EXIT(t_entering, sees, .flags = HOOK_PRIORITY_LAST);
	struct hook_rec r2 = HOOK_EXIT(t_entering, refuses), r3 = HOOK_EXIT(t_anywhere, any);
	int before = atomic_read(&hits);

	ok(hook_bind(&t_passing, NULL, (unsigned long)t_add) == -EINVAL &&
	       hook_bind(&t_entering, "no_such_function_here", 0) == -ENOENT,
	   "hooks: bound nowhere");
	hook_exit_register(&t_entering, &r1);
	hook_exit_register(&t_entering, &r2);
	ok(!hook_bind(&t_entering, "dptest:t_add", 0) && t_add(2, 3) == 5, "hooks: bound, idle");
	ok(!hook_exit_arm(&r1) && t_add(2, 3) == 1005, "hooks: an argument is changed");
	ok(!hook_exit_arm(&r2) && t_add(77, 3) == -EPERM && t_add(2, 3) == 1005, "hooks: a function of others returns");
	dp_wait_for_kprobe_optimizer();
	ok(t_add(77, 3) == -EPERM && t_add(2, 3) == 1005, "hooks: by a jump as by a breakpoint");
	ok(hook_unbind(&t_entering) == -EBUSY, "hooks: in use");
	hook_exit_deregister(&r1);
	hook_exit_deregister(&r2);
	ok(t_add(77, 3) == 80 && !hook_unbind(&t_entering), "hooks: unbound");
	hook_exit_register(&t_anywhere, &r3);
	ok(!hook_exit_arm(&r3) && !hook_bind(&t_anywhere, NULL, (unsigned long)T_WIDE_2ND) && t_wide(1, 2),
	   "hooks: inside a function");
	ok(atomic_read(&hits) == before + 1, "hooks: passed once");
	hook_exit_deregister(&r3);
	hook_unbind(&t_anywhere);
}

/* ---- under load ---- */

static atomic_t wrong, passes;

static int passing_thread(void *unused)
{
	while (!kthread_should_stop()) {
		for (int i = 0; i < 100; i++) {
			long x = variants(0);

			if (x < 0 || x > 2 || pass(1) < 100)
				atomic_inc(&wrong);
			atomic_inc(&passes);
		}
		cond_resched();
	}
	return 0;
}

static void load(void)
{
	struct task_struct *t[2];
	int bad = 0;

	for (int i = 0; i < 2; i++)
		t[i] = kthread_run(passing_thread, NULL, "dptest-hooks");
	for (int i = 0; i < 50; i++) {
		struct hook_rec *e = kzalloc(sizeof(*e), GFP_KERNEL), *g = kzalloc(sizeof(*g), GFP_KERNEL);
		struct hook_rec *both[] = {e, g};

		*e = (struct hook_rec)HOOK_EXIT(t_alone, plus);
		*g = (struct hook_rec)HOOK_EXIT(t_plainly, plus);
		bad += hook_exit_register(&t_alone, e) || hook_exit_register(&t_plainly, g) || hook_exits_arm(both, 2);
		bad += variants(0) != 2;
		bad += hook_exit_deregister(e) || hook_exit_deregister(g);
		memset(e, 0x5a, sizeof(*e));
		memset(g, 0x5a, sizeof(*g));
		kfree(e);
		kfree(g);
		bad += variants(0) != 0;
	}
	for (int i = 0; i < 2; i++)
		kthread_stop(t[i]);
	ok(!bad && !atomic_read(&wrong) && atomic_read(&passes) > 100,
	   "hooks: armed and freed while others pass (%d, %d wrong, %d passes)", bad, atomic_read(&wrong),
	   atomic_read(&passes));
}

void test_hooks(void)
{
	order();
	kinds();
	dynamic();
	load();
}
