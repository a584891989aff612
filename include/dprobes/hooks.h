/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Hooks: places in code that call out to routines ("exits") which others register later, and that
 * cost one 5-byte instruction while no exit is armed. The same header is for programs (link with
 * -ldprobes) and for kernel modules (dprobes.ko); doc/hooks.md tells how it works.
 *
 * In the module that is hooked:
 *
 *	DECLARE_HOOK(file_open, const char *, int *);
 *	...
 *	int flags = O_RDONLY;
 *	HOOK(file_open, path, &flags);
 *
 * In the module that brings an exit:
 *
 *	USE_HOOK(file_open, const char *, int *);
 *	static int audit(struct hook *h, const char *path, int *flags)
 *	{
 *		*flags |= O_CLOEXEC;
 *		return HOOK_CONTINUE;
 *	}
 *	static struct hook_rec rec = HOOK_EXIT(file_open, audit, .name = "audit");
 *
 *	hook_exit_register(&file_open, &rec);
 *	hook_exit_arm(&rec);
 *
 * What follows a hook's name are the types of its arguments (at most eight, types only). Everything
 * is checked against them by the compiler: the arguments of HOOK(), and the exit that HOOK_EXIT()
 * puts into a record.
 *
 * Threads: hooks may be passed and exits may be registered, armed, disarmed and removed by any
 * threads at any time. The functions below may sleep and must not be called from an exit. An exit
 * must return: no longjmp. Exits run on the thread that passes the hook, on several threads at the
 * same time; in the kernel with preemption off, so they must not sleep there.
 */
#ifndef DPROBES_HOOKS_H
#define DPROBES_HOOKS_H

#ifdef __KERNEL__
#include <linux/export.h>
#include <linux/preempt.h>

#include "dprobes/kernel.h"
#else
#include <dprobes/kprobes.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What an exit returns. */
#define HOOK_CONTINUE 0  /* the next exit is called */
#define HOOK_TERMINATE 1 /* no more exits are called; the hooked code goes on */
#define HOOK_RETURN (-1) /* the same, and the hooked function returns: see HOOK_RET() */

/*
 * Of an exit's record. Only one exit of a hook can be first, and only one last; between them they
 * stand in the order in which they came, with QUEUE_LIFO ahead of those that are there.
 */
#define HOOK_ARMED 0x1u /* read only, but an exit may clear it to disarm itself */
#define HOOK_PRIORITY_FIRST 0x4u
#define HOOK_PRIORITY_LAST 0x8u
#define HOOK_QUEUE_LIFO 0x10u
/* Of a hook. */
#define HOOK_ACTIVE 0x80000000u    /* an exit is armed */
#define HOOK_ASM 0x40000000u       /* its places are changed, they do not test memory */
#define HOOK_EXCLUSIVE 0x20000000u /* it takes one exit */
#define HOOK_OPEN 0x10000000u      /* active without an exit: `dprobes hooks --arm HOOK` */

/* Errors of hook_exit_register() besides negative errnos, as negative numbers. */
#define HOOK_EPRIORITY 1       /* the hook is exclusive and has an exit */
#define HOOK_EPRIORITY_FIRST 2 /* there is a first exit already */
#define HOOK_EPRIORITY_LAST 4  /* there is a last exit already */

struct hook;
struct hook_rec;
typedef void (*hook_any_exit_t)(void); /* stands for an exit of any type */

/*
 * One exit. Zero what is not used; must stay where it is until it is deregistered. Filled in by
 * HOOK_EXIT(), one record for each hook.
 */
struct hook_rec {
	hook_any_exit_t exit;
	struct hook *of;       /* the hook that exit was checked against; NULL: unchecked */
	const char *name;      /* shown in lists; NULL: its address is shown */
	unsigned int flags;    /* HOOK_ARMED, HOOK_PRIORITY_*, HOOK_QUEUE_LIFO */
	int writable;          /* may be armed and disarmed from outside: by files, by `dprobes hooks` */
	int position;          /* read only: 1 for the first that is called, and so on */
	struct hook *hook;     /* private: where it is registered */
	struct hook_rec *next; /* private. Atomic */
};

