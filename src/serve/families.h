/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Metric families with their series, in the exposition formats of Prometheus. Names and labels may be
 * anybody's choice: they are cleaned and escaped here, and here alone. A family has a limited number of series; what
 * comes later adds up to one that is named as the rest. A series that was shown keeps its place as long as it comes.
 */
#ifndef DP_FAMILIES_H
#define DP_FAMILIES_H

#include "log/line.h"

enum dp_metric { DP_METRIC_COUNTER, DP_METRIC_GAUGE, DP_METRIC_SUMMARY, DP_METRIC_HISTOGRAM, DP_METRIC_INFO };

/* What two series that become one come to. */
enum dp_metric_fold { DP_FOLD_SUM, DP_FOLD_MIN, DP_FOLD_MAX, DP_FOLD_NONE };

#define DP_METRIC_BARS 64
#define DP_METRIC_QUANTILES 5
#define DP_METRIC_LABELS 8
#define DP_METRIC_REST "_rest" /* the labels of what has no series of its own */

struct dp_metric_value {
	enum dp_metric_fold fold;
	double number; /* of a counter, a gauge */
	u64 count;     /* of a summary: values, */
	double sum;    /* and what they add up to */
	bool has_sum;
	u32 nquantiles;
	double part[DP_METRIC_QUANTILES], quantile[DP_METRIC_QUANTILES];
	u64 *bars; /* of a histogram, DP_METRIC_BARS: as dp_agg_range() tells them. The family takes it */
	s64 low;   /* of a linear one, with: */
	u32 step;  /* 0: bars are powers of two */
};

struct dp_metric_label {
	const char *name; /* it is ours */
	const char *value;
	size_t len;
};

struct dp_families;
struct dp_family;

/* most: series of a family, of histograms a tenth. NULL: no memory. */
struct dp_families *dp_families_new(u32 most);
void dp_families_free(struct dp_families *f);

/* What follows are the values of now. */
void dp_families_begin(struct dp_families *f);

/*
 * The family of that name, which needs not be one that the formats allow. unit: what the name ends with; NULL: none.
 * NULL: there is one of another type, or no memory.
 */
struct dp_family *dp_family(struct dp_families *f, const char *name, enum dp_metric type, const char *unit,
			    const char *help);

void dp_family_put(struct dp_family *f, const struct dp_metric_label *labels, u32 n, const struct dp_metric_value *v);

enum dp_exposition {
	DP_EXPOSITION_TEXT, /* the text format 0.0.4 of Prometheus */
	DP_EXPOSITION_OPENMETRICS,
	DP_EXPOSITION_PROTO, /* its protocol buffers, the only one with native histograms */
};

void dp_families_write(struct dp_families *f, enum dp_exposition format, struct dp_line *out);

#endif
