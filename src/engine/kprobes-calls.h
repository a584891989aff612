/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The calls of the public headers, the same for each kind of probe; included once by each host, after
 *	DP_CALL(type, name)	the head of a function up to its parameters
 *	DP_EXPORT(name)		what has to follow it
 *	DP_REGISTER(v, num, type), DP_UNREGISTER(v, num), DP_DISABLE(kp, disabled)
 */
#define DP_CALLS(kind, letter)                                              \
	DP_CALL(int, register_##kind##s)(struct dp_##kind * *v, int num)    \
	{                                                                   \
		return DP_REGISTER(v, num, letter);                         \
	}                                                                   \
	DP_EXPORT(register_##kind##s)                                       \
	DP_CALL(void, unregister_##kind##s)(struct dp_##kind * *v, int num) \
	{                                                                   \
		DP_UNREGISTER(v, num);                                      \
	}                                                                   \
	DP_EXPORT(unregister_##kind##s)                                     \
	DP_CALL(int, register_##kind)(struct dp_##kind * p)                 \
	{                                                                   \
		return DP_REGISTER(&p, 1, letter);                          \
	}                                                                   \
	DP_EXPORT(register_##kind)                                          \
	DP_CALL(void, unregister_##kind)(struct dp_##kind * p)              \
	{                                                                   \
		DP_UNREGISTER(&p, 1);                                       \
	}                                                                   \
	DP_EXPORT(unregister_##kind)                                        \
	DP_CALL(int, disable_##kind)(struct dp_##kind * p)                  \
	{                                                                   \
		return DP_DISABLE((struct dp_kprobe *)p, true);             \
	}                                                                   \
	DP_EXPORT(disable_##kind)                                           \
	DP_CALL(int, enable_##kind)(struct dp_##kind * p)                   \
	{                                                                   \
		return DP_DISABLE((struct dp_kprobe *)p, false);            \
	}                                                                   \
	DP_EXPORT(enable_##kind)

DP_CALLS(kprobe, 'k')
DP_CALLS(kretprobe, 'r')
DP_CALLS(jprobe, 'j')
