/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the files of this directory share about one opened ELF file. Nothing outside includes this.
 * All addresses are link-time addresses; all pointers into the file live as long as the module.
 */
#ifndef DP_MODULE_PRIV_H
#define DP_MODULE_PRIV_H

#include <elfutils/libdw.h>
#include <gelf.h>
#include <sys/stat.h>

#include "arch/arch.h"
#include "base/nearest.h"
#include "symbols/statics.h"
#include "symbols/symbols.h"

#define SYM_FUNC 0x01
#define SYM_IFUNC 0x02
#define SYM_DATA 0x04
#define SYM_LABEL 0x08 /* STT_NOTYPE in executable code: a place, not a function */
#define SYM_EXPORTED 0x10
#define SYM_LOCAL 0x20
#define SYM_WEAK 0x40
#define SYM_PLT 0x80    /* made up: the stub that calls an imported function */
#define SYM_SPLIT 0x100 /* NAME.cold and its kind: not an entry */
#define SYM_OLD 0x200   /* a version that new programs are not linked to */

/* kernel-modules.c, kernel-link.c: a file of a module of the kernel, with addresses. A descriptor, or -1. */
int dp_kernel_module_open(struct dp_module **m, const char *path, struct dp_error *err);
int dp_kernel_module_link(Elf *elf);

struct mod_sym {
	const char *name; /* may end in @VERSION or @@VERSION */
	u64 addr, size;
	u32 flags;
	u16 version; /* index into syms.versions */
};

struct mod_syms {
	struct mod_sym *v; /* sorted by address, best name first */
	size_t n, cap;
	/* By dp_mod_name_slot(), then by index: 1 + the next one whose name may be the same. NULL: not indexed yet */
	u32 *first, *next;
	u32 mask;         /* slots - 1 */
	char **demangled; /* by index into v; NULL until a C++ name is asked for */
	const char **versions;
	size_t nversions;
};

struct mod_seg { /* PT_LOAD */
	u64 addr, memsz, offset, filesz;
	bool r, w, x;
};

struct mod_sec { /* sections that occupy memory */
	const char *name;
	u64 addr, size, offset;
	u32 type;
	bool w, x;
};

struct mod_range {
	u64 lo, hi; /* hi 0: not known */
	u32 flags;  /* DP_FUNC_* */
	u32 sym;    /* in funcs: index of the best symbol, or NO_SYM */
};
#define NO_SYM (~0u)

struct mod_ranges {
	struct mod_range *v;
	size_t n, cap;
};

struct mod_addrs {
	u64 *v;
	size_t n, cap;
};

struct mod_statics {
	struct dp_static *v; /* sorted by address */
	size_t n, cap;
};

struct mod_reloc { /* the 8-byte word at `where` holds `value` at run time (before the bias) */
	u64 where, value;
};

struct mod_relocs {
	struct mod_reloc *v; /* sorted by where */
	size_t n, cap;
};

struct mod_debug { /* a separate file that holds the symbol table of this one */
	int fd;
	Elf *elf;
};

struct mod_dwarf { /* debug information, opened when it is asked for */
	bool tried;
	Dwarf *main, *alt;
	int alt_fd;
	Dwarf_CFI *eh, *frame;
	bool cfi_tried;
	struct dwp *dwp;       /* the package of split debug information, if main is from one */
	char *dwp_path;        /* its name, also when it is of no use, */
	const char *dwp_why;   /* because of this; NULL: it is good */
	u32 nsought;           /* so many addresses were looked for in its units */
	struct dp_range *code; /* of all units, sorted and joined; NULL: not known */
	size_t ncode;
};

struct mod_file_id {                           /* which file it is, and in which state */
	u64 dev, ino, size, modified, changed; /* ns */
};

struct mod_kept { /* kept-code.c: the file that an's arrays are in; head NULL: they are not */
	struct kept_head *head;
	u64 size;
	bool complete;
};

