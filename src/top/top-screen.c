/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The screen of dprobes top, by ncurses: draws the model of top.h, and turns keys into changes of it. Names come from
 * files and processes: all texts are cleaned before they are drawn.
 */
#include <curses.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "log/human.h"
#include "program/opcode.h"
#include "top/top-show.h"

#define TEXT 512
#define TREND 10
#define NAME 20 /* columns that a name has at least */
#define ESCAPE 27
#define SLOW_NS 1e6      /* a time from here on is yellow, */
#define VERY_SLOW_NS 1e8 /* and from here on red */

enum page { PAGE_ROWS, PAGE_FUNCTION, PAGE_HELP };
enum pair { PAIR_NONE, PAIR_BAD, PAIR_WARN, PAIR_GOOD, PAIR_DIM };

struct dp_top_screen {
	struct dp_top_show *show;
	struct dp_top *t;
	SCREEN *screen;
	enum page page;
	bool colors, paused, typing;                          /* typing: the filter */
	u32 selected;                                         /* its row, plus 1; 0: the first that is shown */
	u32 first;                                            /* of those that are shown: at the top of the screen */
	char before[sizeof(((struct dp_top *)NULL)->filter)]; /* the filter, until typing ends */
	char message[200];
	char function[TEXT]; /* of PAGE_FUNCTION */
	u32 edge, nedges;    /* selected there, of so many */
	char edge_name[TEXT];
};

const char *dp_top_screen_missing(void)
{
	return NULL;
}

const char *dp_top_screen_library(void)
{
	return curses_version();
}

/* ---- the terminal ---- */

static void begin_colors(struct dp_top_screen *s)
{
	const char *no = getenv("NO_COLOR");

	s->colors = !(no && *no) && has_colors() && start_color() == OK;
	if (!s->colors)
		return;
	use_default_colors();
	init_pair(PAIR_BAD, COLOR_RED, -1);
	init_pair(PAIR_WARN, COLOR_YELLOW, -1);
	init_pair(PAIR_GOOD, COLOR_GREEN, -1);
	init_pair(PAIR_DIM, COLOR_CYAN, -1);
}

struct dp_top_screen *dp_top_screen_new(struct dp_top_show *show)
{
	struct dp_top_screen *s = calloc(1, sizeof(*s));
	const char *term = getenv("TERM");

	if (!s)
		return NULL;
	s->show = show;
	s->t = show->top;
	s->screen = newterm(NULL, stdout, stdin);
	if (!s->screen) {
		snprintf(show->trouble, sizeof(show->trouble), "TERM is '%.80s'", term ? term : "");
		free(s);
		return NULL;
	}
	set_term(s->screen);
	set_escdelay(25);
	begin_colors(s);
	cbreak();
	noecho();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	curs_set(0);
	return s;
}

void dp_top_screen_free(struct dp_top_screen *s)
{
	if (!s)
		return;
	endwin();
	delscreen(s->screen);
	free(s);
}

bool dp_top_screen_is_paused(const struct dp_top_screen *s)
{
	return s->paused;
}

/* ---- text ---- */

static chtype attributes(const struct dp_top_screen *s, enum pair pair)
{
	if (!s->colors)
		return pair == PAIR_BAD ? A_BOLD : pair == PAIR_DIM ? A_DIM : A_NORMAL;
	return COLOR_PAIR(pair);
}

/* At most so many columns; nothing beyond the screen's edge. Returns the column behind. */
static int put(int y, int x, int columns, const char *text)
{
	char clean[4 * TEXT];
	wchar_t wide[4 * TEXT];
	size_t n, used = 0;
	int room = DP_MIN(columns, COLS - x), width = 0;

	dp_clean(clean, sizeof(clean), text, strnlen(text, TEXT), "");
	n = mbstowcs(wide, clean, DP_ARRAY_SIZE(wide) - 1);
	if (n == (size_t)-1) { /* the locale does not have these characters */
		for (n = 0; clean[n]; n++)
			wide[n] = (unsigned char)clean[n] < 0x80 ? (wchar_t)clean[n] : L'?';
	}
	for (; used < n; used++) {
		int w = DP_MAX(wcwidth(wide[used]), 0);

		if (width + w > room)
			break;
		width += w;
	}
	if (y < LINES && used)
		mvaddnwstr(y, x, wide, (int)used);
	return x + width;
}

