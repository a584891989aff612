/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How the command talks to people: errors with a caret and a hint, notes, progress, suggestions,
 * colours. Writes to standard error only, except for what dp_ui_style() lends to others.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "log/human.h"
#include "log/line.h"

const char *dp_ui_clean(const char *s)
{
	static struct dp_line lines[8]; /* as many as one call of printf may show */
	static unsigned next;
	struct dp_line *l = &lines[next++ % DP_ARRAY_SIZE(lines)];

	dp_line_reset(l);
	dp_line_clean(l, s, strlen(s), "");
	dp_line_char(l, '\0');
	return l->broken ? "?" : l->text;
}

void dp_ui_put_text(FILE *f, const char *s)
{
	struct dp_line l = {0};

	dp_line_clean(&l, s, strlen(s), "\n\t");
	if (!l.broken)
		fwrite(l.text, 1, l.n, f);
	dp_line_free(&l);
}

bool dp_ui_color(FILE *f)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (no && *no)
		return false;
	return term && strcmp(term, "dumb") != 0 && isatty(fileno(f)) == 1;
}

u32 dp_ui_columns(FILE *f)
{
	struct winsize size;

	return isatty(fileno(f)) == 1 && !ioctl(fileno(f), TIOCGWINSZ, &size) ? size.ws_col : 0;
}

const char *dp_ui_style(FILE *f, enum ui_style style)
{
	static const char *const codes[] = {
	    [UI_PLAIN] = "\033[0m",  [UI_BOLD] = "\033[1m",    [UI_DIM] = "\033[2m",   [UI_RED] = "\033[1;31m",
	    [UI_GREEN] = "\033[32m", [UI_YELLOW] = "\033[33m", [UI_CYAN] = "\033[36m",
	};

	return dp_ui_color(f) ? codes[style] : "";
}

/*
 * Print the text and, under it, a caret below byte `column`. Tabs are repeated in the caret's line
 * and UTF-8 continuation bytes take no room there, so that the caret stands where the eye sees it.
 */
static void print_caret(const char *text, int column)
{
	size_t len = strlen(text);

	fputs("    ", stderr);
	dp_ui_put_text(stderr, text);
	fputs("\n    ", stderr);
	for (size_t i = 0; i < (size_t)column && i < len; i++) {
		if (text[i] == '\t')
			fputc('\t', stderr);
		else if (((unsigned char)text[i] & 0xc0) != 0x80)
			fputc(' ', stderr);
	}
	fprintf(stderr, "%s^%s\n", dp_ui_style(stderr, UI_GREEN), dp_ui_style(stderr, UI_PLAIN));
}

void dp_ui_error(const struct dp_error *err, const char *text)
{
	const struct dp_error_info *info = dp_error_info(err->code);
	const char *hint = err->hint[0] ? err->hint : info->hint;

	dp_ui_progress_end();
	if (dp_ui_messages_json()) {
		dp_ui_message_error(err, hint, text);
		return;
	}
	fprintf(stderr, "dprobes: %s%s%s: %s%s%s\n", dp_ui_style(stderr, UI_RED), info->name,
		dp_ui_style(stderr, UI_PLAIN), info->sentence, err->detail[0] ? ": " : "", dp_ui_clean(err->detail));
	if (text && err->column >= 0)
		print_caret(text, err->column);
	if (hint[0])
		fprintf(stderr, "hint: %s\n", dp_ui_clean(hint));
	fprintf(stderr, "%s`dprobes explain %s` explains it%s\n", dp_ui_style(stderr, UI_DIM), info->name,
		dp_ui_style(stderr, UI_PLAIN));
}

int dp_ui_status(enum dp_code code)
{
	switch (code) {
	case E_CMD_UNKNOWN:
	case E_CMD_TOPIC:
	case E_CMD_OPTION:
	case E_CMD_VALUE:
	case E_CMD_MISSING:
	case E_CMD_EXTRA:
		return CMD_USAGE;
	default:
		return code == DP_OK ? CMD_OK : CMD_FAILED;
	}
}

int dp_ui_fail(enum dp_code code, const char *hint, const char *fmt, ...)
{
	struct dp_error err = {.code = code, .column = -1};
	va_list ap;

	va_start(ap, fmt);
	dp_vformat(err.detail, sizeof(err.detail), fmt, ap);
	va_end(ap);
	if (hint)
		dp_error_hint(&err, "%s", hint);
	dp_ui_error(&err, NULL);
	return dp_ui_status(code);
}

