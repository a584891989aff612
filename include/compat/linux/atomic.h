/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Counters that threads share. */
#ifndef DP_COMPAT_LINUX_ATOMIC_H
#define DP_COMPAT_LINUX_ATOMIC_H

typedef struct {
	int counter;
} atomic_t;
typedef struct {
	long counter;
} atomic_long_t;
typedef struct {
	long long counter;
} atomic64_t;

#define ATOMIC_INIT(v) {(v)}
#define ATOMIC_LONG_INIT(v) {(v)}
#define ATOMIC64_INIT(v) {(v)}

/* Those without a result order nothing; those with one order all, as in the kernel, and pair with each other. */
#define DP_COMPAT_ATOMIC(name, type, value)                                             \
	static inline value name##_read(const type *v)                                  \
	{                                                                               \
		return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);                  \
	}                                                                               \
	static inline void name##_set(type *v, value n)                                 \
	{                                                                               \
		__atomic_store_n(&v->counter, n, __ATOMIC_RELAXED);                     \
	}                                                                               \
	static inline void name##_add(value n, type *v)                                 \
	{                                                                               \
		__atomic_fetch_add(&v->counter, n, __ATOMIC_RELAXED);                   \
	}                                                                               \
	static inline void name##_sub(value n, type *v)                                 \
	{                                                                               \
		__atomic_fetch_sub(&v->counter, n, __ATOMIC_RELAXED);                   \
	}                                                                               \
	static inline void name##_inc(type *v)                                          \
	{                                                                               \
		name##_add(1, v);                                                       \
	}                                                                               \
	static inline void name##_dec(type *v)                                          \
	{                                                                               \
		name##_sub(1, v);                                                       \
	}                                                                               \
	static inline value name##_add_return(value n, type *v)                         \
	{                                                                               \
		return __atomic_add_fetch(&v->counter, n, __ATOMIC_SEQ_CST);            \
	}                                                                               \
	static inline value name##_inc_return(type *v)                                  \
	{                                                                               \
		return name##_add_return(1, v);                                         \
	}                                                                               \
	static inline value name##_dec_return(type *v)                                  \
	{                                                                               \
		return name##_add_return(-1, v);                                        \
	}                                                                               \
	static inline int name##_dec_and_test(type *v)                                  \
	{                                                                               \
		return !name##_dec_return(v);                                           \
	}

DP_COMPAT_ATOMIC(atomic, atomic_t, int)
DP_COMPAT_ATOMIC(atomic_long, atomic_long_t, long)
DP_COMPAT_ATOMIC(atomic64, atomic64_t, long long)

#endif
