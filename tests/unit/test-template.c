/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Lines by templates, against those that a walk through the fields makes: the same, byte for byte, for events and
 * records of all kinds, whole and not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/digits.h"
#include "log/format.h"
#include "log/line.h"
#include "log/sinks.h"

#define EVENTS 24
#define RECORDS 40 /* of each event */
#define ROUNDS 120

static u64 state;

static u64 draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static u32 below(u32 n)
{
	return (u32)(draw() >> 20) % n;
}

/* As numbers are: short ones as often as long ones, and those around a power of two. */
static u64 number(void)
{
	u64 v = draw() >> below(64);

	return below(4) ? v : 0 - v;
}

static const char *word(void)
{
	static const char *const words[] = {"",       "x",      "fd",          "a_name_of_more_than_sixteen_bytes",
					    "\033[m", "a,b\"c", "back\\slash", "\xc3\xa4"};

	return words[below(DP_ARRAY_SIZE(words))];
}

/* ---- events ---- */

static struct dp_field fields[EVENTS][6];
static struct dp_layout layouts[EVENTS];
static struct dp_event_info events[EVENTS];

static void make_event(u32 e)
{
	static const u16 sizes[] = {1, 2, 4, 8};
	struct dp_layout *l = &layouts[e];
	u16 at = 0;

	*l = (struct dp_layout){
	    .nfields = (u16)below(7), .has_faultmask = (u8)below(2), .has_ret_addr = (u8)below(2), .fields = fields[e]};
	at = (u16)(8 * (l->has_faultmask + l->has_ret_addr));
	for (u32 i = 0; i < l->nfields; i++) {
		struct dp_field *f = &fields[e][i];
		u8 type = (u8)below(DP_FIELD_FRAME + 1);

		*f = (struct dp_field){.type = type, .offset = at};
		snprintf(f->name, sizeof(f->name), "%s", word());
		f->size = type <= DP_FIELD_X64      ? sizes[type % 4]
			  : type == DP_FIELD_CHAR   ? 1
			  : type == DP_FIELD_STRING ? 4
						    : 8;
		f->count = (u8)(type == DP_FIELD_FRAME || !below(5) ? 1 + below(3) : 0);
		at = (u16)(at + f->size * DP_MAX(f->count, 1));
	}
	l->fixed_size = at;
	events[e] = (struct dp_event_info){"group", word(), word(), below(2) ? draw() % 100 : 0, below(2), l};
}

static bool symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	snprintf(buf, size, "some\tthing+0x%x", (u32)addr & 15);
	return addr & 1;
}

/* ---- records ---- */

static struct {
	struct dp_record rec;
	u8 payload[512];
} record;

/* Texts stand behind the fixed part; some of their descriptions are no good. */
static void put_strings(const struct dp_layout *l)
{
	for (u32 i = 0; i < l->nfields; i++)
		for (u32 k = 0; k < DP_MAX(l->fields[i].count, 1) && l->fields[i].type == DP_FIELD_STRING; k++) {
			u32 descriptor = 400 | (1 + below(20)) << 16;

			descriptor = below(8) ? descriptor : (u32)number();
			memcpy(record.payload + l->fields[i].offset + 4 * k, &descriptor, 4);
		}
}

static void make_record(u32 e)
{
	const struct dp_layout *l = &layouts[e];
	u64 v;

	for (u32 i = 0; i < sizeof(record.payload); i += 8) {
		v = number();
		memcpy(record.payload + i, &v, 8);
	}
	v = below(6) ? 0 : draw();
	if (l->has_faultmask)
		memcpy(record.payload, &v, 8);
	put_strings(l);
	record.rec = (struct dp_record){.event = e, .tid = below(3) * 1000, .cpu = below(2) * 77};
	record.rec.flags = (u16)(below(8) ? 0 : DP_REC_TRUNCATED);
	record.rec.flags |= (u16)(below(3) ? 0 : DP_REC_COMM);
	record.rec.len = (u16)(sizeof(record.rec) + (below(6) ? sizeof(record.payload) : 8 * below(10)));
	memcpy((u8 *)&record + sizeof(record) - DP_COMM_SIZE, word(), 3);
}

