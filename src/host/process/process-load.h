/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Shared objects into a running process and out of it, by the process's own dynamic linker. For programs that are
 * linked dynamically with glibc 2.34 or later; others are refused and stay as they were.
 */
#ifndef DP_LOAD_H
#define DP_LOAD_H

#include <sys/types.h>

#include "base/error.h"

/*
 * dlopen() or dlclose() the file, an absolute path, in process pid; returns when constructors or destructors have run.
 * A thread that sleeps in a system call starts a thread for it, and goes on sleeping. args: parameters of a module,
 * "a=1 b=2", which its constructors find (include/compat/linux/moduleparam.h). Errors: E_PROC_*, E_TARGET_*, E_LOAD_*.
 */
int dp_load_object(pid_t pid, const char *path, const char *args, bool unload, struct dp_error *err);
/* Bytes that all registers of a thread take, which is what this needs to know (xsave); 0: this machine does not say. */
unsigned dp_load_state(void);

#endif
