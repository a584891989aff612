/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Writes JSON: the only place that knows its punctuation. Commas come by themselves.
 *
 *   struct dp_json j = {&line};
 *   dp_json_open(&j, '{'); dp_json_key(&j, "pid"); dp_json_unsigned(&j, 1); dp_json_close(&j, '}');
 */
#ifndef DP_JSON_H
#define DP_JSON_H

#include "log/line.h"

struct dp_json {
	struct dp_line *line;
	u64 more; /* bit N: what is open at depth N has a member already */
	unsigned depth;
	bool keyed;      /* a value follows its key */
	bool one_a_line; /* elements of the second level begin lines of their own */
};

void dp_json_open(struct dp_json *j, char bracket); /* '{' or '[' */
void dp_json_close(struct dp_json *j, char bracket);
void dp_json_end(struct dp_json *j); /* of the line */

void dp_json_key_bytes(struct dp_json *j, const char *key, size_t n);
void dp_json_key_text(struct dp_json *j, const char *key); /* of somebody else's choice */

/* A key that needs no escapes. */
static inline void dp_json_key(struct dp_json *j, const char *key)
{
	dp_json_key_bytes(j, key, strlen(key));
}

void dp_json_unsigned(struct dp_json *j, u64 v);
void dp_json_signed(struct dp_json *j, s64 v);
void dp_json_seconds(struct dp_json *j, u64 ns);                    /* with nine digits behind the point */
void dp_json_digits(struct dp_json *j, const char *text, size_t n); /* a number; infinities become texts */
void dp_json_bool(struct dp_json *j, bool v);
void dp_json_null(struct dp_json *j);
/* A byte that is not part of valid UTF-8 becomes \u00XX. */
void dp_json_text(struct dp_json *j, const char *s, size_t n);
void dp_json_string(struct dp_json *j, const char *s);
void dp_json_hex(struct dp_json *j, const void *p, size_t n); /* bytes, as a text */

/* A member: the key needs no escapes. */
static inline void dp_json_put_unsigned(struct dp_json *j, const char *key, u64 v)
{
	dp_json_key(j, key);
	dp_json_unsigned(j, v);
}

static inline void dp_json_put_string(struct dp_json *j, const char *key, const char *v)
{
	dp_json_key(j, key);
	dp_json_string(j, v);
}

/* v NULL: null. */
static inline void dp_json_put_string_or_null(struct dp_json *j, const char *key, const char *v)
{
	dp_json_key(j, key);
	v ? dp_json_string(j, v) : dp_json_null(j);
}

static inline void dp_json_put_bool(struct dp_json *j, const char *key, bool v)
{
	dp_json_key(j, key);
	dp_json_bool(j, v);
}

#endif
