/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The event line: where it points, what its program records on a machine with known registers and memory, and which
 * hits its condition lets pass. Mistakes are in test-event-mistakes.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event-env.h"

/* ---- locations and names ---- */

static const struct {
	const char *text, *want; /* "group/name kind module symbol offset" */
} locations[] = {
    {"p do_work", "dprobes/p_do_work_0 sym do_work 0"},
    {"  p   do_work+0x12   ", "dprobes/p_do_work_18 sym do_work 18"},
    {"p do_work+18", "dprobes/p_do_work_18 sym do_work 18"},
    {"p do_work-4", "dprobes/p_do_work__4 sym do_work -4"},
    {"p:hello do_work", "dprobes/hello sym do_work 0"},
    {"p:grp/hello do_work", "grp/hello sym do_work 0"},
    {"p:grp/ do_work", "grp/p_do_work_0 sym do_work 0"},
    {"p: do_work", "dprobes/p_do_work_0 sym do_work 0"},
    {"p:my-grp/e do_work", "my-grp/e sym do_work 0"},
    {"r do_work", "dprobes/r_do_work_0 ret sym do_work 0"},
    {"r do_work+0", "dprobes/r_do_work_0 ret sym do_work 0"},
    {"r64:x do_work", "dprobes/x ret max=64 sym do_work 0"},
    {"r7 do_work", "dprobes/r_do_work_0 ret max=7 sym do_work 0"},
    {"p do_work%return", "dprobes/r_do_work_0 ret sym do_work 0"},
    {"p:x do_work%return", "dprobes/x ret sym do_work 0"},
    {"p libc:malloc", "dprobes/p_malloc_0 libc sym malloc 0"},
    {"p libc.so.6:malloc+4", "dprobes/p_malloc_4 libc.so.6 sym malloc 4"},
    {"p libstdc++.so.6:_Znwm", "dprobes/p__Znwm_0 libstdc++.so.6 sym _Znwm 0"},
    {"p redis-server:lookupCommand+4", "dprobes/p_lookupCommand_4 redis-server sym lookupCommand 4"},
    {"p /usr/lib/x86_64-linux-gnu/libc.so.6:malloc",
     "dprobes/p_malloc_0 /usr/lib/x86_64-linux-gnu/libc.so.6 sym malloc 0"},
    {"p kernel:do_sys_open", "dprobes/p_do_sys_open_0 kernel sym do_sys_open 0"},
    {"p kmod(ext4):ext4_sync_fs", "dprobes/p_ext4_sync_fs_0 kmod(ext4) sym ext4_sync_fs 0"},
    {"p ext4:ext4_sync_fs%return", "dprobes/r_ext4_sync_fs_0 ret ext4 sym ext4_sync_fs 0"},
    {"p 0x401000", "dprobes/p_0x401000 addr 0x401000"},
    {"p 0xffffffff81000000", "dprobes/p_0xffffffff81000000 addr 0xffffffff81000000"},
    {"p /bin/bash:0x4245c0", "dprobes/p_bash_0x4245c0 /bin/bash off 0x4245c0"},
    {"p libfoo-1.2+x.so:1234", "dprobes/p_libfoo_1_2_x_so_0x4d2 libfoo-1.2+x.so off 0x4d2"},
    {"r /bin/bash:0x4245c0", "dprobes/r_bash_0x4245c0 ret /bin/bash off 0x4245c0"},
    {"p /bin/bash:0x4245c0%return", "dprobes/r_bash_0x4245c0 ret /bin/bash off 0x4245c0"},
    {"p SSL_*", "dprobes/p_SSL__ pattern SSL_* 0"},
    {"p libssl.so.3:SSL_rea?", "dprobes/p_SSL_rea_ libssl.so.3 pattern SSL_rea? 0"},
    {"p memcpy@GLIBC_2.14", "dprobes/p_memcpy_GLIBC_2_14_0 sym memcpy@GLIBC_2.14 0"},
    {"p libc:memcpy@@GLIBC_2.14+3", "dprobes/p_memcpy__GLIBC_2_14_3 libc sym memcpy@@GLIBC_2.14 3"},
    {"p std::foo", "dprobes/p_std__foo_0 sym std::foo 0"},
    {"p libx.so:std::foo", "dprobes/p_std__foo_0 libx.so sym std::foo 0"},
    {"p ::foo", "dprobes/p___foo_0 sym ::foo 0"},
    {"p a::b(int, char const*)+0x10", "dprobes/p_a__b_int__char_const___16 sym a::b(int, char const*) 16"},
    {"p a::b(int) const", "dprobes/p_a__b_int__const_0 sym a::b(int) const 0"},
    {"p a::b() const+2 %di", "dprobes/p_a__b___const_2 sym a::b() const 2"},
    {"p v<int, a<b> >::push(int const&) %di",
     "dprobes/p_v_int__a_b_____push_int_const___0 sym v<int, a<b> >::push(int const&) 0"},
    {"p a::operator<(a const&) %di", "dprobes/p_a__operator__a_const___0 sym a::operator<(a const&) 0"},
    {"p a::operator<<(int)", "dprobes/p_a__operator___int__0 sym a::operator<<(int) 0"},
    {"p a::operator->() $arg1", "dprobes/p_a__operator_____0 sym a::operator->() 0"},
    {"p a::operator*()", "dprobes/p_a__operator____0 sym a::operator*() 0"},
    {"p a::operator()(int)", "dprobes/p_a__operator___int__0 sym a::operator()(int) 0"},
    {"p a::operator%(int)", "dprobes/p_a__operator__int__0 sym a::operator%(int) 0"},
    {"p operator new(unsigned long)", "dprobes/p_operator_new_unsigned_long__0 sym operator new(unsigned long) 0"},
    {"p a::operator bool() %di", "dprobes/p_a__operator_bool___0 sym a::operator bool() 0"},
    {"p operator %di", "dprobes/p_operator_0 sym operator 0"},
    {"p main.(*T).Method", "dprobes/p_main___T__Method_0 sym main.(*T).Method 0"},
    {"p github.com/x/go-1.2/y.F", "dprobes/p_github_com_x_go_1_2_y_F_0 sym github.com/x/go-1.2/y.F 0"},
    {"p \"void f<int>(int)\"+4", "dprobes/p_void_f_int__int__4 sym void f<int>(int) 4"},
    {"p \"a*\"", "dprobes/p_a__0 sym a* 0"},
    {"p \"my prog\":\"my sym\"", "dprobes/p_my_sym_0 my prog sym my sym 0"},
    {"p a<b %di", "dprobes/p_a_b_0 sym a<b 0"},
    {"p \"a\\\"b\"", "dprobes/p_a_b_0 sym a\"b 0"},
    {"p foo.cold", "dprobes/p_foo_cold_0 sym foo.cold 0"},
    {"p prog:file.c:12 x=%di", "dprobes/p_file_c_12 prog line file.c 12"},
    {"p /usr/bin/prog:src/file.c:7", "dprobes/p_src_file_c_7 /usr/bin/prog line src/file.c 7"},
    {"p prog:0x10", "dprobes/p_prog_0x10 prog off 0x10"},
    {"p a_very_long_symbol_name_that_goes_on_and_on_and_on_and_on_and_on_and_on",
     "dprobes/p_a_very_long_symbol_name_that_goes_on_and_0 sym "
     "a_very_long_symbol_name_that_goes_on_and_on_and_on_and_on_and_on_and_on 0"},
};