static int put_right(int y, int x, int columns, const char *text)
{
	int n = (int)strlen(text);

	put(y, x + DP_MAX(0, columns - n), columns, text);
	return x + columns;
}

static int put_format(int y, int x, const char *fmt, ...) DP_PRINTF(3, 4);
static int put_format(int y, int x, const char *fmt, ...)
{
	char text[TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return put(y, x, COLS, text);
}

/* ---- the rows ---- */

static void draw_summary(struct dp_top_screen *s)
{
	struct dp_line l = {0};
	int x = 0;

	dp_top_put_summary(&l, s->t);
	dp_line_char(&l, '\0');
	if (!l.broken) {
		l.text[strcspn(l.text, "\n")] = '\0';
		attron(s->t->lost ? attributes(s, PAIR_BAD) : A_NORMAL);
		x = put(0, 0, COLS, l.text);
		attroff(s->t->lost ? attributes(s, PAIR_BAD) : A_NORMAL);
	}
	dp_line_free(&l);
	attron(attributes(s, PAIR_WARN));
	if (s->paused)
		x = put(0, x, COLS, "  PAUSED");
	if (*s->t->filter && !s->typing) {
		x = put(0, x, COLS, "  /");
		put(0, x, COLS, s->t->filter);
	}
	attroff(attributes(s, PAIR_WARN));
}

/*
 * The columns that fit beside a name, by bits; that of DP_TOP_NCOLUMNS is the trend. What is told by others, or least
 * asked for, goes first.
 */
static u32 fitting(const struct dp_top *t)
{
	static const enum dp_top_column order[] = {DP_TOP_MAX,      DP_TOP_HITS,   DP_TOP_MEAN,  DP_TOP_SELF,
						   DP_TOP_NCOLUMNS, DP_TOP_MEDIAN, DP_TOP_TOTAL, DP_TOP_P99};
	u32 fit = 1u << DP_TOP_NCOLUMNS;
	int width = TREND + 1 + NAME;

	for (enum dp_top_column c = 0; c < DP_TOP_NCOLUMNS; c++)
		if (dp_top_has(t, c)) {
			fit |= 1u << c;
			width += c == DP_TOP_NAME ? 0 : dp_top_width(t, c) + 1;
		}
	for (size_t i = 0; i < DP_ARRAY_SIZE(order) && width > COLS; i++)
		if (fit >> order[i] & 1) {
			fit &= ~(1u << order[i]);
			width -= order[i] == DP_TOP_NCOLUMNS ? TREND + 1 : dp_top_width(t, order[i]) + 1;
		}
	return fit;
}

static void draw_heads(struct dp_top_screen *s, int y)
{
	u32 fit = fitting(s->t);
	int x = 0;

	attron(A_REVERSE);
	mvhline(y, 0, ' ', COLS);
	for (enum dp_top_column c = 0; c < DP_TOP_NCOLUMNS; c++) {
		const struct dp_top_spec *spec = dp_top_spec(s->t, c);
		int width = dp_top_width(s->t, c);
		chtype mark = c == s->t->sort ? A_BOLD | A_UNDERLINE : A_NORMAL;

		if (!(fit >> c & 1))
			continue;
		if (c == DP_TOP_NAME && fit >> DP_TOP_NCOLUMNS & 1) {
			put(y, x, TREND, "TREND");
			x += TREND + 1;
		}
		attron(mark);
		x = width ? put_right(y, x, width, spec->head) : put(y, x, COLS, spec->head);
		attrset(A_REVERSE);
		x++;
	}
	attrset(A_NORMAL);
}

static enum pair cell_pair(const struct dp_top *t, const struct dp_top_row *row, enum dp_top_column c)
{
	double v = dp_top_value(t, row, c);

	if (row->off || row->out)
		return PAIR_WARN;
	if (c == DP_TOP_RATE)
		return row->rate > 0 ? PAIR_GOOD : PAIR_NONE;
	if (t->kind == DP_TOP_SAMPLES || c < DP_TOP_MEAN || c == DP_TOP_NAME)
		return PAIR_NONE;
	return v >= VERY_SLOW_NS ? PAIR_BAD : v >= SLOW_NS ? PAIR_WARN : PAIR_NONE;
}

static void draw_row(struct dp_top_screen *s, int y, const struct dp_top_row *row, bool selected)
{
	chtype reverse = selected ? A_REVERSE : A_NORMAL;
	u32 fit = fitting(s->t);
	char text[TEXT];
	int x = 0;

	if (selected) {
		attron(A_REVERSE);
		mvhline(y, 0, ' ', COLS);
	}
	for (enum dp_top_column c = 0; c < DP_TOP_NCOLUMNS; c++) {
		int width = dp_top_width(s->t, c);

		if (!(fit >> c & 1))
			continue;
		if (c == DP_TOP_NAME && fit >> DP_TOP_NCOLUMNS & 1) {
			attrset(attributes(s, PAIR_DIM) | reverse);
			dp_top_trend(s->t, row, TREND, s->show->utf8, text, sizeof(text));
			put(y, x, TREND, text);
			x += TREND + 1;
		}
		dp_top_cell(s->t, row, c, text, sizeof(text));
		attrset(attributes(s, cell_pair(s->t, row, c)) | reverse);
		x = width ? put_right(y, x, width, text) : put(y, x, COLS, text);
		if (c == DP_TOP_NAME && *dp_top_remark(row))
			x = put(y, x, COLS, dp_top_remark(row));
		x++;
	}
	attrset(A_NORMAL);
}

static u32 selected_at(const struct dp_top_screen *s)
{
	for (u32 i = 0; i < s->t->nshown; i++)
		if (s->t->order[i] + 1 == s->selected)
			return i;
	return 0;
}

static struct dp_top_row *selected_row(struct dp_top_screen *s)
{
	return s->t->nshown ? &s->t->rows[s->t->order[selected_at(s)]] : NULL;
}

/* The tables of lines: so many lines of the screen, from its last but one upwards. Returns where they begin. */
static int draw_tables(struct dp_top_screen *s, int from)
{
	const struct dp_line *tables = &s->t->tables;
	int lines = 0, y, room = (LINES - 1 - from) * 2 / 3;
	const char *p = tables->text, *end = p + tables->n;

	for (size_t i = 0; i < tables->n; i++)
		lines += tables->text[i] == '\n';
	lines = DP_MIN(lines, room);
	y = LINES - 1 - lines;
	for (int i = 0; i < lines && p < end; i++) {
		char text[TEXT];
		const char *stop = memchr(p, '\n', (size_t)(end - p));

		stop = stop ? stop : end;
		snprintf(text, sizeof(text), "%.*s", (int)DP_MIN(stop - p, TEXT - 1), p);
		put(y + i, 0, COLS, text);
		p = stop + 1;
	}
	return y;
}

static void draw_rows(struct dp_top_screen *s)
{
	int y = 2, end = draw_tables(s, y);
	u32 at = selected_at(s), room = (u32)DP_MAX(end - y, 1);

	draw_heads(s, 1);
	if (at < s->first)
		s->first = at;
	if (at >= s->first + room)
		s->first = at - room + 1;
	if (s->first + room > s->t->nshown)
		s->first = s->t->nshown > room ? s->t->nshown - room : 0;
	for (u32 i = s->first; i < s->t->nshown && y < end; i++)
		draw_row(s, y++, &s->t->rows[s->t->order[i]], i == at);
	if (!s->t->nshown)
		put(y, 0, COLS, *s->t->filter ? "nothing matches the filter" : "nothing was hit so far");
}

/* ---- one function ---- */

/* The times by powers of two. */
static void draw_times(struct dp_top_screen *s, const struct dp_top_row *row, int y)
{
	u64 sums[DP_QUANTILE_WORDS / 4 + 1] = {0}, most = 1;
	u32 lo = DP_ARRAY_SIZE(sums), hi = 0;

	for (u32 i = 0; row->bars && i < DP_QUANTILE_WORDS; i++)
		sums[i / 4] += row->bars[i];
	for (u32 i = 0; i < DP_ARRAY_SIZE(sums); i++)
		if (sums[i]) {
			lo = DP_MIN(lo, i);
			hi = i;
			most = DP_MAX(most, sums[i]);
		}
	for (u32 i = lo; i <= hi && lo < DP_ARRAY_SIZE(sums) && y < LINES - 1; i++, y++) {
		char from[16], to[16], number[16];
		int bar = DP_MAX(COLS - 40, 4);

		dp_human_duration(i ? (double)(1ull << (i + 1)) : 0, from, sizeof(from));
		dp_human_duration((double)(1ull << (i + 2)), to, sizeof(to));
		dp_human_count((double)sums[i], number, sizeof(number));
		put_format(y, 2, "%7s .. %-7s %7s |", from, to, number);
		attron(attributes(s, PAIR_DIM));
		for (int k = 0; k < (int)((double)sums[i] / (double)most * bar + 0.5); k++)
			put(y, 30 + k, 1, s->show->utf8 ? "█" : "#");
		attroff(attributes(s, PAIR_DIM));
	}
}

/* A third of the screen at most. */
static int draw_edges(struct dp_top_screen *s, int y, const char *head, const struct dp_top_edge *v, u32 n)
{
	int end = DP_MIN(LINES - 1, y + 2 + LINES / 3);
	bool samples = s->t->kind == DP_TOP_SAMPLES;

	attron(A_BOLD);
	put_format(y++, 0, "%-10s %8s %8s", head, samples ? "SAMPLES" : "CALLS", samples ? "" : "TOTAL");
	attroff(A_BOLD);
	for (u32 i = 0; i < n && y < end; i++, y++, s->nedges++) {
		char calls[16], total[16] = "";

		dp_human_count((double)v[i].calls, calls, sizeof(calls));
		if (!samples)
			dp_human_duration((double)v[i].total, total, sizeof(total));
		if (s->nedges == s->edge) {
			attron(A_REVERSE);
			snprintf(s->edge_name, sizeof(s->edge_name), "%s", v[i].name);
		}
		put(y, put_format(y, 0, "%-10s %8s %8s  ", "", calls, total), COLS, v[i].name);
		attroff(A_REVERSE);
	}
	if (!n)
		put(y++, 11, COLS, "none are known");
	return y + 1;
}

static void draw_function(struct dp_top_screen *s)
{
	struct dp_top_row *row = dp_top_row(s->t, s->function);
	struct dp_top_edge *v;
	int y = 2;
	u32 n;

	if (!row)
		return;
	draw_heads(s, 1);
	draw_row(s, y++, row, false);
	s->nedges = 0;
	*s->edge_name = '\0';
	y++;
	if (s->t->kind == DP_TOP_EVENTS) {
		put(y++, 0, COLS, "Callers of events are not known: add `count by $caller` to the line.");
	} else {
		n = dp_top_callers(s->t, s->function, &v);
		y = draw_edges(s, y, "CALLERS", v, n);
		free(v);
		n = dp_top_callees(s->t, s->function, &v);
		y = draw_edges(s, y, "CALLEES", v, n);
		free(v);
	}
	if (s->edge >= s->nedges)
		s->edge = s->nedges ? s->nedges - 1 : 0;
	draw_times(s, row, y);
}

/* ---- help ---- */

static void draw_help(struct dp_top_screen *s)
{
	static const char *const lines[] = {
	    "q              quit",
	    "Up Down        choose a row (also k and j, PageUp, PageDown, Home, End)",
	    "< >            sort by the column to the left, to the right; 1 to 9: by that column",
	    "i              the other way round",
	    "/              show only names with this text, or that match this pattern; Esc: all",
	    "Space p        pause, and go on",
	    "Enter          the function's callers and callees, and its times; Esc: back",
	    "d              disable the row's probes, or enable them again",
	    "r              reset all counts and times",
	    "h ?            this help",
	    "",
	    "Green: hit in the last turn. Yellow: disabled, or a time from 1 ms on. Red: records were",
	    "lost, or a time from 100 ms on. Rates and hits are always right; times are of the calls",
	    "whose records were read.",
	};

	for (size_t i = 0; i < DP_ARRAY_SIZE(lines); i++)
		put(2 + (int)i, 2, COLS, lines[i]);
}

static void draw_status(struct dp_top_screen *s)
{
	static const char *const keys[] = {
	    "q quit  h help  / filter  < > sort  Space pause  Enter callers  d disable  r reset",
	    "Esc back  Up Down choose  Enter to that function  d disable  q quit", "any key: back"};
	int y = LINES - 1;

	if (s->typing) {
		put(y, put(y, 0, COLS, "filter: "), COLS, s->t->filter);
		return;
	}
	attron(*s->message ? attributes(s, PAIR_WARN) : A_DIM);
	put(y, 0, COLS, *s->message ? s->message : keys[s->page]);
	attrset(A_NORMAL);
}

void dp_top_screen_draw(struct dp_top_screen *s)
{
	erase();
	draw_summary(s);
	if (s->page == PAGE_ROWS)
		draw_rows(s);
	else if (s->page == PAGE_FUNCTION)
		draw_function(s);
	else
		draw_help(s);
	draw_status(s);
	refresh();
}

/* ---- keys ---- */

static void move_to(struct dp_top_screen *s, long at)
{
	if (s->t->nshown)
		s->selected = s->t->order[DP_MAX(0, DP_MIN(at, (long)s->t->nshown - 1))] + 1;
}

static void sort_by(struct dp_top_screen *s, enum dp_top_column c)
{
	s->t->sort = c;
	s->first = 0;
	s->selected = 0;
	dp_top_order(s->t);
}

/* The next column in this direction that there is. */
static void sort_beside(struct dp_top_screen *s, int step)
{
	int c = (int)s->t->sort + step;

	while (c >= 0 && c < DP_TOP_NCOLUMNS && !dp_top_has(s->t, (enum dp_top_column)c))
		c += step;
	if (c >= 0 && c < DP_TOP_NCOLUMNS)
		sort_by(s, (enum dp_top_column)c);
}

static void sort_nth(struct dp_top_screen *s, int n)
{
	for (enum dp_top_column c = 0; c < DP_TOP_NCOLUMNS; c++)
		if (dp_top_has(s->t, c) && !--n)
			sort_by(s, c);
}

static void toggle(struct dp_top_screen *s)
{
	struct dp_top_row *row = s->page == PAGE_FUNCTION ? dp_top_row(s->t, s->function) : selected_row(s);
	struct dp_error err = {0};

	if (row && dp_top_toggle(s->t, row, &err))
		snprintf(s->message, sizeof(s->message), "%s: %s: %.100s", dp_error_info(err.code)->name,
			 dp_error_info(err.code)->sentence, err.detail);
}

static void type_filter(struct dp_top_screen *s, int key)
{
	size_t n = strlen(s->t->filter);

	if (key == '\n' || key == '\r' || key == KEY_ENTER) {
		s->typing = false;
	} else if (key == ESCAPE) {
		s->typing = false;
		strcpy(s->t->filter, s->before);
	} else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
		while (n && ((unsigned char)s->t->filter[n - 1] & 0xc0) == 0x80) /* of a character of several bytes */
			n--;
		s->t->filter[n ? n - 1 : 0] = '\0';
	} else if (key >= ' ' && key < 256 && n + 1 < sizeof(s->t->filter)) {
		s->t->filter[n] = (char)key;
		s->t->filter[n + 1] = '\0';
	}
	s->first = 0;
	dp_top_order(s->t);
}

