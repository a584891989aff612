/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Names, files and processes: what a user types has to lead to the right address, or to a message
 * that helps. Files of every kind (stripped, separate debug file, Go, no section headers) are made
 * on the spot.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbols/symbols.h"

static int tests, failures;
static char dir[] = "/tmp/dp-test-symbols-XXXXXX";

static void report(bool yes, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", yes ? "" : "not ", ++tests);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	failures += !yes;
}

/* The condition comes first: messages show what it has found out. */
#define ok(cond, ...)                      \
	do {                               \
		bool yes_ = (cond);        \
		report(yes_, __VA_ARGS__); \
	} while (0)

static void skip(const char *name, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++tests, name, why);
}

static bool run(const char *fmt, ...)
{
	char cmd[2048], body[1900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(body, sizeof(body), fmt, ap);
	va_end(ap);
	snprintf(cmd, sizeof(cmd), "cd %s && (%s) > out 2>&1", dir, body);
	return system(cmd) == 0;
}

static const char *file(const char *name)
{
	static char path[2][256];
	static int i;

	i ^= 1;
	snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
	return path[i];
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(file(name), "w");

	fputs(text, f);
	fclose(f);
}

/* The address of a symbol according to nm. */
static u64 nm(const char *name, const char *sym)
{
	char cmd[512], line[512];
	unsigned long long addr = 0, a;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "nm %s/%s", dir, name);
	f = popen(cmd, "r");
	while (f && fgets(line, sizeof(line), f)) {
		char s[400], k;

		if (sscanf(line, "%llx %c %399s", &a, &k, s) == 3 && !strcmp(s, sym))
			addr = a;
	}
	if (f)
		pclose(f);
	return addr;
}

/* ---- the running process ---- */

static void test_self(void)
{
	struct dp_error err = {0};
	struct dp_symbol sym;
	struct dp_process p;
	struct dp_image *libc, *exe;

	ok(!dp_process_read(&p, getpid(), &err) && p.nimages >= 3, "read this process: %zu modules", p.nimages);
	libc = dp_process_image(&p, "libc", &err);
	exe = dp_process_image(&p, "exe", &err);
	ok(libc && libc == dp_process_image(&p, "libc.so.6", &err), "libc by its short name");
	ok(exe && exe->is_exe && exe == dp_process_image(&p, program_invocation_short_name, &err),
	   "the program itself");
	ok(!dp_module_symbol(libc->mod, "malloc", &sym, &err) &&
	       sym.addr + libc->bias == (u64)(uintptr_t)dlsym(dlopen("libc.so.6", RTLD_NOLOAD | RTLD_NOW), "malloc"),
	   "malloc is where the dynamic linker says");
	ok(sym.is_func && sym.is_exported && sym.size > 100, "malloc is an exported function with a size");
	ok(!dp_module_symbol(exe->mod, "test_self", &sym, &err) && sym.addr + exe->bias == (u64)(uintptr_t)test_self &&
	       !sym.is_exported,
	   "a static function of the program");
	ok(dp_process_image_at(&p, (u64)(uintptr_t)test_self) == exe, "the module of an address");
	ok(!dp_process_image_at(&p, 16), "no module at address 16");
	ok(!dp_process_image(&p, "libx.so", &err) && err.code == E_MOD_NONE, "no such module");
	ok(!dp_process_image(&p, "libcc.so.6", &err) && strstr(err.hint, "libc.so.6"), "a misspelt module: %s",
	   err.hint);
	ok(dp_process_image(&p, "libdw.so.1", &err) && dp_process_image(&p, "libdw", &err),
	   "libdw by the name that programs are linked to, whatever its file is called");
	ok(dp_maps_at(&p.maps, (u64)(uintptr_t)test_self)->x, "the mapping of an address");
	dp_process_free(&p);
}