/* ---- both ways ---- */

struct way {
	struct dp_sink_ops ops;
	struct dp_formatter *f;
	char *text;
	size_t size;
	FILE *out;
};

static bool nobody(void *arg, u32 *tid, char buf[16])
{
	return false;
}

static void open_way(struct way *w, const struct dp_sink_ops *ops, enum dp_format format, bool color)
{
	struct dp_format_env env = {.events = events,
				    .nevents = EVENTS / 2,
				    .symbolize = symbolize,
				    .comm = nobody,
				    .color = color,
				    .sink = &w->ops};

	w->ops = *ops;
	w->out = open_memstream(&w->text, &w->size);
	assert_int_equal(dp_formatter_new(&w->f, format, w->out, &env), 0);
}

static void close_way(struct way *w)
{
	dp_formatter_free(w->f);
	fclose(w->out);
}

static void compare(const struct dp_sink_ops *ops, enum dp_format format, bool color)
{
	struct way by_template, by_walk;
	u64 ns = number();

	for (u32 e = 0; e < EVENTS; e++)
		make_event(e);
	open_way(&by_template, ops, format, color);
	open_way(&by_walk, ops, format, color);
	by_walk.ops.lay_out = NULL;
	for (u32 i = 0; i < EVENTS * RECORDS; i++) {
		make_record(below(i < EVENTS * RECORDS / 2 ? EVENTS / 2 : EVENTS));
		ns = below(50) ? ns + below(2000000) : number();
		if (i == EVENTS * RECORDS / 2) {
			dp_formatter_events(by_template.f, events, EVENTS);
			dp_formatter_events(by_walk.f, events, EVENTS);
		}
		dp_formatter_record(by_template.f, &record.rec, ns);
		dp_formatter_record(by_walk.f, &record.rec, ns);
	}
	close_way(&by_template);
	close_way(&by_walk);
	assert_string_equal(by_template.text, by_walk.text);
	assert_int_equal(by_template.size, by_walk.size);
	assert_true(by_walk.size > EVENTS * RECORDS);
	free(by_template.text);
	free(by_walk.text);
}

static void lines_are_those_of_a_walk(void **unused)
{
	state = 88172645463325252u;
	for (u32 i = 0; i < ROUNDS; i++) {
		compare(&dp_sink_text, DP_FORMAT_TEXT, i & 1);
		compare(&dp_sink_json, DP_FORMAT_JSON, false);
		compare(&dp_sink_csv, DP_FORMAT_CSV, false);
	}
}

/* ---- numbers ---- */

static void expect_number(u64 v)
{
	struct dp_line l = {0};
	char want[200];

	dp_line_hex(&l, v);
	dp_line_char(&l, ' ');
	dp_line_dec(&l, v, 0, ' ');
	dp_line_char(&l, ' ');
	dp_line_signed(&l, (s64)v);
	dp_line_char(&l, ' ');
	dp_line_dec(&l, v, 12, '0');
	dp_line_dec(&l, v, 7, ' ');
	dp_line_char(&l, '\0');
	snprintf(want, sizeof(want), "%#llx %llu %lld %012llu%7llu", (unsigned long long)v, (unsigned long long)v,
		 (long long)v, (unsigned long long)v, (unsigned long long)v);
	if (!v)
		snprintf(want, sizeof(want), "0x0 0 0 %012u%7u", 0, 0);
	assert_string_equal(l.text, want);
	dp_line_free(&l);
}

static void numbers_are_those_of_the_c_library(void **unused)
{
	u64 ten = 1;

	for (u32 i = 0; i < 20; i++, ten *= 10)
		for (u64 v = ten - 2; v != ten + 3; v++)
			expect_number(v);
	for (u32 i = 0; i < 64; i++)
		for (u64 v = (1ull << i) - 2; v != (1ull << i) + 3; v++)
			expect_number(v);
	for (u32 i = 0; i < 200000; i++)
		expect_number(number());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_are_those_of_the_c_library),
	    cmocka_unit_test(lines_are_those_of_a_walk),
	};

	state = 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