static void open_function(struct dp_top_screen *s, const char *name)
{
	snprintf(s->function, sizeof(s->function), "%s", name);
	s->edge = 0;
	s->page = PAGE_FUNCTION;
}

static void key_in_function(struct dp_top_screen *s, int key)
{
	switch (key) {
	case KEY_UP:
	case 'k':
		s->edge -= s->edge > 0;
		break;
	case KEY_DOWN:
	case 'j':
		s->edge += s->edge + 1 < s->nedges;
		break;
	case '\n':
	case '\r':
	case KEY_ENTER:
		if (*s->edge_name) {
			char name[TEXT];

			strcpy(name, s->edge_name);
			open_function(s, name);
		}
		break;
	case ESCAPE:
	case KEY_LEFT:
	case KEY_BACKSPACE:
	case 127:
		s->page = PAGE_ROWS;
		break;
	default:
		break;
	}
}

static void key_in_rows(struct dp_top_screen *s, int key)
{
	long at = selected_at(s), page = DP_MAX(LINES - 4, 1);
	const struct dp_top_row *row = selected_row(s);

	if (key >= '1' && key <= '9')
		sort_nth(s, key - '0');
	else if (key == KEY_UP || key == 'k')
		move_to(s, at - 1);
	else if (key == KEY_DOWN || key == 'j')
		move_to(s, at + 1);
	else if (key == KEY_PPAGE)
		move_to(s, at - page);
	else if (key == KEY_NPAGE)
		move_to(s, at + page);
	else if (key == KEY_HOME)
		move_to(s, 0);
	else if (key == KEY_END)
		move_to(s, (long)s->t->nshown);
	else if (key == '<' || key == ',')
		sort_beside(s, -1);
	else if (key == '>' || key == '.')
		sort_beside(s, 1);
	else if (key == ESCAPE) {
		*s->t->filter = '\0';
		dp_top_order(s->t);
	} else if ((key == '\n' || key == '\r' || key == KEY_ENTER) && row) {
		open_function(s, row->name);
	}
}

