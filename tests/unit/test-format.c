/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Text, JSON and CSV, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "log/format.h"

static struct {
	struct dp_record rec;
	u8 payload[1024];
} record;
static struct dp_field fields[DP_FIELDS_MAX];
static struct dp_layout layout;
static struct dp_event_info event;
static u16 fill; /* bytes of payload so far */
static u16 text_at;

static bool dp_symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	if (addr >= 0xc06e8e00 && addr < 0xc06e8f00)
		snprintf(buf, size, "sys_open+0x%x", (unsigned)(addr - 0xc06e8e00));
	else if (addr == 0x1000)
		snprintf(buf, size, "operator+(int)+0x0");
	else
		return false;
	return true;
}

static void begin(const char *name, const char *symbol, u64 offset, bool is_return)
{
	memset(&record, 0, sizeof(record));
	memset(&layout, 0, sizeof(layout));
	memset(fields, 0, sizeof(fields));
	layout.fields = fields;
	event = (struct dp_event_info){"dprobes", name, symbol, offset, is_return, &layout};
	record.rec.tid = 2376;
	record.rec.cpu = 1;
	fill = 0;
	text_at = 512;
}

static void with_fault_mask(u64 mask)
{
	layout.has_faultmask = 1;
	memcpy(record.payload, &mask, 8);
	fill = 8;
}

static void with_ret_addr(u64 addr)
{
	layout.has_ret_addr = 1;
	memcpy(record.payload + fill, &addr, 8);
	fill += 8;
}

static struct dp_field *field(const char *name, enum dp_field_type type, u16 size, u8 count)
{
	struct dp_field *f = &fields[layout.nfields++];

	snprintf(f->name, sizeof(f->name), "%s", name);
	f->type = (u8)type;
	f->size = size;
	f->count = count;
	f->offset = fill;
	fill += size * (count ? count : 1);
	return f;
}

static void number(const char *name, enum dp_field_type type, u16 size, u64 value)
{
	u16 at = fill;

	field(name, type, size, 0);
	memcpy(record.payload + at, &value, size);
}

/* The text's bytes stand behind the fixed part. */
static void put_text(u16 descriptor_at, const char *text, u16 len)
{
	u32 descriptor = text_at | (u32)len << 16;

	memcpy(record.payload + descriptor_at, &descriptor, 4);
	memcpy(record.payload + text_at, text, len);
	text_at += len;
}

static void string(const char *name, const char *text, u16 len_with_nul)
{
	u16 at = fill;

	field(name, DP_FIELD_STRING, 4, 0);
	put_text(at, text, len_with_nul);
}

static char *render_as(enum dp_format format, u64 ns, const char *comm, bool color)
{
	struct dp_format_env env = {.events = &event, .nevents = 1, .symbolize = dp_symbolize, .color = color};
	struct dp_formatter *f;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!record.rec.len)
		record.rec.len = sizeof(record);
	assert_int_equal(dp_formatter_new(&f, format, out, &env), 0);
	if (comm)
		dp_formatter_source(f, 0, 2000, comm);
	dp_formatter_record(f, &record.rec, ns);
	dp_formatter_free(f);
	fclose(out);
	return text;
}

static void expect(const char *want, char *got)
{
	assert_string_equal(got, want);
	free(got);
}

#define TEXT(comm) render_as(DP_FORMAT_TEXT, 262389131000, comm, false)
#define JSON(comm) render_as(DP_FORMAT_JSON, 262389131123, comm, false)

/* The lines of the first event tracer, as it printed them. */
static void lines_look_like_the_first_tracers(void **state)
{
	begin("", "do_sys_open", 0, false);
	number("", DP_FIELD_X64, 8, 0xffffff9c);
	number("", DP_FIELD_X64, 8, 0x98db83e);
	number("", DP_FIELD_X64, 8, 0x8880);
	number("", DP_FIELD_X64, 8, 0);
	expect("           <...>-2376  [001]   262.389131: do_sys_open: @do_sys_open+0 0xffffff9c "
	       "0x98db83e 0x8880 0x0\n",
	       TEXT("<...>"));
	begin(NULL, "do_sys_open", 0, true);
	with_ret_addr(0xc06e8ebb);
	number("", DP_FIELD_X64, 8, 5);
	number("", DP_FIELD_X64, 8, 0xc06e8ebb);
	expect("           <...>-2376  [001]   262.391166: sys_open: <-do_sys_open+0 0x5 0xc06e8ebb\n",
	       render_as(DP_FORMAT_TEXT, 262391166999, "<...>", false));
}

