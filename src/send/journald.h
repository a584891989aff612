/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Entries for systemd's journal, by its native protocol: a datagram each, of lines KEY=VALUE (log/sinks/sink-journald.c
 * writes them, with an empty line behind each entry).
 */
#ifndef DP_SEND_JOURNALD_H
#define DP_SEND_JOURNALD_H

#include "base/error.h"

struct dp_journald;

/* E_JOURNALD_NONE. */
int dp_journald_new(struct dp_journald **j, struct dp_error *err);

/* Takes a piece of text with entries. A journal that is slow is waited for a moment; then entries are lost. */
bool dp_journald_take(void *journal, const char *text, size_t n);

/* How many were not taken. Frees it. */
unsigned long long dp_journald_end(struct dp_journald *j);

#endif
