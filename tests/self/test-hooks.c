/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Hooks in a program: order, return codes, arming of places, groups, dynamic hooks, shared objects.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dprobes/hooks.h"
#include "tap.h"

USE_HOOK(passing, int, long *); /* as a header would have it */
DECLARE_HOOK(passing, int, long *);
DECLARE_HOOK(nothing);
DECLARE_HOOK(asking, int *, const char *);
DECLARE_HOOK(leaving, int);
DECLARE_HOOK(wide, double, long, short, const char *, unsigned char, float, long long, void *);
DECLARE_EXCLUSIVE_HOOK(alone, int *, int);
DECLARE_GENERIC_HOOK(plainly, int *, int);
DECLARE_DYNAMIC_HOOK(entering, long, const int *);
DECLARE_DYNAMIC_HOOK(anywhere);
USE_HOOK(plugged, int *);

static char trail[64];

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
static int c(struct hook *h, int x, long *y)
{
	return mark('c', HOOK_CONTINUE);
}
static int stops(struct hook *h, int x, long *y)
{
	return mark('s', HOOK_TERMINATE);
}
static int changes(struct hook *h, int x, long *y)
{
	*y += x;
	return mark(h == &passing ? 'h' : '?', HOOK_CONTINUE);
}

PROBED static long pass(int x)
{
	long y = 100;

	HOOK(passing, x, &y);
	return y;
}

static const char *passed(void)
{
	memset(trail, 0, sizeof(trail));
	pass(1);
	return trail;
}

static struct hook_rec ra = HOOK_EXIT(passing, a, .name = "a"), rb = HOOK_EXIT(passing, b, .name = "b"),
		       rc = HOOK_EXIT(passing, c), rs = HOOK_EXIT(passing, stops);

static void order(void)
{
	struct hook_rec f1 = HOOK_EXIT(passing, a, .flags = HOOK_PRIORITY_FIRST), f2 = f1;
	struct hook_rec l1 = HOOK_EXIT(passing, c, .flags = HOOK_PRIORITY_LAST), l2 = l1;
	struct hook_rec lifo = HOOK_EXIT(passing, changes, .flags = HOOK_QUEUE_LIFO);
	struct hook_rec both = HOOK_EXIT(passing, a, .flags = HOOK_PRIORITY_FIRST | HOOK_PRIORITY_LAST);
	struct hook_rec *all[] = {&f1, &l1, &lifo, &rb, &rs};

	ok(!hook_exit_register(&passing, &l1) && !hook_exit_register(&passing, &rb) &&
	       !hook_exit_register(&passing, &f1) && !hook_exit_register(&passing, &lifo),
	   "exits are registered in any order");
	ok(f1.position == 1 && lifo.position == 2 && rb.position == 3 && l1.position == 4,
	   "first, last in first out, first in first out, last");
	ok(hook_exit_register(&passing, &f2) == -HOOK_EPRIORITY_FIRST && strstr(dp_kprobe_error(), "E-HOOK-PRIORITY"),
	   "there is one first exit");
	ok(hook_exit_register(&passing, &l2) == -HOOK_EPRIORITY_LAST, "and one last");
	ok(hook_exit_register(&passing, &both) == -EINVAL, "none is both");
	ok(!strcmp(passed(), ""), "registered is not armed");
	hook_exit_register(&passing, &rs);
	ok(!hook_exits_arm(all, 5) && !strcmp(passed(), "ahbs"), "a group is armed; one exit ends the calls: %s",
	   trail);
	ok(passing.flags & HOOK_ACTIVE && pass(7) == 107, "a parameter is changed through a pointer");
	rs.flags &= ~HOOK_ARMED;
	ok(!strcmp(passed(), "ahbc"), "clearing its flag disarms an exit");
	ok(!hook_exit_disarm(&lifo) && !strcmp(passed(), "abc") && pass(7) == 100, "one is disarmed");
	ok(!hook_exit_deregister(&f1) && rb.position == 2 && !strcmp(passed(), "bc"), "one is taken away");
	ok(!hook_exits_disarm(all + 1, 4) && !(passing.flags & HOOK_ACTIVE) && !strcmp(passed(), ""),
	   "the last one goes: inactive");
	hook_exit_deregister(&l1);
	hook_exit_deregister(&lifo);
	hook_exit_deregister(&rb);
	hook_exit_deregister(&rs);
	ok(!passing.exits, "all are gone");
	ok(hook_exit_arm(&rb) == -EINVAL && hook_exit_deregister(&rb) == -EINVAL &&
	       strstr(dp_kprobe_error(), "E-HOOK-UNKNOWN"),
	   "what is not registered cannot be armed");
}