static void show_location(const struct dp_event *ev, char *buf, size_t size)
{
	int n = snprintf(buf, size, "%s/%s %s", ev->group, ev->name, ev->is_return ? "ret " : "");

	if (ev->maxactive)
		n += snprintf(buf + n, size - (size_t)n, "max=%d ", ev->maxactive);
	if (ev->loc.module[0])
		n += snprintf(buf + n, size - (size_t)n, "%s ", ev->loc.module);
	switch (ev->loc.kind) {
	case DP_LOC_SYMBOL:
	case DP_LOC_PATTERN:
		snprintf(buf + n, size - (size_t)n, "%s %s %lld", ev->loc.kind == DP_LOC_SYMBOL ? "sym" : "pattern",
			 ev->loc.symbol, (long long)ev->loc.offset);
		break;
	case DP_LOC_ADDRESS:
		snprintf(buf + n, size - (size_t)n, "addr 0x%llx", (unsigned long long)ev->loc.address);
		break;
	case DP_LOC_FILE_OFFSET:
		snprintf(buf + n, size - (size_t)n, "off 0x%llx", (unsigned long long)ev->loc.offset);
		break;
	case DP_LOC_LINE:
		snprintf(buf + n, size - (size_t)n, "line %s %lld", ev->loc.symbol, (long long)ev->loc.offset);
		break;
	case DP_LOC_STATIC:
	case DP_LOC_CALL:
	case DP_LOC_TRACEPOINT:
		snprintf(buf + n, size - (size_t)n, "static %s", ev->loc.symbol);
	}
}

