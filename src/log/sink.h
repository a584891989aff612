/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What an output format is: functions that a walker calls for each part of a record, in order. Walkers know records and
 * check every bound in them; sinks know a layout and nothing of records. Kernel-clean; log/formats.def lists the
 * formats.
 */
#ifndef DP_SINK_H
#define DP_SINK_H

#include "log/symbol.h"
#include "log/view.h"

#define DP_SINK_SYMBOL 768 /* bytes of an address's name */

struct dp_agg_table;
struct dp_agg_view;
struct dp_format_env;
struct dp_reader_part;
struct dp_rpn_context;
struct dp_rpn_head;
struct dp_rpn_unit;
struct dp_sink;
struct dp_template;

/* A record with what is known of it beside its bytes. */
struct dp_sink_record {
	const struct dp_record *rec;
	const char *task; /* NULL: not known; of an event never */
	u32 tid;          /* as we know it */
	u32 pid;          /* of an event: the process; 0: not known */
	u64 ns;           /* of an event: CLOCK_MONOTONIC */
	u32 source; /* of an event: see dp_formatter_source(); of a program, where the format is whole: the process */

	const void *event; /* the sink's own description of the event, for example struct dp_event_info; */
	struct dp_view view;

	const struct dp_rpn_context *program; /* or: a record of a probe program */
	const struct dp_rpn_head *head;
	const u8 *data;
	size_t size;
};

/* Parts of a probe program's record; the same bytes may be seen in more than one way. */
enum dp_sink_section {
	DP_SECTION_TRACES, /* stack traces */
	DP_SECTION_ITEMS,  /* items as the program wrote them */
	DP_SECTION_FIELDS, /* items as the program describes them (lang/rpn/rpn-fields.h) */
};

enum dp_sink_group {
	DP_GROUP_ARRAY,
	DP_GROUP_STACK, /* a call chain, the hit first */
	DP_GROUP_STRUCT,
	DP_GROUP_COMPLEX, /* real and imaginary part */
};

enum dp_sink_kind {
	DP_SINK_UNSIGNED, /* bits */
	DP_SINK_SIGNED,
	DP_SINK_BOOL,
	DP_SINK_CHAR,    /* of an event: always a character */
	DP_SINK_BYTE,    /* C's char: a character if it can be printed, else a number */
	DP_SINK_CODE,    /* a number that may be the address of a function */
	DP_SINK_ADDRESS, /* an address, told by its symbol */
	DP_SINK_DIGITS,  /* a number, written already: text and len */
	DP_SINK_TEXT,    /* bytes of a text in the program: text and len */
	DP_SINK_BYTES,   /* bytes of any kind */
	DP_SINK_NAME,    /* from debug information: an enumerator */
	DP_SINK_MESSAGE, /* what a program printed: lines */
	DP_SINK_MISSING, /* there is no value: missing tells why */
};

enum dp_sink_missing {
	DP_MISSING_FAULT,    /* the memory could not be read */
	DP_MISSING_FAULT_AT, /* the same, and bits is its address */
	DP_MISSING_CUT,      /* the record was shortened and does not hold it */
	DP_MISSING_REST,     /* the record ended, or more would be too much */
	DP_MISSING_NOTHING,  /* the program wrote nothing */
};

struct dp_sink_value {
	enum dp_sink_kind kind;
	enum dp_sink_missing missing;
	u64 bits;         /* signed numbers: sign-extended */
	bool hex;         /* better shown in hexadecimal, with the width of: */
	u8 bytes;         /* its type; 0: of a word */
	bool octal;       /* better shown in octal */
	bool behind_call; /* of an address: see dp_symbol_text() */
	const char *text;
	size_t len;
};

/* What a format is made of. All but those that are marked are there. */
struct dp_sink_ops {
	bool (*open)(struct dp_sink *s, const struct dp_format_env *env); /* once; false: no memory. May be NULL */
	void (*release)(struct dp_sink *s);                               /* may be NULL */
	void (*head)(struct dp_sink *s);                                  /* heads of columns; may be NULL */
	void (*begin)(struct dp_sink *s, const struct dp_sink_record *r); /* who, where, when */
	void (*field)(struct dp_sink *s, const char *name, unsigned i);   /* its value follows; NULL or "": no name */
	void (*field_end)(struct dp_sink *s);                             /* may be NULL */
	void (*group)(struct dp_sink *s, enum dp_sink_group what);        /* elements or members follow */
	void (*member)(struct dp_sink *s, const char *name);              /* its value follows; NULL: an element */
	void (*group_end)(struct dp_sink *s, enum dp_sink_group what);
	void (*value)(struct dp_sink *s, const struct dp_sink_value *v);
	void (*end)(struct dp_sink *s, const struct dp_sink_record *r);

