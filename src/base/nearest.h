/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Did you mean: names that resemble a name that was not found. */
#ifndef DP_NEAREST_H
#define DP_NEAREST_H

#include "base/error.h"

/* The nearest ones; zeroed in the beginning. */
struct dp_near {
	char best[3][96];
	unsigned int score[3];
	int n;
};

void dp_near_try(struct dp_near *near, const char *wanted, const char *candidate);
/* With commas between them; "" when none is near. */
void dp_near_text(const struct dp_near *near, char *buf, size_t size);
/* The error's hint, when one is near: "did you mean PREFIXname?" */
void dp_near_hint(const struct dp_near *near, const char *prefix, struct dp_error *err);

#endif