struct hook {                   /* read only */
	struct hook_rec *exits; /* in the order of calls. Atomic */
	unsigned int flags;
	const char *name;
	int (*hit)(struct hook *hook, struct pt_regs *regs); /* of a dynamic hook */
	void *place;                                         /* private: where it is bound */
	struct hook *next;                                   /* private */
};

/*
 * Make an exit known to a hook, disarmed. rec must be zeroed but for what is to be said. Errors:
 * -HOOK_EPRIORITY, -HOOK_EPRIORITY_FIRST, -HOOK_EPRIORITY_LAST; -EINVAL (no exit, a record for
 * another hook, one that is registered, first and last at once); -EDEADLK (called from an exit). In
 * a program dp_kprobe_error() tells the reason in words.
 */
int hook_exit_register(struct hook *hook, struct hook_rec *rec);
/* Disarm it and take it away. When this returns the exit does not run any more, and rec may go.
 * -EINVAL when it is not registered. */
int hook_exit_deregister(struct hook_rec *rec);
/*
 * Let it be called. -EINVAL when it is not registered; -EBUSY when the code of one of the hook's
 * places is not as it was (a debugger's breakpoint stands there): then nothing is armed. A dynamic
 * hook: also the errors of register_kprobe().
 */
int hook_exit_arm(struct hook_rec *rec);
/* Do not call it any more; calls under way on other threads may go on for a while. */
int hook_exit_disarm(struct hook_rec *rec);
/* Several at once: their places are changed together. All of them or, on an error, none. */
int hook_exits_arm(struct hook_rec **recs, int num);
int hook_exits_disarm(struct hook_rec **recs, int num);

/*
 * Where a dynamic hook is (see DECLARE_DYNAMIC_HOOK): "function" or "module:function" plus offset;
 * with symbol NULL offset is the address. As for a kprobe: a named module need not be loaded yet.
 * Nothing is changed there before the first exit is armed. Errors: those of register_kprobe(),
 * -EINVAL (not a dynamic hook), -EBUSY (bound already). symbol is copied.
 */
int hook_bind(struct hook *hook, const char *symbol, unsigned long offset);
/* -EBUSY while exits are armed; -EINVAL when it is not bound. */
int hook_unbind(struct hook *hook);

/* ---- inside ---- */

struct hook_site { /* one place where a hook is passed, in the section dprobes_hooks */
	int code;  /* the instruction, as a distance from here */
	int armed; /* where it leads when armed, the same */
	struct hook *hook;
};

#define HOOK_CAT2_(a, b) a##b
#define HOOK_CAT_(a, b) HOOK_CAT2_(a, b)
#define HOOK_9TH_(z, a, b, c, d, e, f, g, h, n, ...) n
#define HOOK_COUNT_(...) HOOK_9TH_(0 __VA_OPT__(, ) __VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define HOOK_FIRST_(first, ...) first
/* m(type, number) for each type, with commas between. */
#define HOOK_MAP_(m, ...) HOOK_CAT_(HOOK_MAP_, HOOK_COUNT_(__VA_ARGS__))(m __VA_OPT__(, ) __VA_ARGS__)
#define HOOK_MAP_0(m)
#define HOOK_MAP_1(m, a) m(a, 0)
#define HOOK_MAP_2(m, a, b) m(a, 0), m(b, 1)
#define HOOK_MAP_3(m, a, b, c) m(a, 0), m(b, 1), m(c, 2)
#define HOOK_MAP_4(m, a, b, c, d) m(a, 0), m(b, 1), m(c, 2), m(d, 3)
#define HOOK_MAP_5(m, a, b, c, d, e) m(a, 0), m(b, 1), m(c, 2), m(d, 3), m(e, 4)
#define HOOK_MAP_6(m, a, b, c, d, e, f) m(a, 0), m(b, 1), m(c, 2), m(d, 3), m(e, 4), m(f, 5)
#define HOOK_MAP_7(m, a, b, c, d, e, f, g) m(a, 0), m(b, 1), m(c, 2), m(d, 3), m(e, 4), m(f, 5), m(g, 6)
#define HOOK_MAP_8(m, a, b, c, d, e, f, g, h) m(a, 0), m(b, 1), m(c, 2), m(d, 3), m(e, 4), m(f, 5), m(g, 6), m(h, 7)
#define HOOK_PARAMETER_(type, n) __typeof__(type) a##n
#define HOOK_ARGUMENT_(type, n) a##n
/* A floating point argument is not in the register that is looked at: it does not compile. */
#define HOOK_IS_INTEGER_(type) (sizeof(type) <= 8 && __builtin_classify_type((__typeof__(type))0) <= 5)
#define HOOK_FROM_REGS_(type, n) \
	(__typeof__(type))((void)sizeof(char[HOOK_IS_INTEGER_(type) ? 1 : -1]), regs_get_kernel_argument(regs_, n))

