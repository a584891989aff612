/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The error table and the helpers that fill in a struct dp_error. Allocates nothing. */
#include "base/error.h"

static const struct dp_error_info table[DP_NCODES] = {
    [DP_OK] = {"OK", 0, "no error", "", ""},
#define DP_ERROR(id, name, number, sentence, hint, explanation) [id] = {name, number, sentence, hint, explanation},
#include "base/errors.def"
#undef DP_ERROR
};

const struct dp_error_info *dp_error_info(enum dp_code code)
{
	return &table[(unsigned)code < DP_NCODES ? code : DP_OK];
}

static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool same_name(const char *a, const char *b)
{
	while (*a && upper(*a) == upper(*b))
		a++, b++;
	return !*a && !*b;
}

enum dp_code dp_error_by_name(const char *name)
{
	for (int i = 1; i < DP_NCODES; i++)
		if (same_name(table[i].name, name))
			return (enum dp_code)i;
	return DP_OK;
}

int dp_fail(struct dp_error *err, enum dp_code code, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		err->code = code;
		err->column = -1;
		err->hint[0] = '\0';
		va_start(ap, fmt);
		dp_vformat(err->detail, sizeof(err->detail), fmt, ap);
		va_end(ap);
	}
	return -table[code].number;
}

void dp_error_hint(struct dp_error *err, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	dp_vformat(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
}

void dp_error_column(struct dp_error *err, int column)
{
	if (err)
		err->column = column;
}

int dp_format(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = dp_vformat(buf, size, fmt, ap);
	va_end(ap);
	return n;
}
