/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The running kernel's symbols, as /proc/kallsyms shows them to root. */
#ifndef DP_KALLSYMS_H
#define DP_KALLSYMS_H

#include "base/error.h"

struct dp_ksym {
	u64 addr;
	const char *name;
	const char *module; /* "" for the kernel itself */
	u64 size;           /* of dp_kernel_module_each() alone */
};

/*
 * Every function whose name matches a pattern of the shell, in the kernel itself (module NULL) or in a
 * module, in the file's order; until fn returns something else than 0, which is then returned.
 * E_KERNEL_LOOKUP when the addresses are hidden.
 */
int dp_kallsyms_each(const char *module, const char *pattern, int (*fn)(const struct dp_ksym *sym, void *arg),
		     void *arg, struct dp_error *err);

/*
 * The same for a module that is not loaded, by its file in /lib/modules: addresses are 0, and names that several of its
 * functions have are left out. E_KERNEL_SYMBOL when it has no file.
 */
int dp_kernel_module_each(const char *module, const char *pattern, int (*fn)(const struct dp_ksym *sym, void *arg),
			  void *arg, struct dp_error *err);
/* The content of a section of that file; NULL: there is none. free() it. */
void *dp_kernel_module_section(const char *module, const char *section, size_t *size);
bool dp_kernel_module_loaded(const char *module);
bool dp_kernel_module_has_file(const char *module);
bool dp_kernel_module_file(const char *module, char *path, size_t size);

/* The same for data, of the kernel and of all its modules. */
int dp_kallsyms_each_data(const char *pattern, int (*fn)(const struct dp_ksym *sym, void *arg), void *arg,
			  struct dp_error *err);

/* Any symbol, of the kernel itself rather than of a module; "module:name" of that one. E_KERNEL_SYMBOL. */
int dp_kallsyms_find(const char *name, u64 *addr, struct dp_error *err);
/* Those that are like it, as the error's hint. */
void dp_kallsyms_suggest(const char *name, struct dp_error *err);

/*
 * The build-id of the running kernel (module NULL) or of one of its modules, as lower-case hex. False when there is
 * none, or the module is not loaded.
 */
bool dp_kernel_build_id(const char *module, char *hex, size_t size);

/*
 * The file with the debug information of the running kernel (module NULL) or of one of its modules: of its package, of
 * who has built it here, or from the servers of DEBUGINFOD_URLS. E_LINE_NODEBUG, with what can be done.
 */
struct dp_module;
int dp_kernel_debug_open(const char *module, struct dp_module **m, struct dp_error *err);

/* __pfx_NAME and __cfi_NAME are no functions, but what compilers put in front of them. Of a pattern none is meant. */
bool dp_ksym_is_front(const char *name, const char *pattern);

#endif