static void test_libc(void)
{
	struct dp_symbol a, b, c;
	struct dp_error err = {0};
	struct dp_module *m;
	u64 off, addr;

	if (dp_module_open(&m, "/lib/x86_64-linux-gnu/libc.so.6", &err)) {
		skip("libc", "not there");
		return;
	}
	ok(strlen(dp_module_build_id(m)) == 40, "build-id %s", dp_module_build_id(m));
	ok(!strcmp(dp_module_base(m), "libc.so.6") && dp_module_is_pie_or_dso(m), "base name and type");
	ok(!dp_module_symbol(m, "memcpy@GLIBC_2.2.5", &a, &err) &&
	       !dp_module_symbol(m, "memcpy@GLIBC_2.14", &b, &err) && !dp_module_symbol(m, "memcpy", &c, &err) &&
	       a.addr != b.addr && b.addr == c.addr,
	   "versions of memcpy; the default one without a version");
	ok(c.is_ifunc, "memcpy is chosen at run time");
	ok(dp_module_symbol(m, "memcpy@GLIBC_9", &a, &err) < 0 && err.code == E_SYM_NONE, "no such version");
	ok(dp_module_symbol(m, "mallco", &a, &err) < 0 && strstr(err.hint, "malloc"), "mallco: %s", err.hint);
	ok(dp_module_symbol(m, "getpidd", &a, &err) < 0 && strstr(err.hint, "getpid"), "getpidd: %s", err.hint);
	ok(dp_module_symbol(m, "pthread_mutex_l", &a, &err) < 0 && strstr(err.hint, "pthread_mutex_lock"),
	   "pthread_mutex_l: %s", err.hint);
	ok(dp_module_symbol(m, "qqqqqqqqqqq", &a, &err) < 0 && !err.hint[0], "no hint for nonsense");
	dp_module_symbol(m, "malloc", &a, &err);
	ok(dp_module_symbol_at(m, a.addr + 5, &b) && b.addr == a.addr && strstr(b.name, "malloc"),
	   "the function at malloc+5: %s", b.name);
	ok(dp_module_addr_to_offset(m, a.addr, &off) && dp_module_offset_to_addr(m, off, &addr) && addr == a.addr,
	   "address to offset and back");
	ok(!dp_module_addr_to_offset(m, 1ull << 40, &off) && !dp_module_offset_to_addr(m, 1ull << 40, &off),
	   "neither outside of the file");
	ok(!dp_module_symbol(m, "environ", &a, &err) && a.is_data && !a.is_func, "a variable");
	dp_module_close(m);
}

/* ---- files made on the spot ---- */

static const char prog_c[] =
    "#include <stdio.h>\n#include <unistd.h>\n"
    "__attribute__((noinline)) static int twin(int a) { __asm__ volatile(\"\"); return a + 1; }\n"
    "__attribute__((noinline)) int twice(int a) { if (a < 0) return 0; __asm__ volatile(\"nop\"); "
    "return 2 * a; }\n"
    "__attribute__((noinline)) int tail(int a) { __asm__ volatile(\"\"); return a < 3 ? twice(a) : "
    "7; }\n"
    "int other(int a); int counter = 3;\n"
    "int main(int n, char **v) { if (n > 1) { puts(\"ready\"); fflush(stdout); pause(); }\n"
    " return twin(n) + twice(n) + tail(n) + other(n); }\n";
static const char other_c[] =
    "__attribute__((noinline)) static int twin(int a) { __asm__ volatile(\"\"); return a + 2; }\n"
    "int other(int a) { return twin(a) ^ 3; }\n";

static bool build_prog(void)
{
	write_file("prog.c", prog_c);
	write_file("other.c", other_c);
	return run("gcc -O2 -w -o prog prog.c other.c");
}

static int count_func(const struct dp_symbol *s, void *arg)
{
	++*(int *)arg;
	return 0;
}

static int stop_at_second(const struct dp_symbol *s, void *arg)
{
	return ++*(int *)arg == 2 ? 42 : 0;
}