static void group(void)
{
	struct hook_rec *v[] = {&ra, &rb, &rc};

	hook_exit_register(&passing, &ra);
	hook_exit_register(&passing, &rb);
	ok(hook_exits_arm(v, 3) == -EINVAL && !strcmp(passed(), ""),
	   "a group with one that is not registered: none is armed");
	ok(hook_exit_register(&passing, &ra) == -EINVAL, "none is registered twice");
	ok(hook_exit_register(&nothing, &rc) == -EINVAL &&
	       strstr(dp_kprobe_error(), "was made for hook passing, not for nothing"),
	   "nor with another hook: %s", dp_kprobe_error());
	hook_exit_deregister(&ra);
	hook_exit_deregister(&rb);
}

static int answers(struct hook *h, int *value, const char *s)
{
	*value = (int)strlen(s);
	return HOOK_RETURN;
}

static volatile int count; /* what compilers take for a pure function is not, when it is hooked */

static int leaves(struct hook *h, int x)
{
	return x < 0 ? HOOK_RETURN : HOOK_CONTINUE;
}

static int counts(struct hook *h)
{
	count++;
	return HOOK_CONTINUE;
}

PROBED static int ask(const char *s)
{
	HOOK_RET(asking, s);
	return -1;
}

PROBED static void leave_early(int x)
{
	HOOK_RET_NORC(leaving, x);
	count++;
	HOOK(nothing);
}

static void values(void)
{
	struct hook_rec r1 = HOOK_EXIT(asking, answers), r2 = HOOK_EXIT(leaving, leaves),
			r3 = HOOK_EXIT(nothing, counts);

	ok(ask("four") == -1, "a hook that may return does not while it is idle");
	hook_exit_register(&asking, &r1);
	hook_exit_register(&leaving, &r2);
	hook_exit_register(&nothing, &r3);
	hook_exit_arm(&r1);
	ok(ask("four") == 4, "an exit makes the function return its value");
	count = 0;
	hook_exit_arm(&r2);
	leave_early(-1);
	leave_early(1);
	ok(count == 1, "and return without one");
	hook_exit_arm(&r3);
	leave_early(1);
	ok(count == 3, "a hook without arguments");
	hook_exit_deregister(&r1);
	hook_exit_deregister(&r2);
	hook_exit_deregister(&r3);
	ok(ask("four") == -1, "deregistered is disarmed");
}

static int sees_all(struct hook *h, double d, long l, short s, const char *t, unsigned char u, float f, long long ll,
		    void *p)
{
	count = d == 1.5 && l == -2 && s == -3 && !strcmp(t, "t") && u == 200 && f == 2.5f && ll == 1ll << 40 &&
		p == (void *)trail;
	return HOOK_CONTINUE;
}

PROBED static void pass_all(void)
{
	HOOK(wide, 1.5, -2, -3, "t", 200, 2.5f, 1ll << 40, trail);
}

static int adds(struct hook *h, int *y, int x)
{
	*y += x;
	return x > 100 ? HOOK_RETURN : HOOK_CONTINUE;
}

PROBED static int variants(int x)
{
	EXCLUSIVE_HOOK_RET(alone, x);
	GENERIC_HOOK_RET(plainly, x);
	int y = 1;
	EXCLUSIVE_HOOK(alone, &y, x);
	GENERIC_HOOK(plainly, &y, x);
	return y;
}

