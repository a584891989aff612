/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The inside of metric families: what families.c keeps, and the formats that it is written in. */
#ifndef DP_FAMILIES_PRIV_H
#define DP_FAMILIES_PRIV_H

#include "serve/families.h"

struct dp_series {
	char *labels; /* escaped, without braces; NULL: it has become a part of another one */
	u64 hash;
	bool shown;
	struct dp_metric_value v;
};

struct dp_place { /* of a series that was shown the last time */
	char *labels;
	u64 hash;
	size_t at; /* in the family's series, plus 1; 0: it does not come this time */
};

struct dp_family {
	char name[256], help[256];
	const char *unit;
	enum dp_metric type;
	struct dp_series *v;
	size_t n, room;
	char *rest_labels;
	struct dp_series rest;
	u64 nrest; /* how many it has */
	struct dp_place *places;
	u32 nplaces, most;
	bool comes;
};

struct dp_families {
	struct dp_family **v;
	size_t n, room;
	u32 most;
	u64 refused; /* values whose family has another type */
};

/* The last value that belongs to bar i of a histogram. */
static inline s64 dp_metric_bar_end(const struct dp_metric_value *v, u32 i)
{
	return v->step ? v->low + (s64)i * v->step - 1 : (s64)((1ull << i) - 1);
}

/* What the format 0.0.4 puts behind the name of a family, whatever its series are. */
static inline const char *dp_family_ending(const struct dp_family *f)
{
	return f->type == DP_METRIC_COUNTER ? "_total" : f->type == DP_METRIC_INFO ? "_info" : "";
}

/* As labels and texts of the text formats are escaped. */
void dp_metric_escape(struct dp_line *l, const char *s, size_t n);

/* families-text.c: a family whose series are settled. */
void dp_family_write_text(const struct dp_family *f, bool openmetrics, struct dp_line *out);
/* families-proto.c: the same as a message of protocol buffers, with its length in front. */
void dp_family_write_proto(const struct dp_family *f, struct dp_line *out);

#endif