static void test_prog(void)
{
	struct dp_error err = {0};
	const struct dp_text *t;
	struct dp_symbol sym;
	struct dp_module *m;
	u64 exits[8], to[8];
	int n = 0, rc;

	ok(!dp_module_open(&m, file("prog"), &err) && dp_module_has_symtab(m), "open a program");
	ok(!dp_module_symbol(m, "twice", &sym, &err) && sym.addr == nm("prog", "twice"), "twice");
	ok(dp_module_symbol(m, "twin", &sym, &err) < 0 && err.code == E_SYM_AMBIGUOUS && strstr(err.hint, "0x"),
	   "two static functions with one name: %s", err.hint);
	ok(!dp_module_symbol(m, "counter", &sym, &err) && sym.is_data && sym.size == 4, "a variable");
	ok(!dp_module_symbol(m, "puts@plt", &sym, &err) && !dp_module_text(m, sym.addr, &t, &err),
	   "the stub of an imported function");
	ok(dp_module_symbol(m, "puts", &sym, &err) < 0, "the imported function itself is elsewhere");
	dp_module_each_func(m, "tw*", count_func, &n);
	ok(n == 3, "three functions match tw*");
	n = 0;
	rc = dp_module_each_func(m, NULL, stop_at_second, &n);
	ok(rc == 42 && n == 2, "the walk over functions can be stopped");
	dp_module_symbol(m, "tail", &sym, &err);
	rc = dp_module_exits(m, sym.addr, exits, to, 8, &err);
	ok(rc == 2 && !to[0] != !to[1], "tail returns and tail-calls: %d exits", rc);
	rc = dp_module_exits(m, 8, exits, NULL, 8, &err);
	ok(rc < 0 && err.code == E_SITE_NOFUNC, "no exits where there is no function");
	ok(dp_module_text(m, sym.addr, &t, &err) == 0 && dp_text_func(t, sym.addr)->lo == sym.addr &&
	       dp_text_is_target(t, sym.addr),
	   "the analysed text around a function");
	ok(dp_module_text(m, 1ull << 40, &t, &err) < 0 && err.code == E_SITE_NOTEXT, "no text far away");
	dp_module_close(m);
}

static void test_stripped(void)
{
	struct dp_error err = {0};
	struct dp_symbol sym;
	struct dp_module *m;
	u64 twice = nm("prog", "twice");
	u64 exits[4];

	ok(run("strip -o stripped prog"), "strip");
	dp_module_open(&m, file("stripped"), &err);
	ok(!dp_module_has_symtab(m), "no symbol table");
	ok(dp_module_symbol(m, "twice", &sym, &err) < 0 && strstr(err.detail, "stripped"), "no twice: %s", err.detail);
	ok(dp_module_symbol_at(m, twice + 1, &sym) && sym.addr == twice && !sym.name[0] && sym.size,
	   "its range is known from the unwind tables");
	ok(dp_module_exits(m, twice, exits, NULL, 4, &err) >= 1, "and so are its exits");
	dp_module_close(m);
}

static void expect_name(const char *name, const char *what)
{
	struct dp_error err = {0};
	struct dp_symbol sym = {0};
	struct dp_module *m;

	if (dp_module_open(&m, file(name), &err)) {
		ok(false, "%s: %s", what, err.detail);
		return;
	}
	ok(!dp_module_symbol(m, "twice", &sym, &err) && sym.addr == nm("prog", "twice"), "%s", what);
	dp_module_close(m);
}

static void test_debug_files(void)
{
	struct dp_error err = {0};
	struct dp_symbol sym;
	struct dp_module *m;

	if (!run("objcopy --only-keep-debug prog sep.debug && strip -o linked prog && "
		 "objcopy --add-gnu-debuglink=sep.debug linked && mkdir -p .debug && mv sep.debug "
		 ".debug/")) {
		skip("separate debug file", "objcopy failed");
	} else {
		expect_name("linked", "a name from a separate debug file");
		run("gcc -w -O0 -o foreign prog.c other.c && objcopy --only-keep-debug foreign "
		    ".debug/sep.debug");
		dp_module_open(&m, file("linked"), &err);
		ok(dp_module_symbol(m, "twice", &sym, &err) < 0, "a debug file of another build is not believed");
		dp_module_close(m);
	}
	if (!run("nm prog --format=posix > /dev/null && objcopy -S --remove-section .gdb_index "
		 "--keep-symbol=twice "
		 "prog mini && objcopy --only-keep-debug prog m && strip --keep-symbol=twice "
		 "--strip-unneeded m; "
		 "xz -k -f m && strip -o mini prog && objcopy --add-section .gnu_debugdata=m.xz "
		 "mini"))
		skip("a name from .gnu_debugdata", "xz or objcopy failed");
	else
		expect_name("mini", "a name from .gnu_debugdata");
}