static void kinds(void)
{
	struct hook_rec w = HOOK_EXIT(wide, sees_all), e = HOOK_EXIT(alone, adds), e2 = e, g = HOOK_EXIT(plainly, adds);

	hook_exit_register(&wide, &w);
	hook_exit_arm(&w);
	count = 0;
	pass_all();
	ok(count == 1, "eight arguments of all kinds");
	hook_exit_deregister(&w);
	ok(variants(5) == 1, "idle: exclusive and generic");
	ok(!hook_exit_register(&alone, &e) && hook_exit_register(&alone, &e2) == -HOOK_EPRIORITY,
	   "an exclusive hook takes one exit");
	ok(!hook_exit_arm(&e) && variants(5) == 6 && variants(101) == 101, "it is called");
	ok(!hook_exit_register(&plainly, &g) && !hook_exit_arm(&g) && variants(5) == 11, "a generic one, too");
	hook_exit_deregister(&e);
	ok(variants(101) == 101 && variants(5) == 6, "and returns");
	hook_exit_deregister(&g);
	ok(variants(101) == 1, "all idle again");
}

/* ---- places ---- */

static void altered(void)
{
	unsigned char *p = (unsigned char *)pass, cc = 0xcc, was;
	FILE *f = fopen("/proc/self/mem", "r+");
	int i = 0;

	while (i < 64 && p[i] != 0xa9)
		i++;
	was = p[i];
	setvbuf(f, NULL, _IONBF, 0);
	fseek(f, (long)(p + i), SEEK_SET);
	fwrite(&cc, 1, 1, f);
	hook_exit_register(&passing, &ra);
	ok(hook_exit_arm(&ra) == -EBUSY && strstr(dp_kprobe_error(), "E-HOOK-SITE"),
	   "a place with a breakpoint of somebody: %s", dp_kprobe_error());
	fseek(f, (long)(p + i), SEEK_SET);
	fwrite(&was, 1, 1, f);
	fclose(f);
	ok(!(ra.flags & HOOK_ARMED) && !strcmp(passed(), ""), "nothing was armed");
	ok(!hook_exit_arm(&ra) && p[i] == 0xe9 && !strcmp(passed(), "a"), "without it, it is");
	{
		struct kprobe kp = {.addr = p + i};

		ok(register_kprobe(&kp) == -EBUSY && strstr(dp_kprobe_error(), "E-SITE-HOOK"),
		   "a place is not probed: %s", dp_kprobe_error());
	}
	hook_exit_deregister(&ra);
	ok(p[i] == 0xa9, "the place is as it was");
}

static int inside(struct hook *h)
{
	count = hook_exit_disarm(&ra);
	return HOOK_CONTINUE;
}

static void from_inside(void)
{
	struct hook_rec r = HOOK_EXIT(nothing, inside);

	hook_exit_register(&nothing, &r);
	hook_exit_arm(&r);
	leave_early(0);
	ok(count == -EDEADLK, "an exit cannot change hooks");
	hook_exit_deregister(&r);
}

/* ---- dynamic hooks ---- */

PROBED static long unprepared(long n, const int *v)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += v[i];
	return sum;
}

static int sees(struct hook *h, struct pt_regs *regs, long n, const int *v)
{
	count += n == 3 && v[0] == 10;
	regs->di = 2;
	return HOOK_CONTINUE;
}

static int refuses(struct hook *h, struct pt_regs *regs, long n, const int *v)
{
	regs_set_return_value(regs, (unsigned long)-EPERM);
	return n > 100 ? HOOK_RETURN : HOOK_CONTINUE;
}

static int any(struct hook *h, struct pt_regs *regs)
{
	count++;
	return HOOK_RETURN;
}

