/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* In the place of top-screen.c, in a build without ncurses. */
#include "top/top-show.h"

const char *dp_top_screen_missing(void)
{
	return "this dprobes was built without ncurses";
}

const char *dp_top_screen_library(void)
{
	return NULL;
}

struct dp_top_screen *dp_top_screen_new(struct dp_top_show *s)
{
	snprintf(s->trouble, sizeof(s->trouble), "%s", dp_top_screen_missing());
	return NULL;
}

void dp_top_screen_free(struct dp_top_screen *s)
{
}

void dp_top_screen_draw(struct dp_top_screen *s)
{
}

bool dp_top_screen_keys(struct dp_top_screen *s)
{
	return false;
}

bool dp_top_screen_is_paused(const struct dp_top_screen *s)
{
	return false;
}