static void test_no_sections(void)
{
	u64 twice = nm("prog", "twice"), zero = 0;
	struct dp_error err = {0};
	const struct dp_text *t;
	struct dp_symbol sym;
	struct dp_module *m;
	struct dp_site site;
	int fd;

	run("cp stripped bare && chmod u+w bare");
	fd = open(file("bare"), O_WRONLY);
	ok(pwrite(fd, &zero, 8, 40) == 8 && pwrite(fd, &zero, 4, 60) == 4, "take the section headers away");
	close(fd);
	ok(!dp_module_open(&m, file("bare"), &err), "a file without section headers opens");
	ok(dp_module_symbol_at(m, twice + 1, &sym) && sym.addr == twice, "its functions are known");
	ok(!dp_module_text(m, twice, &t, &err) && !dp_site_judge(t, twice, &site, &err) &&
	       site.outcome == DP_OUTCOME_JUMP,
	   "and can be probed");
	dp_module_close(m);
}

static const char go_src[] = "package main\nimport \"fmt\"\n//go:noinline\nfunc pick(n int) int { return n * 3 }\n"
			     "func main() { defer func() { recover() }(); fmt.Println(pick(2)) }\n";

static void go_variant(const char *flags, const char *what, u64 want)
{
	struct dp_error err = {0};
	const struct dp_text *t;
	struct dp_symbol sym = {0};
	struct dp_module *m;

	if (!run("go build %s -o gop go.go", flags) || dp_module_open(&m, file("gop"), &err)) {
		ok(false, "%s: does not build", what);
		return;
	}
	ok(dp_module_is_go(m), "%s: recognised", what);
	ok(!dp_module_symbol(m, "main.pick", &sym, &err) && (!want || sym.addr == want), "%s: main.pick at %#llx", what,
	   (unsigned long long)sym.addr);
	ok(!dp_module_text(m, sym.addr, &t, &err) && dp_text_func(t, sym.addr) &&
	       dp_text_func(t, sym.addr)->flags & DP_FUNC_GO,
	   "%s: marked as Go", what);
	dp_module_close(m);
}

static void test_go(void)
{
	write_file("go.go", go_src);
	if (!run("HOME=${HOME:-/tmp} go version")) {
		skip("Go", "not installed");
		return;
	}
	go_variant("", "Go", 0);
	go_variant("-ldflags=-s\\ -w", "stripped Go", nm("gop", "main.pick"));
	go_variant("-buildmode=pie -ldflags=-s\\ -w", "stripped position-independent Go", 0);
}

static void shown(const char *name, bool params, const char *wanted)
{
	char buf[DP_SHOWN_MAX];
	const char *got = dp_symbol_shown(name, params, buf, sizeof(buf));

	ok(!strcmp(got, wanted), "%s is shown as %s (%s)", name, wanted, got);
}

static void test_shown(void)
{
	shown("_ZSt9terminatev", false, "std::terminate");
	shown("_ZSt9terminatev", true, "std::terminate()");
	shown("_ZN3foo3barIiEEvT_", false, "foo::bar<int>");
	shown("_ZN3foo3barIiEEvT_", true, "void foo::bar<int>(int)");
	shown("_ZN3fooclEi", false, "foo::operator()");
	shown("_ZN3fooltERKS_", false, "foo::operator<");
	shown("_ZN3foocvlEv", false, "foo::operator long");
	shown("_ZN12_GLOBAL__N_13barEv", false, "(anonymous namespace)::bar");
	shown("_ZN3foo3barEv.cold", false, "foo::bar.cold");
	shown("_ZN4core3fmt5Write9write_str17h0123456789abcdefE", false, "core::fmt::Write::write_str");
	shown("main", false, "main");
	shown("_Zap", true, "_Zap");
}