static void head_is_the_first_tracers(void **state)
{
	struct dp_format_env env = {0};
	struct dp_formatter *f;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	dp_formatter_new(&f, DP_FORMAT_TEXT, out, &env);
	dp_formatter_head(f);
	dp_formatter_free(f);
	fclose(out);
	expect("# tracer: dprobes\n#\n#           TASK-PID    CPU#    TIMESTAMP  FUNCTION\n"
	       "#              | |       |          |         |\n",
	       text);
}

static void names_stand_before_the_colon(void **state)
{
	begin("conn", "acceptTcpHandler", 0, false);
	number("el", DP_FIELD_X64, 8, 0x55d0c0ffee);
	number("fd", DP_FIELD_S32, 4, 6);
	expect("    redis-server-2376  [001]   262.389131: conn: @acceptTcpHandler+0 "
	       "el=0x55d0c0ffee fd=6\n",
	       TEXT("redis-server"));
	begin("cmd", "lookupCommand", 0, true);
	with_ret_addr(0xc06e8ebb);
	number("found", DP_FIELD_X64, 8, 0x7f00);
	expect("    redis-server-2376  [001]   262.389131: cmd: <-lookupCommand+0 found=0x7f00\n",
	       TEXT("redis-server"));
	begin("", "inner", 0x12, false);
	expect("    redis-server-2376  [001]   262.389131: inner: @inner+0x12\n", TEXT("redis-server"));
	begin("", "callee", 0, true);
	with_ret_addr(0x9999);
	expect("               a-2376  [001]   262.389131: callee: <-callee+0\n", TEXT("a"));
	begin("", "callee", 0, true);
	with_ret_addr(0x1001);
	expect("               a-2376  [001]   262.389131: operator+(int): <-callee+0\n", TEXT("a"));
}

static void every_type_has_its_form(void **state)
{
	begin("t", "f", 0, false);
	number("a", DP_FIELD_U8, 1, 200);
	number("b", DP_FIELD_S8, 1, 200);
	number("c", DP_FIELD_X8, 1, 200);
	number("d", DP_FIELD_U16, 2, 65535);
	number("e", DP_FIELD_S16, 2, 65535);
	number("f", DP_FIELD_U64, 8, ~(u64)0);
	number("g", DP_FIELD_S64, 8, (u64)1 << 63);
	number("h", DP_FIELD_X32, 4, 0xdeadbeef);
	number("i", DP_FIELD_CHAR, 1, 'x');
	number("j", DP_FIELD_CHAR, 1, '\'');
	number("k", DP_FIELD_CHAR, 1, 0);
	number("l", DP_FIELD_SYMBOL, 8, 0xc06e8ebb);
	number("m", DP_FIELD_SYMBOL, 8, 0x77);
	number("", DP_FIELD_S32, 4, 0xfffffffe);
	expect("               a-2376  [001]   262.389131: t: @f+0 a=200 b=-56 c=0xc8 d=65535 e=-1 "
	       "f=18446744073709551615 g=-9223372036854775808 h=0xdeadbeef i='x' j='\\'' k='\\000' "
	       "l=sys_open+0xbb m=0x77 0xfffffffe\n",
	       TEXT("a"));
}

static void strings_are_escaped(void **state)
{
	static const char text[] = "a\"b\\\n\t\r\033[1m\x80\xc3\xa9 \xc2\x9b\xe2\x80\xae'\x01"
				   "7";

	begin("t", "f", 0, false);
	string("s", text, sizeof(text));
	string("empty", "", 1);
	string("cut", "abcd", 4); /* no NUL at its end */
	expect("               a-2376  [001]   262.389131: t: @f+0 "
	       "s=\"a\\\"b\\\\\\n\\t\\r\\033[1m\\200\xc3\xa9 \\302\\233\\342\\200\\256'\\0017\" "
	       "empty=\"\" "
	       "cut=\"abcd\"\n",
	       TEXT("a"));
	expect("{\"ts\":262.389131123,\"task\":\"a\",\"pid\":2000,\"tid\":2376,\"cpu\":1,\"event\":\"t\",\"group\":"
	       "\"dprobes\",\"symbol\":\"f\",\"offset\":0,\"return\":false,\"args\":{\"s\":"
	       "\"a\\\"b\\\\\\n\\t\\r\\u001b[1m\\u0080\xc3\xa9 "
	       "\\u009b\xe2\x80\xae'\\u00017\",\"empty\":\"\","
	       "\"cut\":\"abcd\"}}\n",
	       JSON("a"));
}