void dp_ui_note(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	dp_ui_progress_end();
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if (dp_ui_messages_json()) {
		dp_ui_message_note(text, (size_t)n);
	} else {
		fprintf(stderr, "%snote:%s ", dp_ui_style(stderr, UI_CYAN), dp_ui_style(stderr, UI_PLAIN));
		dp_ui_put_text(stderr, text);
		fputc('\n', stderr);
	}
	free(text);
}

#define PROGRESS_AFTER 1.0 /* seconds: what is done by then needs no line */
#define PROGRESS_EVERY 0.1

static struct {
	char what[64];
	double begun, shown; /* by now(); shown 0: not yet */
} progress;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void dp_ui_progress(const char *what, unsigned long long done, unsigned long long total)
{
	double at = now();
	char rate[32], text[sizeof(progress.what)];

	if (dp_ui_messages_json() || !dp_ui_color(stderr))
		return;
	snprintf(text, sizeof(text), "%s", what);
	if (strcmp(text, progress.what)) {
		memcpy(progress.what, text, sizeof(text));
		progress.begun = at;
	}
	if (at < progress.begun + PROGRESS_AFTER || at < progress.shown + PROGRESS_EVERY)
		return;
	fprintf(stderr, "\r\033[K%s", dp_ui_clean(what));
	dp_human_count((double)done / (at - progress.begun), rate, sizeof(rate));
	fprintf(stderr, " %llu", done);
	if (total)
		fprintf(stderr, "/%llu (%.0f %%)", total, 100 * (double)done / (double)total);
	fprintf(stderr, ", %s/s", rate);
	fflush(stderr);
	progress.shown = at;
}

void dp_ui_progress_end(void)
{
	progress.what[0] = '\0';
	if (progress.shown == 0)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	progress.shown = 0;
}

#define WORD_MAX 48

/* Insertions, deletions, replacements and swaps of neighbours that lead from a to b, case apart. */
static int distance(const char *a, const char *b)
{
	int rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *now = rows[2];
	int n = (int)strnlen(a, WORD_MAX), m = (int)strnlen(b, WORD_MAX);

	for (int j = 0; j <= m; j++)
		last[j] = j;
	for (int i = 1; i <= n; i++) {
		now[0] = i;
		for (int j = 1; j <= m; j++) {
			int best = last[j - 1] + (strncasecmp(&a[i - 1], &b[j - 1], 1) != 0);

			best = DP_MIN(best, DP_MIN(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = DP_MIN(best, before[j - 2] + 1);
			now[j] = best;
		}
		int *free_row = before;
		before = last;
		last = now;
		now = free_row;
	}
	return last[m];
}

const char *dp_ui_nearest(const char *word, const char *(*next)(int i, void *arg), void *arg)
{
	int len = (int)strlen(word), limit = DP_MIN(DP_MAX(1, len / 3), 4), best = limit + 1;
	const char *candidate, *nearest = NULL;

	for (int i = 0; (candidate = next(i, arg)); i++) {
		int d = distance(word, candidate);

		if (len >= 3 && !strncasecmp(word, candidate, (size_t)len))
			d = DP_MIN(d, 1); /* an abbreviation */
		if (d < best) {
			best = d;
			nearest = candidate;
		}
	}
	return nearest;
}

void dp_ui_time_line(void)
{
	time_t now = time(NULL);
	struct tm tm;
	char text[32];

	localtime_r(&now, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	printf("%s---- %s%s\n", dp_ui_style(stdout, UI_DIM), text, dp_ui_style(stdout, UI_PLAIN));
}

void dp_ui_json_write(struct dp_json *j, FILE *to)
{
	dp_json_end(j);
	if (!j->line->broken)
		fwrite(j->line->text, 1, j->line->n, to);
	else if (to == stdout)
		dp_ui_fail(E_FILE_MEMORY, NULL, "output");
	dp_line_free(j->line);
}

void dp_ui_json_end(struct dp_json *j)
{
	dp_ui_json_write(j, stdout);
}

int dp_ui_status_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void dp_ui_tell_ended(const char *name, int status)
{
	if (WIFSIGNALED(status))
		dp_ui_note("%s was ended by signal %d (%s)", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (status)
		dp_ui_note("%s ended with status %d", name, WEXITSTATUS(status));
}
