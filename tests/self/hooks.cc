/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Hooks in C++: inline functions that several files have, templates, exceptions out of exits. */
#include <cstring>
#include <stdexcept>
#include <string>

#include "dprobes/hooks.h"
#include "hooks-cc.h"
#include "tap.h"

DECLARE_HOOK(shared, int *);
DECLARE_HOOK(asked, const char **, int);
DECLARE_DYNAMIC_HOOK(entering, int, const char *);

static int twice(struct hook *, int *x)
{
	*x *= 2;
	return HOOK_CONTINUE;
}

static int throws(struct hook *, int *x)
{
	if (*x > 100)
		throw std::runtime_error("too much");
	return HOOK_CONTINUE;
}

static int says(struct hook *, const char **value, int x)
{
	*value = x ? "yes" : "no";
	return HOOK_RETURN;
}

PROBED static const char *ask(int x)
{
	HOOK_RET(asked, x);
	return "nobody";
}

template <class T> static T with_hook(T x)
{
	int y = static_cast<int>(x);

	HOOK(shared, &y);
	return static_cast<T>(y);
}

static int seen;

static int sees(struct hook *, struct pt_regs *, int n, const char *s)
{
	seen = n == 4 && !std::strcmp(s, "text");
	return HOOK_CONTINUE;
}

extern "C" PROBED int unprepared(int n, const char *s)
{
	return n + s[0];
}

int main()
{
	static struct hook_rec r1 = HOOK_EXIT(shared, twice, .name = "twice");
	static struct hook_rec r2 = HOOK_EXIT(shared, throws), r3 = HOOK_EXIT(asked, says),
			       r4 = HOOK_EXIT(entering, sees);
	bool caught = false;

	hook_exit_register(&shared, &r1);
	hook_exit_register(&shared, &r2);
	hook_exit_register(&asked, &r3);
	ok(shared_inline(5) == 5 && other_file(5) == 5 && with_hook(2.0) == 2.0, "idle");
	hook_exit_arm(&r1);
	ok(shared_inline(5) == 10 && other_file(5) == 10 && with_hook(2.0) == 4.0 &&
	       with_hook('a') == static_cast<char>('a' * 2),
	   "inline functions and templates");
	hook_exit_arm(&r2);
	try {
		shared_inline(60);
	} catch (const std::runtime_error &) {
		caught = true;
	}
	ok(caught, "an exception comes out of an exit");
	ok(!hook_exit_deregister(&r2) && !hook_exit_deregister(&r1),
	   "and nobody waits for it for ever");
	ok(!hook_exit_arm(&r3) && !std::strcmp(ask(1), "yes"), "a value of another type");
	hook_exit_deregister(&r3);
	ok(!std::strcmp(ask(1), "nobody"), "idle again");
	ok(!hook_bind(&entering, "exe:unprepared", 0) && !hook_exit_register(&entering, &r4) &&
	       !hook_exit_arm(&r4) && unprepared(4, "text") && seen,
	   "a dynamic hook");
	hook_exit_deregister(&r4);
	return tap_done();
}
