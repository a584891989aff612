/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Parameters of a module: "name=value", separated by blanks, where `dprobes load` has put them: in the environment
 * variable DPROBES_MODULE_ARGS of a program that it starts; in a running process at an address that is the name of the
 * thread that loads the module, "dp:7f0123456789". Kinds: int, uint, long, ulong, bool, charp, and strings in arrays.
 */
#ifndef DP_COMPAT_LINUX_MODULEPARAM_H
#define DP_COMPAT_LINUX_MODULEPARAM_H

#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

#define DP_GET_NAME 16 /* PR_GET_NAME: <sys/prctl.h> wants other <linux/types.h> than ours */
int prctl(int option, ...);

enum dp_param_kind {
	DP_PARAM_int,
	DP_PARAM_uint,
	DP_PARAM_long,
	DP_PARAM_ulong,
	DP_PARAM_bool,
	DP_PARAM_charp,
	DP_PARAM_string
};

__attribute__((unused)) static const char *dp_param_all(void)
{
	const char *all = getenv("DPROBES_MODULE_ARGS");
	char name[17] = "", *end;
	unsigned long addr;

	if (all || prctl(DP_GET_NAME, name) || strncmp(name, "dp:", 3))
		return all;
	addr = strtoul(name + 3, &end, 16);
	return *end || strlen(name) != 15 ? NULL : (const char *)addr;
}

/* The value of a parameter as given, in memory of its own, or NULL. */
__attribute__((unused)) static char *dp_param_value(const char *name)
{
	const char *p = dp_param_all();
	size_t n = strlen(name);

	for (; p && *p; p += strcspn(p, " "), p += strspn(p, " "))
		if (!strncmp(p, name, n) && p[n] == '=')
			return strndup(p + n + 1, strcspn(p + n + 1, " "));
	return NULL;
}

__attribute__((unused)) static void dp_param_set(const char *name, enum dp_param_kind kind, void *to, size_t size)
{
	char *v = dp_param_value(name);

	if (!v)
		return;
	switch (kind) {
	case DP_PARAM_int:
		*(int *)to = (int)strtol(v, NULL, 0);
		break;
	case DP_PARAM_uint:
		*(unsigned *)to = (unsigned)strtoul(v, NULL, 0);
		break;
	case DP_PARAM_long:
		*(long *)to = strtol(v, NULL, 0);
		break;
	case DP_PARAM_ulong:
		*(unsigned long *)to = strtoul(v, NULL, 0);
		break;
	case DP_PARAM_bool:
		*(bool *)to = strchr("1yY", v[0]) != NULL && v[0];
		break;
	case DP_PARAM_charp:
		*(char **)to = v;
		return;
	case DP_PARAM_string:
		strncpy(to, v, size - 1);
		((char *)to)[size - 1] = '\0';
		break;
	}
	free(v);
}

#define DP_PARAM(name, kind, to, size)                                            \
	static void __attribute__((constructor(200), used)) dp_param_##name(void) \
	{                                                                         \
		dp_param_set(#name, kind, to, size);                              \
	}
#define module_param(name, type, perm) DP_PARAM(name, DP_PARAM_##type, &(name), sizeof(name))
#define module_param_named(name, var, type, perm) DP_PARAM(name, DP_PARAM_##type, &(var), sizeof(var))
#define module_param_string(name, array, len, perm) DP_PARAM(name, DP_PARAM_string, array, len)
#define MODULE_PARM_DESC(name, text)
#define S_IRUGO 0444

#endif
