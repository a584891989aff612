/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Names and files: ELF modules, their symbols, functions and original code bytes, and the modules
 * of a process. Control side only; built on elfutils. Not thread safe; a module may be shared
 * read-only by threads after dp_module_analyse() has been called for it.
 */
#ifndef DP_SYMBOLS_H
#define DP_SYMBOLS_H

#include <sys/types.h>

#include "arch/arch.h"
#include "base/error.h"

struct dp_symbol {
	const char *name; /* lives as long as the module; "" when the function has no symbol */
	u64 addr;         /* link-time address */
	u64 size;         /* bytes; from .eh_frame where the symbol has none; 0 unknown */
	bool is_func;
	bool is_ifunc;
	bool is_exported; /* in .dynsym */
	bool is_data;
};

/*
 * A symbol's name as people read it: of C++ and older Rust as the source has it, with its parameters or without
 * (NAMESPACE::CLASS::FUNCTION, which the other functions take as well); else the name. In buf, or name itself; what is
 * longer than size is cut. Any thread.
 */
#define DP_SHOWN_MAX 512
const char *dp_symbol_shown(const char *name, bool params, char *buf, size_t size);

struct dp_module; /* one ELF file, opened */

/*
 * Open the ELF file at path. 64-bit x86 executables and shared objects only.
 * Errors: E_FILE_OPEN, E_ELF_BAD, E_ELF_MACHINE (e.g. 32-bit).
 * Symbols come from .symtab, .dynsym, .gopclntab-described functions where there is no symtab,
 * a mini debug info section (.gnu_debugdata) and separate debug files (build-id, debuglink) under
 * /usr/lib/debug when they are present.
 */
int dp_module_open(struct dp_module **m, const char *path, struct dp_error *err);

/* The same for an open descriptor (kept duplicated); name is used in messages. */
int dp_module_open_fd(struct dp_module **m, int fd, const char *name, struct dp_error *err);
/*
 * The same, but a file that is open by this function under that name, and was not changed since, is not opened again: a
 * thousand processes that map it have one module.
 */
int dp_module_share_fd(struct dp_module **m, int fd, const char *name, struct dp_error *err);
void dp_module_close(struct dp_module *m);

/* Whether the library is installed that asks the servers of DEBUGINFOD_URLS. */
bool dp_debuginfod_there(void);

const char *dp_module_path(const struct dp_module *m);
const char *dp_module_base(const struct dp_module *m);     /* last path component */
const char *dp_module_build_id(const struct dp_module *m); /* lower-case hex, or "" */
/* What tells one build from another: the build-id; without one a sum of the code, "sum-" and hex. */
const char *dp_module_identity(struct dp_module *m);
bool dp_module_is_pie_or_dso(const struct dp_module *m); /* ET_DYN */
bool dp_module_is_go(const struct dp_module *m);

/* Whether the function at that address returns a floating point number; false also where that is not known. */
bool dp_var_returns_real(struct dp_module *m, u64 addr);
/* Whether a function of Go returns, first or alone, a number or address of 8 bytes in the register of C's results. */
bool dp_var_returns_go_word(struct dp_module *m, u64 addr);
bool dp_module_has_symtab(const struct dp_module *m); /* false: stripped */

/* File offset <-> link-time address through the PT_LOAD segments; false when outside. */
bool dp_module_offset_to_addr(const struct dp_module *m, u64 offset, u64 *addr);
/* What a number names: an offset in the file or, where it is none, a link-time address, as `funcs FILE` shows it. */
bool dp_module_number_to_addr(const struct dp_module *m, u64 number, u64 *addr);
bool dp_module_addr_to_offset(const struct dp_module *m, u64 addr, u64 *offset);

/* Lowest p_vaddr of the PT_LOAD segments, rounded down to a page (0 for PIE). */
u64 dp_module_lowest(const struct dp_module *m);

/*
 * Find a symbol by its exact name ("name@VERSION" also matches; local ones too; a C++ name also in
 * demangled form). E_SYM_NONE with the nearest names as the hint; E_SYM_AMBIGUOUS when several
 * local functions share the name at different addresses (hint: their addresses). Without err a name that a large file
 * lacks costs little, as nothing is looked for that resembles it.
 */
int dp_module_symbol(struct dp_module *m, const char *name, struct dp_symbol *out, struct dp_error *err);

/* The function (preferred) or object that contains addr; false when none. */
bool dp_module_symbol_at(struct dp_module *m, u64 addr, struct dp_symbol *out);

/*
 * Call fn for each function (symbols united with .eh_frame ranges, one call per start address,
 * sorted by address) whose name matches the shell pattern (NULL: all). Parts of functions and stubs
 * of imported ones are left out unless the pattern contains ".cold" or "@plt"; functions without a
 * name (stripped) are given for NULL only. NULL needs dp_module_analyse(). fn
 * returns non-zero to stop; that value is returned.
 */