#ifdef __cplusplus
#define HOOK_EXTERN_ extern "C"
#define HOOK_CHECKED_(hook, exit) ((hook_any_exit_t) static_cast<hook##_exit_t *>(exit))
#else
#define HOOK_EXTERN_ extern
#define HOOK_CHECKED_(hook, exit) ((hook_any_exit_t) _Generic((exit), hook##_exit_t * : (exit)))
#endif

#ifdef __KERNEL__
#include <asm/asm.h>
#if __has_include(<linux/objtool.h>)
#include <linux/objtool.h>
#endif
#ifdef ANNOTATE_NOENDBR /* for those who look for landing pads: no branch leads there */
#define HOOK_NO_PAD_ ANNOTATE_NOENDBR "\n"
#else
#define HOOK_NO_PAD_ ""
#endif
/*
 * Modules have no symbols for the ends of their sections, and a checker of control flow: the place
 * is an entry of the exception table (which an instruction that cannot fault has no other use for),
 * and leads to an instruction that names the hook.
 */
#define HOOK_SITE_(name, armed)                                                                 \
	__asm__ goto("1:\t.byte 0xa9\n\t.long 2f - . - 4\n"                                     \
		     "\t.pushsection .text.unlikely, \"ax\"\n" HOOK_NO_PAD_ "2:\ttestq $" #name \
		     ", %%rax\n\tjmp %l[" #armed "]\n\t.popsection\n" _ASM_EXTABLE(1b, 2b)      \
		     :                                                                          \
		     :                                                                          \
		     : "cc"                                                                     \
		     : armed)
#define HOOK_ENTER_() preempt_disable_notrace()
#define HOOK_LEAVE_() preempt_enable_notrace()
#define HOOK_EXPORT_(symbol) EXPORT_SYMBOL_GPL(symbol);
#define HOOK_LISTED_(name)
#define HOOK_PUBLIC_
#else
#define HOOK_SITE_(name, armed)                                                        \
	__asm__ goto("1:\t.byte 0xa9\n\t.long %l[" #armed "] - . - 4\n"                \
		     "\t.pushsection dprobes_hooks, \"aw?\"\n\t.balign 8\n"            \
		     "\t.long 1b - .\n\t.long %l[" #armed "] - .\n\t.quad " #name "\n" \
		     "\t.popsection"                                                   \
		     :                                                                 \
		     :                                                                 \
		     : "cc"                                                            \
		     : armed)

/* The calling thread, as those see it who wait until an exit does not run any more. */
struct hook_thread {
	unsigned int depth; /* >0: in exits. Atomic */
	unsigned long seq;  /* times it went in. Atomic */
};
extern __thread struct hook_thread *dp_hook_me __attribute__((tls_model("initial-exec")));
struct hook_thread *dp_hook_thread(void); /* the first time; NULL: no room */