static void test_locations(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(locations); i++) {
		struct dp_event ev;
		struct dp_error err;
		char shown[1200] = "";
		int ret = dp_event_parse(&ev, locations[i].text, &err);

		if (ret)
			complain(&err);
		else
			show_location(&ev, shown, sizeof(shown));
		if (!ok(!ret && !strcmp(shown, locations[i].want) &&
			    ev.is_named == !strstr(locations[i].want, ev.is_return ? "/r_" : "/p_"),
			"%s", locations[i].text))
			printf("# %s\n", shown);
		dp_event_free(&ev);
	}
}

/* ---- what is recorded ---- */

/*
 * The machine: di = address of memory, si = memory + 0x100 ("hello"), the others as machine_init makes
 * them; memory: words 0x20.. hold pointers: [0x40] -> memory + 0x100, [0x48] -> memory + 0x108 ("world"),
 * [0x50] -> 0x40 in memory; [0x60] = -1 (s32), [0x64] = 300.
 */
static void furnish(struct machine *m)
{
	machine_init(m);
	m->regs.di = MEMORY_BASE;
	m->regs.si = MEMORY_BASE + 0x100;
	m->regs.cx = 0xffffffff80000001ull;
	m->regs.r8 = (u64)-5;
	m->regs.r9 = 9;
	memcpy(m->memory + 0x100, "hello", 6);
	memcpy(m->memory + 0x108, "world", 6);
	memcpy(m->memory + 0x40, &(u64){MEMORY_BASE + 0x100}, 8);
	memcpy(m->memory + 0x48, &(u64){MEMORY_BASE + 0x108}, 8);
	memcpy(m->memory + 0x50, &(u64){MEMORY_BASE + 0x40}, 8);
	memcpy(m->memory + 0x60, &(s32){-1}, 4);
	memcpy(m->memory + 0x64, &(u32){300}, 4);
	memset(m->memory + 0x200, 'x', 0xa00);
}