	/*
	 * Of events, where all lines of one are alike but for what start puts and for the fields (log/template.h).
	 * start puts what begin puts of a record's own; lay_out what follows it in a line of that event, and tells
	 * where the fields stand; false: these lines are not of that kind. Both are there, or none. named: a value
	 * comes whose name has been put; may be NULL.
	 */
	void (*start)(struct dp_sink *s, const struct dp_sink_record *r);
	bool (*lay_out)(struct dp_sink *s, struct dp_template *t, const struct dp_sink_record *r);
	void (*named)(struct dp_sink *s);

	/*
	 * Records of programs. parses: what the section shows can be made of the bytes. True: walk it, then call
	 * section_end.
	 */
	bool (*section)(struct dp_sink *s, const struct dp_sink_record *r, enum dp_sink_section what, bool parses);
	void (*section_end)(struct dp_sink *s, enum dp_sink_section what);

	/* What the local variables of programs add up to (log/aggregate.h): lines of their own. */
	void (*aggregate)(struct dp_sink *s, const struct dp_agg_table *t);
	/* The same before it is added up, instead; only: DP_AGG_ALL, or what was printed meanwhile. May be NULL */
	void (*words)(struct dp_sink *s, const struct dp_rpn_unit *u, volatile const u64 *words, u32 only,
		      const struct dp_agg_view *view);

	/* Of events; these may be NULL. */
	void (*commit)(struct dp_sink *s);      /* the log was read: write what waits in the sink */
	void (*finish)(struct dp_sink *s);      /* behind the last record */
	void (*lost)(struct dp_sink *s, u64 n); /* so many more found no room, about here */
	/* A part of a ring, as a whole: its bytes are written behind what is put. See in_part. */
	void (*part)(struct dp_sink *s, u32 source, const struct dp_reader_part *part);
	const char *(*missing)(void); /* why the format cannot be written; NULL: it can. May be NULL */
	bool takes_min;               /* it leaves out brief calls (dp_graph_options.min_ns) */
	bool takes_addresses;         /* of an event's fields no others: they may have names */
	bool takes_tables_again;      /* of a whole format: not only at the end, but as they are by then */
	bool is_directory;            /* it writes into the directory env->path, not to the line */
};

struct dp_sink {
	const struct dp_sink_ops *ops;
	struct dp_line *line;
	/* Writes the name of an address, or the number. behind_call as in dp_sink_value. */
	void (*symbol)(struct dp_sink *s, u64 addr, bool behind_call, char *buf, size_t size);
	void *arg;                  /* for symbol */
	dp_code_file_fn *code_file; /* NULL: no files are known */
	void *code_file_arg;
	const struct dp_format_env *env; /* of events; NULL in the kernel and for programs */
	const char *dim, *plain;         /* around names: colours, or "" */
	const char *apart;               /* text: between the members of the innermost group */
	u64 more;                        /* bit N: the group at depth N has a member already */
	unsigned depth;
	bool program;        /* the record is a probe program's */
	bool in_part;        /* the record is one of a part that comes as a whole: only what is beside it is put */
	u64 interval_ns;     /* the tables that come are those of this moment, and not the last; 0: they are */
	const char *trouble; /* why the output is not whole; NULL: it is */
};

/* Room for any sink of log/formats.def. */
union dp_sink_room {
	struct dp_sink s;
	u64 words[64];
};

/* The first member of a group needs no separator. Returns whether this one does. */
static inline bool dp_sink_next(struct dp_sink *s)
{
	u64 bit = (u64)1 << (s->depth & 63);
	bool more = s->more & bit;

	s->more |= bit;
	return more;
}

static inline void dp_sink_deeper(struct dp_sink *s)
{
	s->depth++;
	s->more &= ~((u64)1 << (s->depth & 63));
}

static inline void dp_sink_begin_event(struct dp_sink *s)
{
	s->depth = 0;
	s->more = 0;
	s->program = false;
}

/* A record of an event through a sink. walk.c */
void dp_walk_event(struct dp_sink *s, const struct dp_sink_record *r);
/* Of it field `i`, without its name. */
void dp_walk_value(struct dp_sink *s, const struct dp_view *v, unsigned i);

/* How text shows groups, members and values. put.c */
void dp_put_field(struct dp_sink *s, const char *name, unsigned i);
void dp_put_group(struct dp_sink *s, enum dp_sink_group what);
void dp_put_member(struct dp_sink *s, const char *name);
void dp_put_group_end(struct dp_sink *s, enum dp_sink_group what);
void dp_put_value(struct dp_sink *s, const struct dp_sink_value *v);

#endif
