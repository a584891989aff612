/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The event tracer: definitions (k-event.c), their files (event-files.c), the rings that they log to
 * (ring.c) and the files that show these (k-trace.c).
 */
#ifndef DP_KERNEL_EVENT_H
#define DP_KERNEL_EVENT_H

#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "abi/abi-ring.h"
#include "run.h"
#include "lang/event/event.h"
#include "log/line.h"

struct dp_record;

#define DP_K_LINE_MAX 8192

struct dp_k_event {
	struct list_head list;
	u32 id;           /* in records; never used again */
	char *text;       /* the definition, without type, group and name */
	u32 condition;    /* where in it the condition begins; 0: there is none */
	char *filter;     /* NULL: none */
	char symbol[256]; /* of the place, as it is shown */
	u64 at;           /* the place; the breakpoint may be behind what the function tracer owns there */
	void *at_for;     /* where the breakpoint was when that was found: modules come back elsewhere */
	bool plain;       /* defined in kprobe_probes: in force at once, shown in the first tracer's
		       layout */
	bool on;
	struct dp_event ev;
	struct dp_k_prog run;
	struct dp_program filtered; /* ev.prog with the filter as a condition; its code NULL: no filter */
	struct dp_kretprobe rp;     /* rp.kp alone for a probe */
	struct dp_kwatch watch;     /* w: this instead, of the same place; registered while it is on */
	u64 last;                   /* the watched value at the last hit */
	struct dp_counts *counts;   /* by processor */
	struct dentry *dir;
};

extern struct mutex dp_k_events_lock; /* before dp_k_lock */
extern struct list_head dp_k_events;

/* k-event.c; all but init and exit under the lock */
int dp_k_events_init(void);
void dp_k_events_exit(void);
int dp_k_event_define(const char *line, bool plain, struct dp_error *err);
int dp_k_event_switch(struct dp_k_event *e, bool on); /* a failure is in the log of errors */
char dp_k_event_type(const struct dp_k_event *e);     /* p, r, w */
/* text "" or "0": no filter any more */
int dp_k_event_filter(struct dp_k_event *e, const char *text, struct dp_error *err);
/* Out of the kernel, and from the list into *gone. */
void dp_k_event_remove(struct dp_k_event *e, struct list_head *gone);
void dp_k_events_reap(struct list_head *gone); /* frees them and their directories; without the lock */
struct dp_k_event *dp_k_event_find(const char *group, const char *name);
bool dp_k_is_event(const struct dp_registered *s); /* of the event files */
bool dp_k_is_event_watch(const struct dp_kwatch *w);
u64 dp_k_event_count(const struct dp_k_event *e, enum dp_count what);

/* event-files.c */
int dp_k_event_files_init(void);
void dp_k_event_files_exit(void);
void dp_k_event_show(struct seq_file *m, const struct dp_k_event *e); /* its definition */
int dp_k_event_make_dir(struct dp_k_event *e);
void dp_k_event_remove_dir(struct dp_k_event *e);
int dp_k_events_clear(bool plain);
void dp_k_error_log(const char *line, const struct dp_error *err); /* err->column: in the line, -1: nowhere */

/* ring.c */
struct dp_k_log { /* a copy of what is in the rings */
	u8 **buf; /* by processor */
	u64 *at, *end, *from;
	u64 entries_written;
	u64 ns, stamp; /* when it was read, by both clocks */
};
extern struct dp_k_sink *dp_k_sinks;
int dp_k_ring_init(void);
void dp_k_ring_exit(void);
/* cpu: of this processor alone, -1: of all. */
int dp_k_log_read(struct dp_k_log *log, u64 max, int cpu);
struct dp_record *dp_k_log_next(struct dp_k_log *log);
void dp_k_log_taken(struct dp_k_log *log);
void dp_k_log_free(struct dp_k_log *log);
/* Records are taken out while anybody does so: what comes when there is no room is lost then. */
int dp_k_take_begin(void);
void dp_k_take_end(void);
void dp_k_log_clear(int cpu);
u32 dp_k_ring_kb(void);       /* of one processor's log */
int dp_k_ring_ready(void);    /* before the first event: until then the rings are small */
int dp_k_ring_resize(u32 kb); /* what was logged is lost; no event may be on. -EBUSY while somebody takes records */

/* k-chosen.c */
extern bool dp_k_choosy; /* not every hit counts */
bool dp_k_wanted(void);
static __always_inline bool dp_k_counts_now(void)
{
	return likely(!READ_ONCE(dp_k_choosy)) || dp_k_wanted();
}
void dp_k_chosen_init(void);
void dp_k_chosen_exit(void);

/* k-trace.c */
int dp_k_trace_init(void);
void dp_k_trace_exit(void);

#endif