static void dynamic(void)
{
	static const int numbers[] = {10, 20, 30};
	const int *const volatile from = numbers, *v = from; /* so that it is really passed */
	struct hook_rec r1 = HOOK_EXIT(entering, sees, .flags = HOOK_PRIORITY_LAST), r2 = HOOK_EXIT(entering, refuses),
			r3 = HOOK_EXIT(anywhere, any);

	ok(hook_bind(&passing, "exe:unprepared", 0) == -EINVAL, "only dynamic hooks are bound");
	ok(hook_bind(&entering, "exe:no_such_function", 0) == -ENOENT && strstr(dp_kprobe_error(), "E-SYM-NONE"),
	   "a place that is not there: %s", dp_kprobe_error());
	ok(!hook_exit_register(&entering, &r1) && !hook_exit_register(&entering, &r2) && !hook_exit_arm(&r1),
	   "exits may come before the place");
	ok(unprepared(3, v) == 60, "and are not called yet");
	ok(!hook_bind(&entering, "exe:unprepared", 0), "bound: %s", dp_kprobe_error());
	ok(hook_bind(&entering, "exe:unprepared", 0) == -EBUSY && hook_unbind(&entering) == -EBUSY,
	   "once; and not away while exits are armed");
	count = 0;
	ok(unprepared(3, v) == 30 && count == 1, "an exit sees the arguments and changes one");
	ok(!hook_exit_arm(&r2) && unprepared(101, v) == -EPERM && unprepared(3, v) == 30 && count == 2,
	   "another one returns from the function");
	hook_exit_deregister(&r1);
	hook_exit_deregister(&r2);
	ok(unprepared(3, v) == 60 && !hook_unbind(&entering), "disarmed and unbound");
	ok(hook_unbind(&entering) == -EINVAL, "once");
	hook_exit_register(&anywhere, &r3);
	count = 0;
	ok(!hook_bind(&anywhere, NULL, (unsigned long)unprepared) && !hook_exit_arm(&r3), "by address");
	unprepared(3, v);
	ok(count == 1, "an exit that gets registers only");
	hook_exit_deregister(&r3);
	hook_unbind(&anywhere);
}

/* ---- shared objects ---- */

static int plus(struct hook *h, int *x)
{
	*x += 1;
	return HOOK_CONTINUE;
}

static void libraries(const char *path)
{
	for (int round = 0; round < 2; round++) {
		void *lib = dlopen(path, RTLD_NOW);
		int (*f)(int) = lib ? (int (*)(int))dlsym(lib, "plugin_work") : NULL;
		struct hook *h = lib ? dlsym(lib, "plugged") : NULL;
		struct hook_rec r = {.exit = (hook_any_exit_t)plus, .name = "plus"};

		if (!f || !h) {
			ok(0, "%s: %s", path, dlerror());
			return;
		}
		ok(f(1) == 10, "a hook in a library");
		ok(!hook_exit_register(h, &r) && !hook_exit_arm(&r) && f(1) == 13, "is armed, at all its places");
		dlclose(lib);
		ok(!r.hook && hook_exit_disarm(&r) == -EINVAL,
		   "when the library goes its exits are registered nowhere");
	}
}

static void forks(void)
{
	int status = 1;
	pid_t pid;

	hook_exit_register(&passing, &ra);
	hook_exit_arm(&ra);
	pid = fork();
	if (!pid) {
		int bad = strcmp(passed(), "a");

		bad |= hook_exit_deregister(&ra);
		_exit(bad || strcmp(passed(), ""));
	}
	waitpid(pid, &status, 0);
	ok(!status && !strcmp(passed(), "a"), "a child has its own hooks");
	hook_exit_deregister(&ra);
}

int main(int argc, char **argv)
{
	char path[4096];

	snprintf(path, sizeof(path), "%.*s/hook-plugin.so", (int)(strrchr(argv[0], '/') - argv[0]), argv[0]);
	order();
	group();
	values();
	kinds();
	altered();
	from_inside();
	dynamic();
	libraries(path);
	forks();
	return tap_done();
}