static const struct {
	const char *text, *want;
} records[] = {
    {"p f", ""},
    {"r f", "<-0x5000"},
    {"r f rv rp $retval:s32", "<-0x5000 0xbbbbbbbbbbbbbbbb 0x5000 arg3=-1145324613"},
    {"p f a1 a2 a3 a4", "0x10000 0x10100 0xdddddddddddddddd 0xffffffff80000001"},
    {"p f a7 s0 s1 r0 r20 m0x10064", "0x5001 0x5000 0x5001 0x1111111111111111 0x6666666666666666 0xeee7e0d90000012c"},
    {"p f m65636:u32 x=a1:u16 y=s2:s8", "300 x=0 y=2"},
    {"p f %ax b=%bx %cx:s32", "arg1=0xbbbbbbbbbbbbbbbb b=0x6666666666666666 arg3=-2147483647"},
    {"p f %ax:u8 %ax:u16 %ax:u32 %ax:u64", "arg1=187 arg2=48059 arg3=3149642683 arg4=13527612320720337851"},
    {"p f %ax:s8 %ax:s16 %ax:s32 %ax:s64", "arg1=-69 arg2=-17477 arg3=-1145324613 arg4=-4919131752989213765"},
    {"p f %ax:x8 %ax:x16 %ax:x32 %ax:x64", "arg1=0xbb arg2=0xbbbb arg3=0xbbbbbbbb arg4=0xbbbbbbbbbbbbbbbb"},
    {"p f %rax %eax %al %ah %r8d %r8w %r8b",
     "arg1=0xbbbbbbbbbbbbbbbb arg2=0xbbbbbbbb arg3=0xbb arg4=0xbb arg5=0xfffffffb arg6=0xfffb arg7=0xfb"},
    {"p f %eax:u64 %al:u64 %ah:s64 %al:u32", "arg1=3149642683 arg2=187 arg3=187 arg4=187"},
    {"p f %ip %sp %flags %cs %orig_ax", "arg1=0x2222222222222222 arg2=0x7f0000 arg3=0x4444444444444444 "
					"arg4=0x3333333333333333 arg5=0x1111111111111111"},
    {"p f $arg1 $arg2 $arg3 $arg4 $arg5:s64 $arg6", "arg1=0x10000 arg2=0x10100 arg3=0xdddddddddddddddd "
						    "arg4=0xffffffff80000001 arg5=-5 arg6=0x9"},
    {"p f $arg7 $arg8:u16 $stack $stack0 $stack3:u8", "arg1=0x5001 arg2=20482 arg3=0x7f0000 arg4=0x5000 arg5=3"},
    {"p f +0(%si):string", "arg1=\"hello\""},
    {"p f s=+8(%si):ustring", "s=\"world\""},
    {"p f +0(+0x40(%di)):string +0(+0(+0x50(%di))):string", "arg1=\"hello\" arg2=\"hello\""},
    {"p f +0x40(%di):string[2]", "arg1={\"hello\",\"world\"}"},
    {"p f +0(+0x50(%di)):string[2]", "arg1={\"hello\",\"world\"}"},
    {"p f +0x40(%di):string[3] n=%r9", "arg1={\"hello\",\"world\",\"\"} n=0x9"},
    {"p f $comm $comm:string", "arg1=\"redis-server\" arg2=\"redis-server\""},
    {"p f \\\"hi there\" \\5 \\-1:s8 \\0x10:u8", "arg1=\"hi there\" arg2=0x5 arg3=-1 arg4=16"},
    {"p f +0x64(%di):u32 +0x60(%di):s32 +u0x60(%di):u8", "arg1=300 arg2=-1 arg3=255"},
    {"p f -0x9c(%si):u32", "arg1=300"},
    {"p f -0x9c(+0(+0x50(%di)))", "(any)"},
    {"p f +0(%si):char +0(%si):char[5]", "arg1='h' arg2={'h','e','l','l','o'}"},
    {"p f +0x40(%di):x64[2] +0x64(%di):u8[4]", "arg1={0x10100,0x10108} arg2={44,1,0,0}"},
    {"p f +0(+0x50(%di)):symbol[1] %ip:symbol", "arg1={0x10100} arg2=0x2222222222222222"},
    {"p f %r9:b1@0/8 %r9:b3@1/32 %r9:b64@0/64", "arg1=1 arg2=4 arg3=9"},
    {"p f +0x64(%di):b4@2/16 +0x64(%di):b4@4/8[2]", "arg1=11 arg2={2,0}"},
    {"p f @counter:x64 @counter+0x44:u32 @libc.so.6:environ:u8 @ns::var:u8", "(any)"},
    {"p f @counter+0x44:u32 @counter-0x20:x8 @\"a b\"+68:u32", "arg1=300 arg2=0x1 arg3=300"},
    {"p f @redis-server:server:u8 @0x10064:u32 @+0x64:u32 +0x44(@counter+0x30):u8",
     "arg1=225 arg2=300 arg3=300 arg4=157"},
    {"p f +0(@counter+0x20):string", "arg1=\"hello\""},
    {"p f @0x10100:string @counter+0xe0:string", "arg1=\"hello\" arg2=\"hello\""},
    /* what cannot be read */
    {"p f +0(%ax):u32 %r9", "arg1=(fault) arg2=0x9"},
    {"p f +0(+8(+16(%ax))):u32 b=+0x64(%di):u32", "arg1=(fault) b=300"},
    {"p f +0(%ax):string %r9", "arg1=(fault) arg2=0x9"},
    {"p f +0(+0(%ax)):string +0(%ax):string[2] +0x40(%di):string", "arg1=(fault) arg2={(fault),(fault)} arg3=\"\""},
    {"p f +0(%ax):u8[8] @0:u8", "arg1=(fault) arg2=(fault)"},
    {"p f +0(%ax):b3@0/8 +0(%ax):b3@0/8[3]", "arg1=(fault) arg2=(fault)"},
    {"p f +4092(%di):u64 +4092(%di):u32", "arg1=(fault) arg2=4210289893"},
};