/* Keys of both pages. False: it is none. */
static bool common_key(struct dp_top_screen *s, int key)
{
	switch (key) {
	case ' ':
	case 'p':
		s->paused = !s->paused;
		return true;
	case 'd':
		toggle(s);
		return true;
	case 'r':
		dp_top_reset(s->t);
		return true;
	case 'i':
		s->t->ascending = !s->t->ascending;
		dp_top_order(s->t);
		return true;
	case 'h':
	case '?':
		s->page = PAGE_HELP;
		return true;
	case '/':
		strcpy(s->before, s->t->filter);
		*s->t->filter = '\0';
		s->page = PAGE_ROWS;
		s->typing = true;
		return true;
	default:
		return false;
	}
}

/* False: quit. */
static bool press(struct dp_top_screen *s, int key)
{
	*s->message = '\0';
	if (key == KEY_RESIZE)
		return true;
	if (s->typing)
		type_filter(s, key);
	else if (s->page == PAGE_HELP)
		s->page = PAGE_ROWS;
	else if (key == 'q')
		return false;
	else if (!common_key(s, key))
		s->page == PAGE_FUNCTION ? key_in_function(s, key) : key_in_rows(s, key);
	return true;
}

bool dp_top_screen_keys(struct dp_top_screen *s)
{
	bool any = false;
	int key;

	while ((key = getch()) != ERR) {
		if (!press(s, key))
			return false;
		any = true;
	}
	if (any)
		dp_top_screen_draw(s);
	return true;
}