static void arrays_are_in_braces(void **state)
{
	u16 at;

	begin("t", "f", 0, false);
	field("v", DP_FIELD_U16, 2, 3);
	memcpy(record.payload, (u16[]){1, 2, 3}, 6);
	fill = 8;
	at = fill;
	field("w", DP_FIELD_STRING, 4, 2);
	put_text(at, "x", 2);
	put_text(at + 4, "y\"", 3);
	expect("               a-2376  [001]   262.389131: t: @f+0 v={1,2,3} w={\"x\",\"y\\\"\"}\n", TEXT("a"));
	expect("{\"ts\":262.389131123,\"task\":\"a\",\"pid\":2000,\"tid\":2376,\"cpu\":1,\"event\":\"t\",\"group\":"
	       "\"dprobes\",\"symbol\":\"f\",\"offset\":0,\"return\":false,\"args\":{\"v\":[1,2,3],"
	       "\"w\":[\"x\",\"y\\\"\"]}}\n",
	       JSON("a"));
}

static void faults_are_told(void **state)
{
	begin("t", "f", 0, false);
	with_fault_mask(0x2);
	number("a", DP_FIELD_U64, 8, 1);
	number("b", DP_FIELD_U64, 8, 0);
	field("s", DP_FIELD_STRING, 4, 0);
	expect("               a-2376  [001]   262.389131: t: @f+0 a=1 b=(fault) s=(fault)\n", TEXT("a"));
	expect("{\"ts\":262.389131123,\"task\":\"a\",\"pid\":2000,\"tid\":2376,\"cpu\":1,\"event\":\"t\",\"group\":"
	       "\"dprobes\",\"symbol\":\"f\",\"offset\":0,\"return\":false,\"args\":{\"a\":1,\"b\":"
	       "null,"
	       "\"s\":null}}\n",
	       JSON("a"));
}

static void the_last_bit_stands_for_many_fields(void **state)
{
	char *text;

	begin("t", "f", 0, false);
	with_fault_mask((u64)1 << 63);
	for (int i = 0; i < 66; i++)
		number("n", DP_FIELD_U8, 1, i == 64 ? 0 : 7);
	text = TEXT("a");
	assert_non_null(strstr(text, "n=7 n=(fault) n=7\n"));
	free(text);
}

static void shortened_records_are_told(void **state)
{
	begin("t", "f", 0, false);
	number("a", DP_FIELD_U64, 8, 1);
	number("b", DP_FIELD_U64, 8, 2);
	record.rec.flags = DP_REC_TRUNCATED;
	record.rec.len = sizeof(record.rec) + 8;
	expect("               a-2376  [001]   262.389131: t: @f+0 a=1 b=(cut) (shortened)\n", TEXT("a"));
}

static void json_names_and_returns(void **state)
{
	begin("", "do_sys_open", 4, true);
	event.group = "g\"1";
	with_ret_addr(0xc06e8ebb);
	number("", DP_FIELD_X64, 8, 9007199254740993ull);
	number("big", DP_FIELD_U64, 8, ~(u64)0);
	number("c", DP_FIELD_CHAR, 1, '"');
	number("l", DP_FIELD_SYMBOL, 8, 0xc06e8e01);
	number("m", DP_FIELD_SYMBOL, 8, 0x77);
	number("neg", DP_FIELD_S32, 4, 0xffffffff);
	expect("{\"ts\":262.389131123,\"task\":\"x\xc3\xa9\\u0001\",\"pid\":2000,\"tid\":2376,\"cpu\":1,"
	       "\"event\":\"do_sys_open\","
	       "\"group\":\"g\\\"1\",\"symbol\":\"do_sys_open\",\"offset\":4,\"return\":true,"
	       "\"caller\":\"sys_open+0xbb\",\"args\":{\"arg1\":9007199254740993,"
	       "\"big\":18446744073709551615,\"c\":\"\\\"\",\"l\":\"sys_open+0x1\",\"m\":\"0x77\","
	       "\"neg\":-1}}\n",
	       JSON("x\xc3\xa9\x01"));
}