static void test_demangled(void)
{
	struct dp_error err = {0};
	struct dp_symbol a, b;
	struct dp_module *m;
	int n = 0;

	if (dp_module_open(&m, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", &err)) {
		skip("C++ names", "no libstdc++");
		return;
	}
	test_shown();
	ok(!dp_module_symbol(m, "_ZSt9terminatev", &a, &err) && !dp_module_symbol(m, "std::terminate()", &b, &err) &&
	       a.addr == b.addr,
	   "std::terminate()");
	ok(!dp_module_symbol(m, "std::terminate", &b, &err) && a.addr == b.addr, "std::terminate");
	ok(dp_module_symbol(m, "std::ostream::write", &b, &err) == 0 || err.code == E_SYM_NONE ||
	       err.code == E_SYM_AMBIGUOUS,
	   "a name that may mean many");
	dp_module_each_func(m, "std::uncaught_exception*", count_func, &n);
	ok(n >= 2, "a pattern over C++ names: %d", n);
	dp_module_close(m);
}

/* ---- errors ---- */

static void expect_open(const char *path, enum dp_code code, const char *what)
{
	struct dp_error err = {0};
	struct dp_module *m;

	ok(dp_module_open(&m, path, &err) < 0 && err.code == code && !m, "%s: %s", what, err.detail);
}

static void test_bad_files(void)
{
	unsigned char head[64] = {0x7f, 'E', 'L', 'F', 1, 1, 1};
	FILE *f;

	expect_open(file("nothing"), E_FILE_OPEN, "no such file");
	expect_open(dir, E_FILE_OPEN, "a directory");
	expect_open(file("prog.c"), E_ELF_BAD, "a text");
	write_file("empty", "");
	expect_open(file("empty"), E_ELF_BAD, "an empty file");
	head[16] = 2, head[18] = 3, head[20] = 1, head[40] = 52;
	f = fopen(file("elf32"), "w");
	fwrite(head, 1, sizeof(head), f);
	fclose(f);
	expect_open(file("elf32"), E_ELF_MACHINE, "a 32-bit file");
	if (run("gcc -w -c -o prog.o prog.c"))
		expect_open(file("prog.o"), E_ELF_BAD, "an object file");
	run("head -c 700 prog > cut");
	expect_open(file("cut"), E_ELF_BAD, "a file cut off behind its headers");
}

/* Files with bytes overwritten at random: any answer, but no crash and no endless loop. */
static void test_damaged_files(void)
{
	unsigned int seed = 4711;
	int done = 0;

	for (int round = 0; round < 300; round++) {
		const char *path = file("damaged");
		struct dp_error err;
		struct dp_module *m;
		const struct dp_text *t;
		struct dp_symbol sym;
		struct stat st;
		int fd;

		if (round % 50 == 0 && !run("cp %s damaged && chmod u+w damaged", round % 100 ? "prog" : "stripped"))
			continue;
		fd = open(path, O_WRONLY);
		if (fd < 0 || fstat(fd, &st))
			continue;
		for (int k = 0; k < 4; k++) {
			unsigned char b = (unsigned char)rand_r(&seed);
			off_t at = rand_r(&seed) % (k & 1 ? 0x1000 : st.st_size);

			if (pwrite(fd, &b, 1, at < 20 ? at + 20 : at) != 1)
				break;
		}
		close(fd);
		done++;
		if (dp_module_open(&m, path, &err))
			continue;
		dp_module_symbol(m, "twice", &sym, &err);
		dp_module_symbol_at(m, 0x1140, &sym);
		dp_module_text(m, 0x1140, &t, &err);
		dp_module_close(m);
	}
	ok(done > 200, "%d damaged files are survived", done);
}

static void expect_process(pid_t pid, enum dp_code code, const char *what)
{
	struct dp_error err = {0};
	struct dp_process p;

	ok(dp_process_read(&p, pid, &err) < 0 && err.code == code, "%s: %s %s", what, dp_error_info(err.code)->name,
	   err.detail);
}

static void test_bad_processes(void)
{
	struct dp_error err = {0};
	struct dp_process p;
	char comm[32] = "";
	siginfo_t si;
	pid_t pid;
	FILE *f;
	int st;

	expect_process(0x3ffffff, E_PROC_NONE, "no such process");
	pid = fork();
	if (!pid)
		_exit(0);
	waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT);
	expect_process(pid, E_PROC_DEAD, "a zombie");
	waitpid(pid, NULL, 0);
	f = fopen("/proc/2/comm", "r");
	if (f && fgets(comm, sizeof(comm), f) && !strcmp(comm, "kthreadd\n"))
		expect_process(2, E_PROC_KTHREAD, "a kernel thread");
	else
		skip("a kernel thread", "none is visible here");
	if (f)
		fclose(f);
	if (geteuid()) {
		skip("a process of somebody else", "needs root");
		return;
	}
	pid = fork();
	if (!pid) {
		if (setresuid(65534, 65534, 65534))
			_exit(2);
		_exit(dp_process_read(&p, getppid(), &err) < 0 && err.code == E_PROC_PERM ? 0 : 1);
	}
	waitpid(pid, &st, 0);
	ok(!st, "a process of somebody else may not be looked at");
}

