/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The trust border of the process host. Whatever a target can write is a claim: its control block and the tables in it,
 * its slots, its copies of instructions, its questions, the lists of its libraries. It is read here and nowhere else,
 * and handed on as a copy that is sound: sizes within limits, addresses within the region, lengths that exist. A false
 * claim that is sound leads to reads and writes of the same process's memory at most.
 */
#ifndef DP_UNTRUSTED_H
#define DP_UNTRUSTED_H

#include "abi/abi-control.h"
#include "abi/abi-page.h"
#include "hit/blob.h"
#include "host/process/process-priv.h"

struct dp_patch;
struct dp_point;
struct dp_probe_rt;
struct dp_redirect;
struct dp_watch_rt;

/* ---- control blocks ---- */

/*
 * A control block with its tables. Of one that says that nothing was patched yet only the areas are there: all other
 * counts are 0.
 */
struct dp_block {
	struct dp_control ctl; /* its addresses of tables mean nothing: the tables are */
	struct dp_blob_head head;
	struct dp_point *points;
	struct dp_probe_rt *probes;
	struct dp_patch *patches;      /* by address */
	struct dp_redirect *redirects; /* by pc */
	struct dp_redirect *homes;     /* by pc */
	struct dp_range *areas;
	struct dp_watch_rt *watches;
	void *image; /* the tables lie in it; NULL: each has memory of its own */
};

/* The addresses of the control blocks that the process says its hits use, one for each session in it; their number. */
u32 dp_find_controls(pid_t pid, u64 v[DP_OWNERS_MAX]);

/* Probes of another version are neither read nor built upon. E_TARGET_VERSION where there are some. */
int dp_refuse_foreign(pid_t pid, struct dp_error *err);
/* Of the one whose region begins there; 0: there is none. */
u64 dp_control_of(const struct dp_mem *mem, u64 region);
u64 dp_control_of_process(pid_t pid, u64 region);
/* The region of the block at that address. E_TARGET_MEM, E_ARM_EXEC. */
int dp_block_region(const struct dp_mem *mem, u64 addr, u64 *region, struct dp_error *err);
/*
 * The signal actions that the handlers of c's region go on to, as the block in force has them: other sessions may have
 * changed them since c was written.
 */
void dp_block_actions(const struct dp_mem *mem, struct dp_control *c);

/* The same blocks, each sound by itself, without their tables; free(*v). What is no control block is left out. */
struct dp_owner {
	struct dp_control ctl;
	struct dp_blob_head head;
};
u32 dp_owners_read(const struct dp_mem *mem, const struct dp_maps *maps, struct dp_owner **v);

/* Read and check it. E_TARGET_DAMAGED, E_TARGET_MEM, E_TARGET_GONE, E_ARM_NOMEM. Free in any case. */
int dp_block_read(struct dp_block *b, const struct dp_mem *mem, u64 addr, struct dp_error *err);
/* The same from an image that was made here: size bytes that are to stand at addr. */
int dp_block_of_image(struct dp_block *b, const void *image, u64 size, u64 addr, const struct dp_blob_head *head,
		      struct dp_error *err);
/*
 * The same, and the tables stay where they are in the image, which was dp_alloc()ed and is the block's from now on,
 * whatever comes of it.
 */
int dp_block_take_image(struct dp_block *b, struct dp_control *image, const struct dp_blob_head *head,
			struct dp_error *err);
/* What has come from elsewhere, with as many entries in its tables as its counts say: sorted, and checked as above. */
int dp_block_check(struct dp_block *b, struct dp_error *err);
/* What an extension changes of it: the control block, and the tables that stand in this image. The others stay. */
int dp_block_renew(struct dp_block *b, const struct dp_control *image, u64 addr, struct dp_error *err);
void dp_block_free(struct dp_block *b); /* its tables: it has none from then on */

/* The seven tables: where each is in a block, how many entries it has, of what size. */
#define DP_BLOCK_TABLES 7
struct dp_block_table {
	void **v;
	u32 n;
	u32 size;
	u64 addr; /* as the control block has it */
};
void dp_block_tables(struct dp_block *b, struct dp_block_table t[DP_BLOCK_TABLES]);