int dp_module_each_func(struct dp_module *m, const char *pattern, int (*fn)(const struct dp_symbol *sym, void *arg),
			void *arg);

/*
 * The executable range that contains addr: original bytes from the file, function bounds, possible branch targets
 * (direct branches, jump tables, landing pads, code addresses in data and relocations of the whole module). Targets,
 * starts of instructions and flags are complete for the function that contains addr, and elsewhere only after
 * dp_module_analyse(). The range lives as long as the module.
 * Errors: E_SITE_NOTEXT.
 */
int dp_module_text(struct dp_module *m, u64 addr, const struct dp_text **text, struct dp_error *err);

/* Analyse the whole module, for those who want to look at all of its functions. Computed once. */
int dp_module_analyse(struct dp_module *m, struct dp_error *err);

/*
 * Exits of the function at addr: every ret and every jump that leaves it (tail call), also those of
 * its parts elsewhere (NAME.cold). At most max link-time addresses are stored; returns their number
 * (0: it never returns), or a negative errno: E_SITE_NOFUNC, or E_FUNC_EXITS when an exit cannot be
 * known (an unproven indirect jump), is conditional, or there are more than max. to (may be NULL): where each of them
 * leads to, 0 for a return. At a tail call the function's result is not known yet, and its time is not over.
 */
int dp_module_exits(struct dp_module *m, u64 addr, u64 *exits, u64 *to, int max, struct dp_error *err);
/* Whether one of its instructions returns, by a look at its bytes alone: false where that is not known. */
bool dp_module_has_return(const struct dp_module *m, const struct dp_symbol *func);
/* Of n exits, those that are returns stay. How many these are. */
int dp_exits_returns(u64 *exits, const u64 *to, int n);
/* What there is to say of tail calls that are left out, in words that go on behind the name, with both numbers. */
#define DP_TAIL_CALLS                                                                                                \
	"jumps to another function at %d of its %d exits: calls that end there are left out, since their result is " \
	"not known there"

/*
 * Each instruction that calls the system, in order: all of the module but the one by which signal handlers return, and
 * those that a copy must not take the place of (dp_module_is_cancel_point): there, the calls of the function that
 * contains one. Ends when `each` gives true.
 */
struct dp_call_site {
	u64 addr;              /* link-time */
	u32 len;               /* the system has been called behind so many bytes */
	s32 makes;             /* number of the call that it makes whenever it is executed, -1: that is not known */
	s32 number;            /* the same, but -1 where control also arrives behind it without a call */
	bool fits;             /* a jump fits there and behind it, as a probe of the call needs */
	bool is_function_call; /* the number and the arguments are those of a function (DP_CANCEL_NUMBER) */
};
typedef bool dp_each_call(void *arg, const struct dp_call_site *site);
void dp_module_each_syscall(struct dp_module *m, dp_each_call *each, void *arg);
/*
 * Whether these are all ways into the system that the module's code has. False: there are bytes of such an instruction
 * in what no function is known to contain, or those of another kind; *where is their link-time address.
 */
bool dp_module_syscalls_known(struct dp_module *m, u64 *where);
/*
 * Whether the instruction there calls the system for functions in which glibc or musl can cancel a thread: none of them
 * takes memory away, and a copy of it would keep the thread from being cancelled.
 */
bool dp_module_is_cancel_point(struct dp_module *m, u64 addr);

/* ---- the modules of a process ---- */

struct dp_map {
	u64 lo, hi;
	u64 offset;
	u64 inode;
	u32 dev_major, dev_minor;
	bool r, w, x, shared;
	char *path; /* "" for anonymous memory; " (deleted)" removed and noted in deleted */
	bool deleted;
};

struct dp_maps {
	struct dp_map *v;
	size_t n;
};

int dp_maps_read(struct dp_maps *maps, pid_t pid, struct dp_error *err);

/*
 * The thread under which /proc shows the memory, files and root of a process: the first one, or another when the first
 * one has ended while others run. pid itself when there is none.
 */
pid_t dp_memory_tid(pid_t pid);

/* The processor time that a process has used, in nanoseconds. 0: there is no such process. */
u64 dp_process_ran_ns(pid_t pid);
/* When a process was started, in clock ticks: with its id a name that is given once. 0: there is no such process. */
u64 dp_process_started(pid_t pid);
/* Whether the one that was started then still runs a program: one that nobody has waited for does not. */
bool dp_process_lives(pid_t pid, u64 started);
/* What such names hold within: the kernel's id of this boot, 36 characters; empty when it cannot be read. */
void dp_boot_id(char out[40]);
void dp_maps_free(struct dp_maps *maps);
const struct dp_map *dp_maps_at(const struct dp_maps *maps, u64 addr);