/* No offset or length in a record may lead out of it; run under valgrind or a sanitizer this is
 * strict. */
static void wild_records_are_harmless(void **state)
{
	static const enum dp_format formats[] = {DP_FORMAT_TEXT, DP_FORMAT_JSON, DP_FORMAT_JOURNALD, DP_FORMAT_OTLP};
	u64 x = 88172645463325252ull;

	for (int round = 0; round < 20000; round++) {
		begin("t", "f", 0, round % 2);
		with_fault_mask(0);
		with_ret_addr(0);
		field("s", DP_FIELD_STRING, 4, 3);
		field("v", DP_FIELD_S16, 2, 9);
		for (size_t i = 0; i < sizeof(record.payload); i += 8) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			memcpy(record.payload + i, &x, 8);
		}
		record.rec.len = (u16)(x % sizeof(record) & ~7u);
		if (record.rec.len < sizeof(record.rec))
			record.rec.len = sizeof(record.rec);
		free(render_as(formats[round / 2 % DP_ARRAY_SIZE(formats)], x, "a", false));
	}
	begin("t", "f", 0, false);
	record.rec.event = 1; /* no such event */
	expect("", TEXT("a"));
}

static void task_names_cannot_drive_a_terminal(void **state)
{
	begin("t", "f", 0, false);
	expect("         a\\x1b[m-2376  [001]   262.389131: t: @f+0\n", TEXT("a\033[m"));
	begin("t", "f", 0, false);
	record.rec.tid = 1234567;
	record.rec.cpu = 1000;
	expect("               a-1234567 [1000] 123456.000001: t: @f+0\n",
	       render_as(DP_FORMAT_TEXT, 123456000001999, "a", false));
}

static void cleaned(const char *want, const char *s, size_t n, const char *keep, size_t room)
{
	char text[64];

	assert_true(room <= sizeof(text));
	assert_int_equal(dp_clean(text, room, s, n, keep), strlen(want));
	assert_string_equal(text, want);
}

/* What is kept is kept, whatever it is; a 0 byte is never among that. */
static void texts_of_others_are_cleaned(void **state)
{
	cleaned("a\\x1b[m \\x7f\\xff\\xc2\\x9b", "a\033[m \x7f\xff\xc2\x9b", 9, "", 64);
	cleaned("caf\xc3\xa9", "caf\xc3\xa9", 5, "", 64);
	cleaned("a\\x00b", "a\0b", 3, "", 64);
	cleaned("a\\x00\nb\\x09", "a\0\nb\t", 5, "\n", 64);
	cleaned("\n\t\\x00\\x0d", "\n\t\0\r", 4, "\n\t", 64);
	cleaned("ab", "ab\033", 3, "", 6); /* no part of an escape */
	cleaned("ab\\x1b", "ab\033", 3, "", 7);
	cleaned("", "a", 1, "", 1);
}

static void names_come_from_proc_and_stay(void **state)
{
	struct dp_format_env env = {.events = &event, .nevents = 1};
	struct dp_formatter *f;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int go[2];
	pid_t child;

	assert_int_equal(pipe(go), 0);
	child = fork();
	if (!child) {
		char c;

		close(go[1]);
		_exit(read(go[0], &c, 1) > 0);
	}
	begin("t", "f", 0, false);
	record.rec.tid = (u32)child;
	record.rec.len = sizeof(record);
	dp_formatter_new(&f, DP_FORMAT_TEXT, out, &env);
	dp_formatter_record(f, &record.rec, 1);
	close(go[1]);
	waitpid(child, NULL, 0);
	dp_formatter_record(f, &record.rec, 5000000000); /* gone, but known */
	record.rec.tid = 0x7fffffff;
	dp_formatter_record(f, &record.rec, 5000000000); /* never seen */
	dp_formatter_free(f);
	fclose(out);
	assert_ptr_equal(strstr(text, "     test-format-"), text);
	assert_non_null(strstr(strchr(text, '\n'), "     test-format-"));
	assert_non_null(strstr(text, "           <...>-2147483647 "));
	free(text);
}

static void colours_only_when_asked(void **state)
{
	char *text;

	begin("t", "f", 0, false);
	number("a", DP_FIELD_U64, 8, 1);
	text = render_as(DP_FORMAT_TEXT, 1, "a", true);
	assert_non_null(strchr(text, '\033'));
	free(text);
	text = render_as(DP_FORMAT_TEXT, 1, "a", false);
	assert_null(strchr(text, '\033'));
	free(text);
}