/* The patch that displaces the instruction at addr; NULL: none begins before it. */
const struct dp_patch *dp_block_patch(const struct dp_block *b, u64 addr);

/* Whether hits of this region use the control block at addr, and it has got as far as changing bytes. */
bool dp_block_begun(const struct dp_mem *mem, u64 region, u64 addr);
/* Whether the process still has the block there: after an exec the memory is another program's. */
bool dp_block_there(pid_t pid, u64 addr);

/*
 * An entry of a block's semaphores, at addr: what it says of one that is known. False: it is about another place or
 * file, or has no state.
 */
bool dp_semaphore_read(const struct dp_mem *mem, u64 addr, const struct dp_semaphore *known, struct dp_semaphore *s);
/*
 * Lower the semaphores of a block (semaphore.c) as far as the copy of the block in the process says that they are
 * raised. maps: of the process.
 */
void dp_semaphores_lower(const struct dp_mem *mem, const struct dp_maps *maps, u64 control,
			 const struct dp_semaphore known[DP_MAX_SEMAPHORES]);

/* ---- slots, copies, questions ---- */

struct dp_hit_slot_state {
	bool idle;     /* owned, and in no hit */
	bool given_up; /* by its thread: a signal handler that interrupted a hit did not return to it, it seems */
	bool owned;    /* by the thread with this thread pointer */
	u64 thread;    /* or it was */
	u32 left;      /* changes with each hit */
	bool entered;  /* in a plain hit, on the slot's stack */
	u64 frame;     /* of that hit, on the program's stack; 0: that cannot be */
	u32 tid;       /* of the thread, as the process knows it; 0: it has not told */
};
bool dp_hit_slot_read(pid_t via, u64 slot, u64 tid_at, struct dp_hit_slot_state *out);

/* The thread of that slot has stopped the process in a hit, for a debugger. */
struct dp_hit_stopped {
	u64 thread;          /* its thread pointer */
	bool behind;         /* the access that was watched: nothing of what follows is known */
	struct dp_regs regs; /* as they are to be when the hit ends: of the general registers, ip and flags */
	bool blocked;        /* the hit has blocked all signals. The thread's mask was: */
	u64 mask;
};
bool dp_hit_slot_stopped(pid_t via, u64 slot, struct dp_hit_stopped *out);
/* It is in no hit any more: the thread was sent back to the program. */
int dp_hit_slot_leave(pid_t pid, u64 slot, struct dp_error *err);

/* Where the frame of a hit, through which it goes back to the program, leads; 0: it cannot be read. */
u64 dp_hit_returns_to(pid_t via, u64 frame);

/* Which instructions store to watched pages; all DP_COPIES of them. */
struct dp_copy_state_of {
	u64 ip;
	bool ready, asked;
};
bool dp_copies_read(const struct dp_mem *mem, u64 addr, struct dp_copy_state_of v[DP_COPIES]);

/*
 * A thread of process pid by the id that it has itself; 0: the process has no such thread. It may end, and its id be
 * given to another process: ask dp_thread_is_of() again when something was bound to the id.
 */
pid_t dp_thread_of(pid_t pid, u32 inner);
bool dp_thread_is_of(pid_t pid, pid_t tid);

/* ---- lists that a program keeps ---- */

#define DP_WALK_STEPS 65536 /* in all lists together that are read for one answer */

/* Walk along a list that may lead anywhere, or in a circle: ends in either case. */
struct dp_walk {
	u32 *left; /* steps that are still allowed, to this walk and others */
	u64 mark;  /* an address that was passed */
	u32 steps, lap;
};
void dp_walk_begin(struct dp_walk *w, u32 *left);
/* The next entry is at `at`: may it be looked at? */
bool dp_walk_to(struct dp_walk *w, u64 at);

/* ---- memory files ---- */

/*
 * The file that pid has mapped at [lo, hi), open for reading and writing, provided that it is a memory file which
 * nobody can make shorter than that, and, if inode is not 0, the one with this inode and device. Following such a link
 * takes CAP_CHECKPOINT_RESTORE. -1: it is not, or cannot be opened.
 */
int dp_open_rings(pid_t pid, u64 lo, u64 hi, u64 dev, u64 inode);

#endif