static void test_records(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(records); i++) {
		struct dp_event ev;
		struct dp_error err;
		struct machine m;
		char shown[4096] = "not run";
		int ret = dp_event_compile(&ev, records[i].text, false, &env, &err);

		furnish(&m);
		if (ret)
			complain(&err);
		else if (machine_run(&m, &ev.prog) == DP_RUN_LOG)
			show_record(&m, &ev.prog.layout, shown, sizeof(shown));
		if (!ok(!ret && !m.hit.exceptions &&
			    (!strcmp(shown, records[i].want) ||
			     (!strcmp(records[i].want, "(any)") && strcmp(shown, "not run"))),
			"%s", records[i].text))
			printf("# %s\n", shown);
		machine_free(&m);
		dp_event_free(&ev);
	}
}

/* What only the kernel's lines can ask has its own name, where no other argument has it. */
static void test_names(void)
{
	static const char *const names[] = {"pid", "tid", "arg3", "arg4", "cpu"};
	struct dp_event ev;
	struct dp_error err;
	int ret = dp_event_compile(&ev, "p kernel:f $pid $tid %ax $pid $cpu", true, &env, &err);
	u32 same = 0;

	if (ret)
		complain(&err);
	for (u32 i = 0; !ret && i < ev.prog.layout.nfields; i++)
		same += i < DP_ARRAY_SIZE(names) && !strcmp(ev.prog.layout.fields[i].name, names[i]);
	ok(!ret && ev.prog.layout.nfields == DP_ARRAY_SIZE(names) && same == DP_ARRAY_SIZE(names),
	   "names of arguments of the kernel's lines");
	if (!ret)
		dp_event_free(&ev);
}

/* ---- conditions ---- */

