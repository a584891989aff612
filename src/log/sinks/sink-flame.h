/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Call stacks as a picture. */
#ifndef DP_SINK_FLAME_H
#define DP_SINK_FLAME_H

#include "log/stacks.h"

/* The <svg> element; its script, which the page runs once. */
void dp_flame_svg(struct dp_line *l, const struct dp_stacks *st);
extern const char dp_flame_style[], dp_flame_script[];

/* As XML and HTML have it between tags and quotes. */
void dp_flame_text(struct dp_line *l, const char *s, size_t n);

#endif