struct dp_module {
	int refs;
	struct dp_module *next; /* of those that are shared, */
	struct mod_file_id id;  /* when it was opened, */
	s64 age;                /* and how long before it was changed last; ns */
	int fd;
	Elf *elf;
	char *path;
	const char *base;
	char build_id[80];
	char sum[24]; /* of the code, where there is none; "" until it is asked for */
	const u8 *file;
	size_t file_size;
	bool dyn;
	u64 entry;
	struct mod_seg *segs;
	size_t nsegs;
	struct mod_sec *secs;
	size_t nsecs;
	struct {
		struct dp_range *v;
		size_t n, cap;
	} code;
	size_t nshdrs; /* 0: the file has no section headers */

	bool syms_loaded, has_symtab, is_go, go_known;
	u64 go_addr;
	struct mod_syms syms;
	struct mod_debug debug;
	bool debug_tried;
	char debug_why[160]; /* why there is no separate file; "": nothing is known */
	bool advice_known;
	char advice[160]; /* what to install for it; "": no package is known */
	struct mod_dwarf dw;
	void *mini;   /* Dwfl of .gnu_debugdata */
	char **names; /* made-up names (sym@plt) */
	size_t nnames, names_cap;

	u32 nsought;              /* so many names were looked for one by one */
	bool bounds_loaded;       /* functions without names: */
	struct mod_ranges bounds; /* as funcs, where sym is NO_SYM or anything */
	struct mod_addrs marks;   /* where symbols are */

	bool frames_read, funcs_loaded;
	struct mod_ranges ranges; /* function ranges of .eh_frame and Go's table, as found */
	struct mod_ranges funcs;  /* united with the symbols: sorted, not overlapping */
	struct mod_addrs pads;    /* landing pads, and where Go resumes after a panic */

	bool relocs_loaded;
	struct mod_relocs relocs;

	bool statics_read;
	struct mod_statics statics;

	bool collected, analysed;
	int analyse_rc;
	struct dp_analysis an;
	u8 *part; /* what is looked at of code or data */
	struct mod_kept kept;
	struct dp_span *guards;
	struct mod_addrs taken; /* code addresses that occur in data, */
	bool taken_sorted;      /* sorted once that is needed */
};

#define MOD_PUSH(vec, ...)                                                       \
	(dp_grow((void **)&(vec)->v, &(vec)->cap, (vec)->n, sizeof(*(vec)->v))   \
	     ? ((vec)->v[(vec)->n++] = (__typeof__(*(vec)->v))__VA_ARGS__, true) \
	     : false)

static inline struct mod_file_id dp_mod_file_id(const struct stat *st)
{
	return (struct mod_file_id){st->st_dev, st->st_ino, (u64)st->st_size,
				    (u64)st->st_mtim.tv_sec * 1000000000u + (u64)st->st_mtim.tv_nsec,
				    (u64)st->st_ctim.tv_sec * 1000000000u + (u64)st->st_ctim.tv_nsec};
}

static inline bool dp_mod_same_file(const struct mod_file_id *a, const struct mod_file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->modified == b->modified &&
	       a->changed == b->changed;
}

s64 dp_mod_age(const struct mod_file_id *id); /* since the file was changed last; ns */

/* The file itself has a symbol table, whatever has been read from others. */
static inline bool dp_mod_own_symtab(const struct dp_module *m)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(m->elf, scn)))
		if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_SYMTAB)
			return true;
	return false;
}

/* The module of that very file under that name, if dp_module_share_fd() has opened it; one more user of it. NULL. */
struct dp_module *dp_mod_shared(const struct stat *st, const char *name);

/* The file's bytes behind a link-time address, or NULL unless at least need of them are there. */
const u8 *dp_mod_at(const struct dp_module *m, u64 addr, u64 need, u64 *avail);
const struct mod_sec *dp_mod_section(const struct dp_module *m, const char *name);
const char *dp_mod_soname(const struct dp_module *m);        /* what programs are linked to, or NULL */
const char *dp_mod_needed(const struct dp_module *m, u32 n); /* the n-th that it is linked to itself, or NULL */
/* The range of code, which is executable and not a header, that contains addr; NULL: none. */
const struct dp_range *dp_mod_code_at(const struct dp_module *m, u64 addr);