static const struct {
	const char *condition;
	bool holds;
} conditions[] = {
    {"20ms == 20000000 && 5us == 5000 && 1s == 1000000000 && 7ns == 7", true},
    {"0x10us == 16000 && 010ms == 8000000 && 0ms == 0", true},
    {"1", true},
    {"0", false},
    {"2 > 1", true},
    {"%r9 == 9", true},
    {"%r9 != 9", false},
    {"%r9 < 9", false},
    {"%r9 <= 9", true},
    {"%r9 > 9", false},
    {"%r9 >= 9", true},
    {"%r9 > 8", true},
    {"9 == %r9", true},
    {"8 < %r9", true},
    {"10 > %r9", true},
    {"9 <= %r9", true},
    {"10 <= %r9", false},
    {"9 >= %r9", true},
    {"8 >= %r9", false},
    {"%r9 > 0xffffffffffffffff", false},
    {"%r9 <= 0xffffffffffffffff", true},
    {"%r9 < 0xffffffffffffffff", true},
    {"%r9:s64 <= 0x7fffffffffffffff", true},
    {"%r9:s64 > 0x7fffffffffffffff", false},
    {"%r9 == 9 && %si", true},
    {"%r9 == 8 && %si", false},
    {"%r9 && %si == 1", false},
    {"%r9 == 8 || %si", true},
    {"%r9 == 8 || %si == 1", false},
    {"%r9 == 9 || 0", true},
    {"!(%r9 == 8)", true},
    {"!%r9", false},
    {"!0", true},
    {"!!%r9", true},
    {"!(%r9 && %si)", false},
    /* signs */
    {"%r8 < 5", false},
    {"%r8:s64 < 5", true},
    {"%r8:s32 == -5", true},
    {"%r8:s8 < -4", true},
    {"%r8:s64 < -5", false},
    {"%r8:s64 >= -5", true},
    {"%r8 == -5", true},
    {"%r8 != -5", false},
    {"%r8:u32 == 0xfffffffb", true},
    {"%r8d == 0xfffffffb", true},
    {"%r8:u8 == 251", true},
    {"-5 == %r8:s64", true},
    {"-6 < %r8:s64", true},
    {"%r8:s64 + 6 == 1", true},
    {"%r8:s64 + 6 > 0", true},
    {"%r9:u8 - 10 < 0", true},
    {"%r9 - 10 > 0", true},
    {"%r8:s64 > %r9:s64", false},
    {"%r8 > %r9", true},
    {"%r8:s64 > %r9", true},
    {"%r8:s64 > %r9:u32", false},
    {"%r8:s64 <= %r9:u32", true},
    /* arithmetic, with C's precedence */
    {"%r9 + 1 == 10", true},
    {"%r9 - 1 == 8", true},
    {"%r9 * 3 == 27", true},
    {"%r9 / 2 == 4", true},
    {"%r9 % 4 == 1", true},
    {"%r8:s64 / 2 == -2", true},
    {"%r8:s64 % 3 == -2", true},
    {"%r8 / 2 > 100", true},
    {"(%r9 & 8) == 8", true},
    {"%r9 & 8 == 8", true},
    {"(%r9 | 2) == 11", true},
    {"(%r9 ^ 1) == 8", true},
    {"%r9 << 2 == 36", true},
    {"%r9 >> 1 == 4", true},
    {"%r8:s64 >> 1 == -3", true},
    {"%r8 >> 63 == 1", true},
    {"1 << %r9 == 512", true},
    {"512 >> %r9 == 1", true},
    {"%r9 << 64 == 0", true},
    {"~%r9 == -10", true},
    {"-%r9:s64 == -9", true},
    {"+%r9 == 9", true},
    {"- - %r9 == 9", true},
    {"1 + 2 * 3 == 7", true},
    {"(1 + 2) * 3 == %r9", true},
    {"10 - 4 - 3 == 3", true},
    {"2 + 3 << 1 == 10", true},
    {"1 | 2 == 2", true},
    {"7 & 3 | 8 ^ 8", true},
    {"1 < 2 == 1", true},
    {"0 && 0 || 1", true},
    {"1 || 0 && 0", true},
    {"010 == 8", true},
    {"0x1F == 31", true},
    {"'a' == 97", true},
    {"'\\n' == 10", true},
    {"'\\'' == 39", true},
    {"-7 / 2 == -3", true},
    {"-7 % 2 == -1", true},
    {"-8 >> 1 == -4", true},
    {"~0 == -1", true},
    {"0x8000000000000000 > 1", true},
    {"-0x7fffffffffffffff - 1 < 0", true},
    {"-1 < 0", true},
    {"(-0x7fffffffffffffff - 1) / -1 < 0", true},
    {"%r9 ? 1 : 0", true},
    {"%r9 == 8 ? 1 : 0", false},
    {"(%r9 > 5 ? %r9 : %si) == 9", true},
    {"(%r9 > 50 ? %r9 : %si) == 9", false},
    {"0 ? 0 : 1 ? 1 : 0", true},
    {"%r9?1:0", true},
    {"1 ? %r9:u32 : 0", true},
    /* division by a value that is zero ends the run */
    {"1 / (%r9 - 9)", false},
    {"%r8:s64 % (%r9:s64 - 9)", false},
    {"%r9 == %si", false},
    {"%r9 != %si", true},
    {"%r9 < %si", true},
    {"%r9 <= %si", true},
    {"%r9 > %si", false},
    {"%r9 >= %si", false},
    {"%r8:s64 < %r9:s64", true},
    {"%r8:s64 >= %r9:s64", false},
    {"%r8:u16 == 0xfffb", true},
    {"%r8:s16 == -5", true},
    {"%r8w:u8 == 251", true},
    {"%r8d:s8 == -5", true},
    {"%r8d:u16 == 65531", true},
    {"0xffffffffffffffff / 2 == 0x7fffffffffffffff", true},
    {"0xffffffffffffffff >> 63 == 1", true},
    {"0xffffffffffffffff % 10 == 5", true},
    {"1 != 2 && 2 <= 2 && 3 >= 4 - 1 && !(1 > 1)", true},
    {"1 << 64 == 0", true},
    {"(1 | 6) == 7 && (5 ^ 1) == 4 && (1 && 2) && (0 || 1)", true},
    {"-1 >> 64 == -1", true},
    {"%r9:s64 << %r9 == 9 * 512", true},
    {"%r8:s64 >> %r9 == -1", true},
    {"~%r9:s64 < 0 && -%r9:s64 < 0", true},
    {"text == \"hel\\lo\"", true},
    {"text != \"hello\\n\\t\\r\"", true},
    {"'\\0' == 0 && '\\t' == 9 && '\\r' == 13", true},
    /* memory and names */
    {"+0x64(%di):u32 == 300", true},
    {"+0x60(%di):s32 < 0", true},
    {"+0(+0x50(%di)) == 0x10100", true},
    {"@counter+0x44:u32 == 300", true},
    {"$arg1 == 0x10000", true},
    {"a1 == 0x10000", true},
    {"s0 == 0x5000", true},
    {"r20 && r8 == 9", true},
    {"m0x10064:u32 == 300", true},
    {"n == 300", true},
    {"n > 300", false},
    {"neg < 0", true},
    {"arg3 == 9", true},
    {"n == 300 && neg == -1 || 0", true},
    {"%r9:b3@1/32 == 4", true},
    {"bits == 4", true},
    {"%r9 -8 == 1", true},
    {"%r9-8 == 1", true},
    {"%r9%4==1", true},
    {"$stack == 0x7f0000", true},
    {"(+0x64(%di):u32)+1 == 301", true},
    {"%ah == 0xbb", true},
    {"- +0x60(%di):s32 == 1", true},
    /* a condition with an operand that cannot be read does not hold */
    {"+0(%ax):u32 == 0", false},
    {"+0(%ax):u32 != 0", false},
    {"!+0(%ax):u32", false},
    {"%r9 == 9 || +0(%ax):u32", true},
    {"+0(%ax):u32 || %r9 == 9", false},
    {"%r9 == 8 && +0(%ax):u32 == 1", false},
    {"+0(+0(%ax)) < 10", false},
    /* texts */
    {"text == \"hello\"", true},
    {"text == \"hell\"", false},
    {"text == \"hello!\"", false},
    {"text != \"hello\"", false},
    {"text != \"other\"", true},
    {"\"hello\" == text", true},
    {"text ~ \"hel*\"", true},
    {"text ~ \"h?llo\"", true},
    {"text ~ \"x*\"", false},
    {"!(text ~ \"x*\")", true},
    {"text ~ \"[a-h]ello\"", true},
    {"$comm == \"redis-server\"", true},
    {"$comm ~ \"redis*\"", true},
    {"$comm != \"redis-server\"", false},
    {"+8(%si):string == \"world\"", true},
    {"+0(+0x40(%di)):string == \"hello\" && %r9 == 9", true},
    {"text == \"\"", false},
    {"@0x10100:string == \"hello\"", true},
    {"text == \"hello\" || text == \"world\"", true},
    {"+0(%ax):string == \"hello\"", false},
    {"+0(%ax):string != \"hello\"", false},
    {"+0(+0(%ax)):string == \"hello\"", false},
};