static inline struct hook_thread *dp_hook_enter(void)
{
	struct hook_thread *t = dp_hook_me;
	unsigned int depth;

	if (__builtin_expect(!t, 0) && !(t = dp_hook_thread()))
		return t;
	depth = t->depth;
	if (__builtin_expect(!depth, 1))
		__atomic_store_n(&t->seq, t->seq + 1, __ATOMIC_RELAXED);
	/* The processor may still read the list first. The fence pairs with the membarrier that who waits has raised
	 * before it looks. */
	__atomic_store_n(&t->depth, depth + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return t;
}

static inline void dp_hook_leave(struct hook_thread **t)
{
	if (!*t)
		return;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/* Release: pairs with the acquire of who waits for it. */
	__atomic_store_n(&(*t)->depth, (*t)->depth - 1, __ATOMIC_RELEASE);
}

/* An exception that comes out of an exit leaves, too. */
#define HOOK_ENTER_()                                                                          \
	struct hook_thread *thread_ __attribute__((cleanup(dp_hook_leave))) = dp_hook_enter(); \
	if (!thread_)                                                                          \
	return HOOK_CONTINUE
#define HOOK_LEAVE_() (void)0
#define HOOK_EXPORT_(symbol)
#define HOOK_PUBLIC_ __attribute__((visibility("default")))
#define HOOK_LISTED_(name) \
	static struct hook *name##_hook_listed __attribute__((section("dprobes_heads"), used)) = &name;

#ifndef DPROBES_HOOKS_INSIDE
/* Tell the library what this program or shared object has, and that it goes. */
void dp_hook_module(struct hook_site *first, struct hook_site *end, struct hook **heads, struct hook **heads_end,
		    int comes);
extern struct hook_site __start_dprobes_hooks[] __attribute__((weak, visibility("hidden"))),
    __stop_dprobes_hooks[] __attribute__((weak, visibility("hidden")));
extern struct hook *__start_dprobes_heads[] __attribute__((weak, visibility("hidden"))),
    *__stop_dprobes_heads[] __attribute__((weak, visibility("hidden")));

static void __attribute__((constructor, used)) dp_hook_module_comes(void)
{
	dp_hook_module(__start_dprobes_hooks, __stop_dprobes_hooks, __start_dprobes_heads, __stop_dprobes_heads, 1);
}

static void __attribute__((destructor, used)) dp_hook_module_goes(void)
{
	dp_hook_module(__start_dprobes_hooks, __stop_dprobes_hooks, __start_dprobes_heads, __stop_dprobes_heads, 0);
}
#endif
#endif

/* Whether the place where this stands is armed: "test $x, %eax" falls through, the jump that
 * differs from it in one bit does not. */
#ifdef __clang__
#define HOOK_COLD_LABEL_
#else
#define HOOK_COLD_LABEL_ __attribute__((cold))
#endif
#define HOOK_TRY_(name, is, armed, out) \
	HOOK_SITE_(name, armed);        \
	goto out;                       \
	armed:                          \
	HOOK_COLD_LABEL_;               \
	is = 1;                         \
	out:;
#if defined(__clang__) && defined(__cplusplus)
/* Clang takes every label for a target of every asm goto of a function: one function for each. */
#define HOOK_ARMED_HERE_(name)                     \
	[]() __attribute__((always_inline))        \
	{                                          \
		int is_ = 0;                       \
		HOOK_TRY_(name, is_, armed_, out_) \
		return is_;                        \
	}                                          \
	()
#else
#define HOOK_ARMED_HERE_(name)                     \
	({                                         \
		__label__ armed_, out_;            \
		int is_ = 0;                       \
		HOOK_TRY_(name, is_, armed_, out_) \
		is_;                               \
	})
#endif
#define HOOK_ACTIVE_(name) ((__atomic_load_n(&(name).flags, __ATOMIC_RELAXED) & HOOK_ACTIVE) != 0)

/*
 * May be repeated: USE_ and DECLARE_ of one hook meet where the latter is. The function that calls
 * the exits has their type, so that it finds their arguments in place.
 */
#define HOOK_USE_(name, call, ...)                                                           \
	typedef int name##_exit_t(struct hook *__VA_OPT__(, ) __VA_ARGS__);                  \
	typedef __typeof__(HOOK_FIRST_(__VA_ARGS__ __VA_OPT__(, ) void *, )) name##_first_t; \
	HOOK_EXTERN_ HOOK_PUBLIC_ name##_exit_t name##call;                                  \
	HOOK_EXTERN_ HOOK_PUBLIC_ struct hook name

#define HOOK_CALL_ONE_(name, rec, ...)                                                      \
	(__builtin_expect(__atomic_load_n(&(rec)->flags, __ATOMIC_RELAXED) & HOOK_ARMED, 1) \
	     ? ((name##_exit_t *)(rec)->exit)(__VA_ARGS__)                                  \
	     : HOOK_CONTINUE)
/* Pairs with the release by which a record comes into the list. */
#define HOOK_CALL_ALL_(name, list, ...)                                                       \
	for (struct hook_rec *rec_ = __atomic_load_n(&(list)->exits, __ATOMIC_ACQUIRE); rec_; \
	     rec_ = __atomic_load_n(&rec_->next, __ATOMIC_ACQUIRE)) {                         \
		r_ = HOOK_CALL_ONE_(name, rec_, __VA_ARGS__);                                 \
		if (r_ != HOOK_CONTINUE)                                                      \
			break;                                                                \
	}
#define HOOK_CALL_FIRST_(name, list, ...)                                                  \
	do {                                                                               \
		struct hook_rec *rec_ = __atomic_load_n(&(list)->exits, __ATOMIC_ACQUIRE); \
		if (__builtin_expect(!!rec_, 1))                                           \
			r_ = HOOK_CALL_ONE_(name, rec_, __VA_ARGS__);                      \
	} while (0)

#define HOOK_DEFINE_(name, call, kind, method, ...)                                               \
	HOOK_USE_(name, call, __VA_ARGS__);                                                       \
	int name##call(struct hook *hook_ __VA_OPT__(, ) HOOK_MAP_(HOOK_PARAMETER_, __VA_ARGS__)) \
	{                                                                                         \
		int r_ = HOOK_CONTINUE;                                                           \
		HOOK_ENTER_();                                                                    \
		method(name, hook_, hook_ __VA_OPT__(, ) HOOK_MAP_(HOOK_ARGUMENT_, __VA_ARGS__)); \
		HOOK_LEAVE_();                                                                    \
		return r_;                                                                        \
	}                                                                                         \
	HOOK_EXPORT_(name##call)                                                                  \
	HOOK_HEAD_(name, kind, NULL)

#define HOOK_HEAD_(name, kind, hit)                              \
	struct hook name = {NULL, kind, #name, hit, NULL, NULL}; \
	HOOK_EXPORT_(name)                                       \
	HOOK_LISTED_(name)                                       \
	HOOK_EXTERN_ HOOK_PUBLIC_ struct hook name

/* Returns from a function with a value that an exit has given, or without one. (&call: what is not
 * declared is an error.) */
#define HOOK_RETURN_IF_(active, name, call, ...)                                                  \
	do {                                                                                      \
		if (__builtin_expect(active, 0)) {                                                \
			__typeof__(*(name##_first_t)0) rc_;                                       \
			__builtin_memset((void *)&rc_, 0, sizeof(rc_));                           \
			if ((&name##call)(&name, &rc_ __VA_OPT__(, ) __VA_ARGS__) == HOOK_RETURN) \
				return rc_;                                                       \
		}                                                                                 \
	} while (0)
#define HOOK_LEAVE_IF_(active, name, call, ...)                                                                    \
	do {                                                                                                       \
		if (__builtin_expect(active, 0) && (&name##call)(&name __VA_OPT__(, ) __VA_ARGS__) == HOOK_RETURN) \
			return;                                                                                    \
	} while (0)
#define HOOK_PASS_(active, name, call, ...)                                    \
	do {                                                                   \
		if (__builtin_expect(active, 0))                               \
			(void)(&name##call)(&name __VA_OPT__(, ) __VA_ARGS__); \
	} while (0)

/* ---- declaring hooks, at file scope ---- */

/* Define a hook; all other modules may use it. */
#define DECLARE_HOOK(name, ...) HOOK_DEFINE_(name, _hook_call, HOOK_ASM, HOOK_CALL_ALL_, __VA_ARGS__)
/* One that takes one exit, and calls it faster. */
#define DECLARE_EXCLUSIVE_HOOK(name, ...) \
	HOOK_DEFINE_(name, _exclusive_call, HOOK_ASM | HOOK_EXCLUSIVE, HOOK_CALL_FIRST_, __VA_ARGS__)
/* One whose places test memory instead of being changed: for compilers without asm goto, code
 * that must not be changed, or that is copied at run time. */
#define DECLARE_GENERIC_HOOK(name, ...) HOOK_DEFINE_(name, _generic_call, 0, HOOK_CALL_ALL_, __VA_ARGS__)

/* The hook is defined elsewhere: the same types. */
#define USE_HOOK(name, ...) HOOK_USE_(name, _hook_call, __VA_ARGS__)
#define USE_EXCLUSIVE_HOOK(name, ...) HOOK_USE_(name, _exclusive_call, __VA_ARGS__)
#define USE_GENERIC_HOOK(name, ...) HOOK_USE_(name, _generic_call, __VA_ARGS__)

/*
 * A hook in code that knows nothing of it: hook_bind() says where. Its exits get the registers, which
 * they may change, and then the arguments of the function at whose entry it is bound, of the types
 * that are given here (integers and pointers; none where it is bound elsewhere):
 *
 *	DECLARE_DYNAMIC_HOOK(opening, int, const char *);
 *	static int audit(struct hook *h, struct pt_regs *regs, int dir, const char *path);
 *	hook_bind(&opening, "libc:openat", 0);
 *
 * At a function's entry HOOK_RETURN returns from the function with what regs_set_return_value() has
 * set; elsewhere it is HOOK_TERMINATE. What is said of handlers in kprobes.h (kernel.h) is true of
 * the exits: they run in one.
 */
#define DECLARE_DYNAMIC_HOOK(name, ...)                                                                           \
	HOOK_USE_(name, _dynamic_hit, struct pt_regs *__VA_OPT__(, ) __VA_ARGS__);                                \
	static int name##_hook_hit(struct hook *hook_, struct pt_regs *regs_)                                     \
	{                                                                                                         \
		int r_ = HOOK_CONTINUE;                                                                           \
		HOOK_ENTER_();                                                                                    \
		HOOK_CALL_ALL_(name, hook_, hook_, regs_ __VA_OPT__(, ) HOOK_MAP_(HOOK_FROM_REGS_, __VA_ARGS__)); \
		HOOK_LEAVE_();                                                                                    \
		return r_;                                                                                        \
	}                                                                                                         \
	HOOK_HEAD_(name, 0, name##_hook_hit)
#define USE_DYNAMIC_HOOK(name, ...) HOOK_USE_(name, _dynamic_hit, struct pt_regs *__VA_OPT__(, ) __VA_ARGS__)

/* ---- passing hooks ---- */

/* Call the exits, if any are armed; then the code goes on. */
#define HOOK(name, ...) HOOK_PASS_(HOOK_ARMED_HERE_(name), name, _hook_call, __VA_ARGS__)
/*
 * The same, and when an exit returns HOOK_RETURN the function in which this stands returns. HOOK_RET:
 * the hook's first type is a pointer to what the function returns; it is not among the arguments
 * here, exits get it ahead of them, and what they store there is returned (else 0).
 */
#define HOOK_RET(name, ...) HOOK_RETURN_IF_(HOOK_ARMED_HERE_(name), name, _hook_call, __VA_ARGS__)
#define HOOK_RET_NORC(name, ...) HOOK_LEAVE_IF_(HOOK_ARMED_HERE_(name), name, _hook_call, __VA_ARGS__)
#define EXCLUSIVE_HOOK(name, ...) HOOK_PASS_(HOOK_ARMED_HERE_(name), name, _exclusive_call, __VA_ARGS__)
#define EXCLUSIVE_HOOK_RET(name, ...) HOOK_RETURN_IF_(HOOK_ARMED_HERE_(name), name, _exclusive_call, __VA_ARGS__)
#define EXCLUSIVE_HOOK_RET_NORC(name, ...) HOOK_LEAVE_IF_(HOOK_ARMED_HERE_(name), name, _exclusive_call, __VA_ARGS__)
#define GENERIC_HOOK(name, ...) HOOK_PASS_(HOOK_ACTIVE_(name), name, _generic_call, __VA_ARGS__)
#define GENERIC_HOOK_RET(name, ...) HOOK_RETURN_IF_(HOOK_ACTIVE_(name), name, _generic_call, __VA_ARGS__)
#define GENERIC_HOOK_RET_NORC(name, ...) HOOK_LEAVE_IF_(HOOK_ACTIVE_(name), name, _generic_call, __VA_ARGS__)

/*
 * The contents of a record for an exit of a hook; what follows are more members of struct hook_rec.
 * The exit must have the hook's type, or it does not compile.
 */
#define HOOK_EXIT(name, fn, ...)                                                         \
	{                                                                                \
		.exit = HOOK_CHECKED_(name, fn), .of = &(name)__VA_OPT__(, ) __VA_ARGS__ \
	}

#ifdef __cplusplus
}
#endif
#endif