static inline bool dp_mod_in_code(const struct dp_module *m, u64 addr)
{
	return dp_mod_code_at(m, addr);
}

static inline u64 mod_load64(const u8 *p)
{
	u64 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline u32 mod_load32(const u8 *p)
{
	u32 v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* sym-words.c */
#define MOD_PART (256u << 10) /* fits into a processor's cache */
/* At most MOD_PART bytes of the file, from a buffer that the next call uses again; mapped: where they are mapped. */
const u8 *dp_mod_part(struct dp_module *m, const u8 *mapped, u64 n);
/* The offset of the next word from `from`, in steps of 8, that is an address of the span; n: none. */
u64 dp_mod_next_word(const u8 *p, u64 n, u64 from, const struct dp_range *span);
/* The offset of the next place at or behind `from` where the text stands; n: none. */
u64 dp_mod_find(const u8 *p, u64 n, u64 from, const char *text, u64 len);

/* symtab.c */
bool dp_mod_add_symbol(struct dp_module *m, const GElf_Sym *s, const char *name, bool exported, u16 version);
/* Flags of a symbol, but for what its name and version say, and its size, which is 0 where it cannot be; 0: no use. */
u32 dp_mod_symbol_flags(const struct dp_module *m, const GElf_Sym *s, bool exported, u64 *size);
bool dp_mod_order_syms(struct mod_syms *s); /* by address, each one once */
#define MOD_SPLIT_NAME ".cold"
int dp_mod_load_syms(struct dp_module *m, struct dp_error *err);
void dp_mod_free_syms(struct dp_module *m);
bool dp_mod_index_names(struct mod_syms *s); /* once, for who looks for a name; patterns need it not */
u32 dp_mod_name_slot(const struct mod_syms *s, const char *name); /* of a name up to an '@' */
size_t dp_mod_sym_after(const struct dp_module *m, u64 addr);     /* index of the first one above addr */
void dp_mod_sym_public(const struct mod_sym *s, struct dp_symbol *out);
const char *dp_mod_sym_demangled(struct dp_module *m, size_t i); /* NULL: not a C++ name */

/* debugfile.c */
/* The i-th place of a file below the directories of debug files; false: there are no more. */
bool dp_mod_debug_path(u32 i, const char *name, char *buf, size_t size);
bool dp_mod_open_debug(struct dp_module *m); /* it is open; looked for once */
bool dp_mod_fetch_debug(struct dp_module *m);
/* The path of debug information from the servers of DEBUGINFOD_URLS; why: not, if there is more to say of it. */
bool dp_debuginfod_find(const char *what, const char *build_id, char *path, size_t size, char *why, size_t why_size);
/* package.c: the installed package that has the file; what to install for its debug information, "" when unknown. */
bool dp_package_of(const char *path, char *name, size_t size);
void dp_package_advice(const char *path, const char *build_id, char *text, size_t size);

/* E_LINE_NODEBUG, with what is known about it. */
int dp_mod_no_debug(struct dp_module *m, struct dp_error *err);
bool dp_mod_read_mini(struct dp_module *m); /* adds the symbols of .gnu_debugdata */
void dp_mod_close_debug(struct dp_module *m);

/* dwarf.c: NULL when there is no debug information */
Dwarf *dp_mod_dwarf(struct dp_module *m);
/* The frame at an instruction by the unwind tables; free() it. */
bool dp_mod_frame_at(struct dp_module *m, u64 addr, Dwarf_Frame **frame);
void dp_mod_close_dwarf(struct dp_module *m);

/*
 * dwp.c. What is to be used in the place of dw, the module's debug information: with the split parts
 * of a package (.dwp), when there is one.
 */
Dwarf *dp_mod_dwp_open(struct dp_module *m, Dwarf *dw);
void dp_mod_dwp_close(struct dp_module *m); /* behind dwarf_end() */
/* What stands in the place of a unit whose debug information is split. Nothing else may ask libdw for it. */
bool dp_mod_split_of(struct dp_module *m, Dwarf_CU *cu, Dwarf_Die *split);
/* The next unit with code of its own, behind *cu (NULL: the first); the split part where there is one. */
bool dp_mod_next_unit(struct dp_module *m, Dwarf_CU **cu, Dwarf_Die *unit);

/* sym-lines.c */
bool dp_mod_unit_at(struct dp_module *m, u64 addr, Dwarf_Die *cu);
/* As dwarf_getscopes(). */
int dp_mod_scopes(Dwarf_Die *cu, u64 addr, Dwarf_Die **scopes);
bool dp_mod_function_of(Dwarf_Die *cu, u64 addr, Dwarf_Die *func, Dwarf_Die *outer);
/* Whether the function keeps its variables in its frame all the time. */
bool dp_mod_is_unoptimised(Dwarf_Die *func);
u64 dp_mod_after_prologue(Dwarf_Die *cu, u64 low);

/* plt.c */
bool dp_mod_add_plt(struct dp_module *m);

/* A demangled name that ends in an identifier has it in its mangled form as well, behind its length. */
bool dp_mod_is_identifier(const char *name);
/* Whether it is the whole demangled name, or without parameters, or also without a leading return type. */
bool dp_mod_demangled_agrees(const char *demangled, const char *wanted);
const char *dp_mod_last_part(const char *name);   /* behind the last "::" that is not in a template's arguments */
bool dp_mod_is_suffix_of_compiler(const char *s); /* "", ".isra.0", ".lto_priv.1.part.0" */

/* demangle.c: NULL when there is no demangler or the name is not mangled; free() the result. */
char *dp_mod_demangle(const char *name);
/* Length of a demangled name without its parameters: up to the '(' that stands outside of <>. */
size_t dp_mod_without_params(const char *demangled);

/* ehframe.c: adds to m->ranges and m->pads */
bool dp_mod_read_eh_frame(struct dp_module *m);

/* gotable.c: adds to m->ranges and m->pads, and, when asked, symbols */
bool dp_mod_read_go(struct dp_module *m, bool want_syms);
bool dp_mod_find_go(const struct dp_module *m, u64 *addr);

/* relocs.c */
bool dp_mod_load_relocs(struct dp_module *m);
const struct mod_reloc *dp_mod_reloc_at(const struct dp_module *m, u64 where);

/* sym-bounds.c: without names and their order. False: this file needs all its symbols, or memory is short. */
bool dp_mod_load_bounds(struct dp_module *m);
enum mod_sought { MOD_SOUGHT_FOUND, MOD_SOUGHT_NOTHING, MOD_SOUGHT_UNKNOWN };
/*
 * Puts the symbols of that name, and those that continue it with a '.' or '@', into m->syms, which are not loaded; who
 * has looked at them sets syms.n to 0. NOTHING: no symbol has it. UNKNOWN: all symbols are needed for an answer.
 */
enum mod_sought dp_mod_seek(struct dp_module *m, const char *name);
void dp_mod_free_bounds(struct dp_module *m);

/* sym-funcs.c */
bool dp_mod_unite_funcs(struct dp_module *m, struct mod_ranges *f); /* adds the unwind tables' */
int dp_mod_load_funcs(struct dp_module *m, struct dp_error *err);
const struct mod_range *dp_mod_func_at(const struct dp_module *m, u64 addr);

/* sym-code.c */
void dp_mod_free_code(struct dp_module *m);
void dp_mod_point_text(struct dp_code_text *ct); /* to its arrays */

u64 dp_mod_code_bytes(const struct dp_module *m); /* in all texts, which are known */

/* kept-code.c */
#define MOD_KEEP_FROM (256u << 10) /* bytes of code; less is looked through faster */
/* The analysis as an earlier command has kept it, with m->taken; the texts are known. False: it has to be done. */
bool dp_mod_load_kept(struct dp_module *m);
void dp_mod_keep_code(struct dp_module *m); /* for the next command, where that is worth it */
void dp_mod_forget_kept(struct dp_module *m);

#endif