static void test_conditions(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(conditions); i++) {
		struct dp_event ev;
		struct dp_error err;
		struct machine m;
		char text[512];
		int ret;
		bool good = false;

		snprintf(text, sizeof(text),
			 "p f n=+0x64(%%di):u32 neg=+0x60(%%di):s32 %%r9 text=+0(%%si):string bits=%%r9:b3@1/32 if %s",
			 conditions[i].condition);
		ret = dp_event_compile(&ev, text, false, &env, &err);
		furnish(&m);
		if (ret)
			complain(&err);
		else
			good = machine_run(&m, &ev.prog) == (conditions[i].holds ? DP_RUN_LOG : DP_RUN_FILTERED);
		ok(good, "%s: %s", conditions[i].condition, conditions[i].holds ? "holds" : "does not hold");
		machine_free(&m);
		dp_event_free(&ev);
	}
}

/* ---- the code that the usual lines become ---- */

static void test_code(void)
{
	static const struct {
		const char *text, *code;
	} programs[] = {
	    {"p f %di %si:u32 %dx:s16 %cx:char",
	     "0 rec 15|3 logr64 di, @0|7 logr32 si, @8|11 logr16 dx, @12|15 logr8 cx, @14|19 exit|"},
	    {"p f +8(%di):u32 +0(%si):string if $arg1 > 4096",
	     "0 needr,geu di, 0x1001|10 recm 16|13 logm di, +8, 4, @8, #0|24 logstr si, +0, @12, 0|34 exit|"},
	    {"r f $retval if $retval:s32 < 0",
	     "0 pushr,s32 ax|2 need,lt 0|11 rec 16|14 logret @0|17 logr64 ax, @8|21 exit|"},
	    {"p f if %di && %si == 3 && $comm ~ \"x*\"",
	     "0 pushr di|2 need|3 needr,eq si, 3|13 strcomm|15 strglob \"x*\"|21 need|22 rec 0|25 exit|"},
	    {"p f +16(+8(%di))", "0 recm 16|3 pushr di|5 ld64 +8|10 logm +16, 8, @8, #0|20 exit|"},
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(programs); i++) {
		struct dp_event ev;
		struct dp_error err;
		char text[2048] = "", flat[2048] = "";
		u32 n = 0;

		if (dp_event_compile(&ev, programs[i].text, false, &env, &err))
			complain(&err);
		else
			dp_program_disasm(&ev.prog, text, sizeof(text));
		for (const char *p = text; *p; p++) {
			if (*p == ' ' && (p[1] == ' ' || !n || flat[n - 1] == '|'))
				continue;
			flat[n++] = *p == '\n' ? '|' : *p;
		}
		if (!ok(!strcmp(flat, programs[i].code), "code of: %s", programs[i].text))
			printf("# %s\n", flat);
		dp_event_free(&ev);
	}
}

/* ---- long texts share the room ---- */

static void test_room(void)
{
	struct dp_event ev;
	struct dp_error err;
	struct machine m;
	char shown[8192];
	u32 d[2];

	furnish(&m);
	memset(m.memory + 0x200, 'x', 0xdff);
	ok(!dp_event_compile(&ev, "p f +0x200(%di):string +0x200(%di):string if 1", false, &env, &err),
	   "two long texts");
	ok(machine_run(&m, &ev.prog) == DP_RUN_LOG && m.hit.rec_flags == DP_REC_TRUNCATED &&
	       m.hit.log_len <= ev.prog.logmax,
	   "fit the budget, with a note");
	memcpy(d, machine_payload(&m), 8);
	ok((d[0] >> 16) > 3000 && (d[1] >> 16) > 400, "and the second one is there too (%u and %u bytes)", d[0] >> 16,
	   d[1] >> 16);
	show_record(&m, &ev.prog.layout, shown, sizeof(shown));
	ok(!strstr(shown, "broken"), "both end where they should");
	dp_event_free(&ev);
	machine_free(&m);
}

int main(void)
{
	test_locations();
	test_records();
	test_names();
	test_conditions();
	test_code();
	test_room();
	return done();
}