/* Start prog (or another) and wait until it says that it runs. */
static pid_t start(const char *path)
{
	int out[2];
	char c;
	pid_t pid;

	if (pipe(out))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], 1);
		execl(path, path, "wait", NULL);
		_exit(127);
	}
	close(out[1]);
	if (read(out[0], &c, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(out[0]);
	return pid;
}

static void stop(pid_t pid)
{
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

static void test_deleted(void)
{
	struct dp_error err = {0};
	struct dp_symbol sym;
	struct dp_image *img;
	struct dp_process p;
	pid_t pid;

	run("cp prog gone");
	pid = start(file("gone"));
	unlink(file("gone"));
	ok(!dp_process_read(&p, pid, &err), "a process whose file was deleted");
	img = dp_process_image(&p, "exe", &err);
	ok(img && !dp_module_symbol(img->mod, "twice", &sym, &err), "its symbols are still found");
	ok(img && img == dp_process_image(&p, "gone", &err), "and so is its name");
	dp_process_free(&p);
	stop(pid);
}

static void test_link(void)
{
	struct dp_error err = {0};
	struct dp_process p;
	pid_t pid;

	run("ln -s prog nickname");
	pid = start(file("nickname"));
	ok(!dp_process_read(&p, pid, &err) && dp_process_image(&p, "nickname", &err) &&
	       dp_process_image(&p, file("nickname"), &err) && dp_process_image(&p, "prog", &err),
	   "a program started through a link has both names");
	dp_process_free(&p);
	stop(pid);
}

static void test_32bit(void)
{
	static const char asm32[] =
	    ".globl _start\n_start: mov $4,%eax\n mov $1,%ebx\n mov $msg,%ecx\n mov $1,%edx\n int "
	    "$0x80\n"
	    "1: mov $29,%eax\n int $0x80\n jmp 1b\n.data\nmsg: .ascii \"r\"\n";
	pid_t pid;

	write_file("s32.s", asm32);
	if (!run("as --32 -o s32.o s32.s && ld -m elf_i386 -o s32 s32.o") || (pid = start(file("s32"))) < 0) {
		skip("a 32-bit process", "cannot be built or run here");
		return;
	}
	expect_process(pid, E_PROC_32BIT, "a 32-bit process");
	stop(pid);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	test_self();
	test_libc();
	test_demangled();
	if (!build_prog()) {
		skip("programs", "no compiler");
	} else {
		test_prog();
		test_stripped();
		test_debug_files();
		test_no_sections();
		test_bad_files();
		test_damaged_files();
		test_deleted();
		test_link();
	}
	test_go();
	test_bad_processes();
	test_32bit();
	chdir("/");
	run("rm -rf %s", dir);
	printf("1..%d\n", tests);
	return failures != 0;
}
