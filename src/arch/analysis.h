/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The analysis of a module's code: at which addresses control may arrive other than by falling
 * through, and in which functions that cannot be proven. Of the whole module (one linear pass over all functions, then
 * one over all jump tables), or of one function, with the same result there. Kernel-clean; it reads bytes and writes
 * bitmaps and flags, nothing else.
 */
#ifndef DP_ANALYSIS_H
#define DP_ANALYSIS_H

#include "arch/site.h"

struct dp_code_text { /* one executable range; t.funcs, t.targets and t.starts point to the arrays
			 below */
	struct dp_text t;
	struct dp_func *funcs;
	u8 *targets;
	u8 *starts;
	u8 *pointed; /* bit (a - lo): a is used as a pointer; NULL: only the flags of functions say so */
	u8 *led; /* bit (a - lo): a function, data or a symbol leads to a; what lies between functions does not count */
	u8 *runs; /* bit (a - lo): an instruction between functions, to which control may come; NULL: not asked for */
	size_t room; /* for the caller, who has made the arrays */
	bool gap;    /* private: the bytes behind the last function have been seen */
};

struct dp_code_data { /* readable bytes that are not code: jump tables lie there */
	u64 lo, hi;
	const u8 *bytes;
};

struct dp_table; /* private to text.c */
struct dp_jump;

struct dp_analysis {
	struct dp_code_text *texts; /* sorted by lo */
	u32 ntexts;
	const struct dp_code_data *data; /* sorted by lo */
	u32 ndata;
	bool absolute; /* linked to a fixed address: constants in instructions may be code addresses
			*/
	u64 rewound;   /* calls of this function may be executed again (Go's deferreturn), 0: none */

	/*
	 * Bytes of a range from offset off up to *end, valid until the next call: where all of the code is looked at
	 * once, a part of it in a buffer may cost less than the mapped file. NULL: they are at t.bytes.
	 */
	const u8 *(*look)(void *arg, const struct dp_code_text *ct, u64 off, u64 *end);
	void *look_arg;

	bool prepared;           /* private: jump tables are done: no function that is walked later has one */
	bool complete;           /* private: everything has been walked */
	u32 nknown;              /* private: so many functions were asked for one by one */
	struct dp_table *tables; /* private: candidates for jump tables, by function */
	u32 ntables, tables_cap;
	struct dp_jump *jumps; /* private: indirect jumps with computed targets */
	u32 njumps, jumps_cap;
	bool short_of_memory;
	bool between; /* private: what is being looked at lies between functions */
};

static inline void dp_code_set(u8 *map, u64 i)
{
	map[i >> 3] |= (u8)(1u << (i & 7));
}

static inline bool dp_code_get(const u8 *map, u64 i)
{
	return map[i >> 3] >> (i & 7) & 1;
}

static inline const u8 *dp_code_look(const struct dp_analysis *c, const struct dp_code_text *ct, u64 off, u64 *end)
{
	*end = ct->t.hi - ct->t.lo;
	return c->look ? c->look(c->look_arg, ct, off, end) : ct->t.bytes + off;
}

/* Control may arrive at that offset of the range. */
static inline void dp_code_arrive(const struct dp_analysis *c, struct dp_code_text *ct, u64 off)
{
	dp_code_set(ct->targets, off);
	if (ct->led && !c->between)
		dp_code_set(ct->led, off);
}

/* The range that contains addr, or NULL. */
static inline struct dp_code_text *dp_code_at(const struct dp_analysis *c, u64 addr)
{
	for (u32 i = 0; i < c->ntexts; i++)
		if (addr >= c->texts[i].t.lo && addr < c->texts[i].t.hi)
			return &c->texts[i];
	return NULL;
}

/* Say that control may arrive at addr; no effect outside the code. Order and repetition do not
 * matter. */
void dp_code_mark(struct dp_analysis *c, u64 addr);

/* The same for an address that is used as a pointer: a function that begins there is an entry. */
void dp_code_take(struct dp_analysis *c, u64 addr);

/* The function that begins at addr, or NULL. */
struct dp_func *dp_code_func(const struct dp_analysis *c, u64 addr);

#define DP_CODE_ALL (~0ull)
#define DP_CODE_GAPS (~1ull) /* all, and `runs` */

/*
 * Find what the code itself tells about the function that contains addr, and what a judge or a search for exits looks
 * at around it; or about everything (DP_CODE_ALL). Addresses found in data, landing pads and symbols are marked by the
 * caller before; for everything afterwards will do, too. The bitmaps must be zeroed and as long as the range. Sets
 * starts, targets, the flags DP_FUNC_UNPROVEN, _FALLEN and (where there is no name) _PART, and shortens functions that
 * are DP_FUNC_OPEN. One function costs a twentieth of the whole, most of that once a module; when many have been asked
 * for, the whole is done. Returns 0 or -ENOMEM.
 *
 * DP_CODE_GAPS: bytes between functions are followed from all that leads there (gaps.c), so that tables in the code can
 * be told from code that nothing describes.
 */
int dp_code_know(struct dp_analysis *c, u64 addr);

/* Whether control may come to an instruction at addr, which is in no function. DP_CODE_GAPS is known. */
bool dp_code_may_run(struct dp_analysis *c, u64 addr);

/* Release what the analysis has allocated. */
void dp_code_release(struct dp_analysis *c);

/*
 * Exits of the function that begins at addr: returns, tail calls, and those of its parts. At most max are stored.
 * `leaves` decides about an indirect jump of which no table tells where it goes: 0 it leaves, negative errno: unknown.
 * `pointer` reads the 8 bytes at an address of data, as they are when the program runs: 1, 0 there are none, negative
 * errno. Returns their number, or E_SITE_NOFUNC, E_FUNC_EXITS.
 */
struct dp_exit_env {
	int (*leaves)(void *arg, const struct dp_func *f);
	int (*pointer)(void *arg, u64 addr, u64 *value);
	void *arg;
	u64 *to; /* may be NULL: where each exit leads to: 0 back, an address, or DP_EXIT_ELSEWHERE. As many as exits */
};

#define DP_EXIT_ELSEWHERE (~0ull) /* to another function, which is known only when control gets there */

int dp_code_exits(struct dp_analysis *c, u64 addr, const struct dp_exit_env *env, u64 *exits, int max,
		  struct dp_error *err);

struct dp_text_call { /* a system call; link-time addresses */
	u64 addr;
	u64 load;          /* the instruction that loads the address which is the second argument, long enough for a
			      jump; 0: there is none */
	s64 number, first; /* and the first argument; -1: not known */
	bool joined;       /* control also arrives behind it without the call */
};

typedef void (*dp_call_fn)(const struct dp_text_call *call, void *arg);

/*
 * Each instruction in functions that calls the system, with what registers are known to hold there. This is true where
 * the function that contains it has been asked for (dp_code_know()); else control may arrive in between from elsewhere.
 */
void dp_text_find_calls(const struct dp_text *t, dp_call_fn found, void *arg);

#endif