/*
 * A column for each name, in which events that lack it have nothing; texts cannot end a cell, a line or drive a
 * terminal.
 */
static void csv_has_a_column_for_each_name(void **state)
{
	struct dp_field one[2] = {{.name = "fd", .type = DP_FIELD_S32, .size = 4},
				  {.name = "", .type = DP_FIELD_X64, .size = 8, .offset = 8}};
	struct dp_layout layouts[2] = {{.nfields = 2, .fields = one}};
	struct dp_event_info events[2] = {{"dprobes", "conn", "accept", 4, false, &layouts[0]}};
	struct dp_format_env env = {.events = events, .nevents = 2, .symbolize = dp_symbolize};
	struct dp_formatter *f;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	begin("", "get", 0, true);
	with_ret_addr(0xc06e8ebb);
	string("name", "a,\"b\"\n\033", 8);
	number("fd", DP_FIELD_S32, 4, (u64)-1);
	layouts[1] = layout;
	events[1] = event;
	events[1].layout = &layouts[1];
	record.rec.len = sizeof(record);
	record.rec.event = 1;
	assert_int_equal(dp_formatter_new(&f, DP_FORMAT_CSV, out, &env), 0);
	dp_formatter_source(f, 0, 0, "redis");
	dp_formatter_head(f);
	dp_formatter_record(f, &record.rec, 262389131123);
	record.rec.event = 0;
	memset(record.payload, 0, 16);
	record.payload[0] = 7;
	dp_formatter_record(f, &record.rec, 262389131124);
	dp_formatter_free(f);
	fclose(out);
	expect("time,task,tid,cpu,event,group,symbol,offset,return,caller,shortened,fd,arg2,name\n"
	       "262.389131123,redis,2376,1,get,dprobes,get,0,1,sys_open+0xbb,0,-1,,\"a,\"\"b\"\"\\x0a\\x1b\"\n"
	       "262.389131124,redis,2376,1,conn,dprobes,accept,4,0,,0,7,0,\n",
	       text);
}

static void an_entry_of_the_journal_has_no_odd_bytes(void **state)
{
	begin("ge\nt", "get", 0, false);
	string("o->name", "a\n\nPRIORITY=0\n\033", 16);
	number("", DP_FIELD_X64, 8, 0x1234);
	expect("PRIORITY=6\nSYSLOG_IDENTIFIER=dprobes\nDPROBES_PROBE=ge\\x0at\nDPROBES_GROUP=dprobes\n"
	       "DPROBES_SYMBOL=get\nDPROBES_RETURN=0\nDPROBES_PID=2000\nDPROBES_TID=2376\nDPROBES_CPU=1\n"
	       "DPROBES_COMM=a\\x0a\nDPROBES_MONOTONIC_NS=262389131123\n"
	       "DPROBES_ARG_O__NAME=a\\x0a\\x0aPRIORITY=0\\x0a\\x1b\nDPROBES_ARG_ARG2=0x1234\n"
	       "MESSAGE=ge\\x0at o->name=a\\x0a\\x0aPRIORITY=0\\x0a\\x1b arg2=0x1234\n\n",
	       render_as(DP_FORMAT_JOURNALD, 262389131123, "a\n", false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_look_like_the_first_tracers),
	    cmocka_unit_test(head_is_the_first_tracers),
	    cmocka_unit_test(names_stand_before_the_colon),
	    cmocka_unit_test(every_type_has_its_form),
	    cmocka_unit_test(strings_are_escaped),
	    cmocka_unit_test(arrays_are_in_braces),
	    cmocka_unit_test(faults_are_told),
	    cmocka_unit_test(the_last_bit_stands_for_many_fields),
	    cmocka_unit_test(shortened_records_are_told),
	    cmocka_unit_test(json_names_and_returns),
	    cmocka_unit_test(wild_records_are_harmless),
	    cmocka_unit_test(task_names_cannot_drive_a_terminal),
	    cmocka_unit_test(texts_of_others_are_cleaned),
	    cmocka_unit_test(names_come_from_proc_and_stay),
	    cmocka_unit_test(colours_only_when_asked),
	    cmocka_unit_test(csv_has_a_column_for_each_name),
	    cmocka_unit_test(an_entry_of_the_journal_has_no_odd_bytes),
	};

	return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