/* The file that is mapped there, whatever its name leads to by now: a descriptor, or -1 with errno. Never waits. */
int dp_map_open(pid_t pid, const struct dp_map *map);
/*
 * A name of that file: its own, as long as that leads to it; else, for a file that was deleted or replaced, or lies in
 * another mount namespace, one below /proc/PID, for as long as the process maps it. False: there is none.
 */
bool dp_map_path(pid_t pid, const struct dp_map *map, char *path, size_t size);

struct dp_image { /* one module as mapped into one process */
	struct dp_module *mod;
	u64 bias;   /* run-time address = link-time address + bias */
	u64 lo, hi; /* run-time extent */
	u64 inode;
	u32 dev_major, dev_minor;
	bool is_exe;
	bool stays; /* set by dp_process_find_lasting() */
};

struct dp_process {
	pid_t pid;
	char called[256]; /* the link by which the program was started, without its directory; else empty */
	struct dp_maps maps;
	struct dp_image *images;
	size_t nimages;
	struct dp_process *old; /* while it looks again: what it was */
	struct dp_image *gone;  /* were mapped before dp_process_renew(); their modules stay */
	size_t ngone;
};

/* The name under which the image's file can be opened now, as dp_map_path(). */
void dp_process_image_file(const struct dp_process *p, const struct dp_image *im, char *path, size_t size);

/*
 * Read the maps of pid and open its modules through /proc/PID/root or /proc/PID/map_files, so that
 * other mount namespaces and deleted files work. Modules that fail to open are left out. Errors:
 * E_PROC_NONE, E_PROC_DEAD, E_PROC_KTHREAD, E_PROC_32BIT, E_PROC_PERM.
 */
int dp_process_read(struct dp_process *p, pid_t pid, struct dp_error *err);
/*
 * Look again. Images that are there still keep their modules, and so do those that are not, for whoever has texts of
 * them: until dp_process_forget() for those that `used` does not want. On errors it is as it was.
 */
int dp_process_renew(struct dp_process *p, struct dp_error *err);
void dp_process_forget(struct dp_process *p, bool (*used)(void *arg, const struct dp_image *image), void *arg);
void dp_process_free(struct dp_process *p);

/*
 * Find the images that the program cannot unload (dlclose): the executable, the loader, and what the executable is
 * linked to, directly or not. A file that is there twice is none of them: one may belong to a name space of dlmopen().
 */
void dp_process_find_lasting(struct dp_process *p);

/*
 * Of files that are mapped here, what was looked at stays in this process's memory. For who has looked at many
 * functions: it is given back, and what is looked at again comes again. names: the tables of symbols, too.
 */
void dp_process_rest(struct dp_process *p, bool names);

/* The image whose base name or path is `name` ("libc" also finds libc.so.6; "exe" the executable).
 * E_MOD_NONE with the nearest names as hint. */
struct dp_image *dp_process_image(struct dp_process *p, const char *name, struct dp_error *err);
/* Whether a module's name is a pattern, and whether the image is one of those: by its path or its name. */
bool dp_is_module_pattern(const char *name);
bool dp_process_image_matches(const struct dp_process *p, const struct dp_image *img, const char *pattern);
struct dp_image *dp_process_image_at(struct dp_process *p, u64 addr);
/* The last part of its path; of a program that was started by a link, the link's. dp_process_image() knows both. */
const char *dp_process_image_name(const struct dp_process *p, const struct dp_image *img);

/* The path of the program that a process runs, or ran when its file was still there; "": it cannot be read. */
void dp_process_exe(pid_t pid, char *buf, size_t size);
/*
 * The path of the process's control group, as this process sees it: in the hierarchy of version 2, where there is none
 * in systemd's own, else in the first. "": not known.
 */
void dp_process_cgroup(pid_t pid, char *buf, size_t size);

/* What is called, when it is set, with a few words on what takes longer than a second, so that the user can be told. */
extern void (*dp_module_slow)(const char *what);

/*
 * The path of a folder from the root, or NULL, as at the beginning: what is found out about the code of large modules
 * is kept there between commands, for the same file and the same dprobes. The folder is made when there is something to
 * be kept. To be set once, before modules are opened.
 */
extern const char *dp_module_keep_in;
void dp_module_make_keep_in(void); /* the folder, and the one around it, if there is none */
/* A file there, if it is the user's and nobody else may write to it: a descriptor, and its size in bytes; else -1. */
int dp_module_open_kept(const char *path, u64 *size);

#endif
