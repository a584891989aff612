/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * dlopen() and dlclose() in another process. They may wait, allocate and run anything, so no thread
 * of the program is made to call them: one that sleeps in a system call, and so holds no lock of
 * the allocator or the linker, starts a thread of the C library for it. If we die in between, both
 * finish by themselves; a few pages stay mapped.
 */
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/process-load.h"
#include "host/process/process-priv.h"

#define PAGE 4096ull
#define STOP_TIMEOUT 2000000000ull
#define WAIT_NS 60000000000ull /* constructors may do much */
#define ROOM (1ull << 30)

extern const u8 dp_load_code[], dp_load_main[], dp_load_code_end[];

enum { LOAD_GOOD = 1, LOAD_THERE, LOAD_ABSENT, LOAD_FAILED, LOAD_STAYS };

struct load_data { /* load-code.S knows the offsets */
	u64 created, done;
	s64 create_error;
	u64 status, thread, saved_errno, old_mask, mask;
	u64 pthread_create, pthread_detach, errno_location, dlopen, dlclose, dlerror;
	u64 unload, main, handle, tid;
	char name[16]; /* of the thread: "dp:" and the address of args, in hexadecimal */
	u8 pad[512 - 160];
	char text[1024];
	char args[4096 - 1536]; /* of the module, separated by blanks (moduleparam.h) */
	char path[4096];
	/* then the vector registers of the thread that was interrupted */
};
_Static_assert(offsetof(struct load_data, tid) == 136 && offsetof(struct load_data, name) == 144 &&
		   offsetof(struct load_data, text) == 512 && offsetof(struct load_data, path) == 4096 &&
		   sizeof(struct load_data) == 8192,
	       "as in load-code.S");

struct load {
	pid_t pid;
	struct dp_mem mem;
	struct dp_maps maps;
	struct dp_tracer tracer;
	struct dp_remote remote;
	struct load_data data;
	u64 code, data_at, size; /* one page of code, the data behind it; size of all */
};

/* Address of an exported function of the process's glibc. */
static int find_function(struct dp_image *libc, const char *name, u64 *addr, struct dp_error *err)
{
	struct dp_symbol sym;

	if (dp_module_symbol(libc->mod, name, &sym, NULL) || !sym.is_exported || sym.is_ifunc)
		return dp_fail(err, E_LOAD_LIBC, "%s has no %s()", dp_module_path(libc->mod), name);
	*addr = sym.addr + libc->bias;
	return 0;
}

static int find_functions(struct load *l, struct dp_error *err)
{
	struct load_data *d = &l->data;
	const struct {
		const char *name;
		u64 *to;
	} want[] = {{"gnu_get_libc_version", &d->dlopen},
		    {"dlopen", &d->dlopen},
		    {"dlclose", &d->dlclose},
		    {"dlerror", &d->dlerror},
		    {"pthread_create", &d->pthread_create},
		    {"pthread_detach", &d->pthread_detach},
		    {"__errno_location", &d->errno_location}};
	struct dp_image *libc = NULL;
	struct dp_process proc;
	int r = dp_process_read(&proc, l->pid, err);

	if (r)
		return r;
	for (size_t i = 0; i < proc.nimages; i++)
		if (!strcmp(dp_module_base(proc.images[i].mod), "libc.so.6"))
			libc = &proc.images[i];
	if (!libc)
		r = dp_fail(err, E_LOAD_LIBC, "process %d has no libc.so.6", (int)l->pid);
	for (u32 i = 0; !r && i < DP_ARRAY_SIZE(want); i++)
		r = find_function(libc, want[i].name, want[i].to, err);
	dp_process_free(&proc);
	return r;
}

/* The process must see the same file by that name (containers). */
static int check_file(const struct load *l, struct dp_error *err)
{
	char path[sizeof(l->data.path) + 32];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)l->pid, l->data.path);
	if (stat(l->data.path, &ours) || stat(path, &theirs) || ours.st_ino != theirs.st_ino ||
	    ours.st_dev != theirs.st_dev)
		return dp_fail(err, E_FILE_OPEN, "%s is not the same file, or none, for process %d", l->data.path,
			       (int)l->pid);
	return 0;
}

unsigned dp_load_state(void)
{
	unsigned a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !__get_cpuid_count(13, 0, &a, &b, &c, &d))
		return 0;
	return b;
}

/* The middle of a large gap: far from whatever grows. */
static int choose_place(struct load *l, struct dp_error *err)
{
	u64 state = dp_load_state();

	if (!state)
		return dp_fail(err, E_TARGET_CPU, "xsave");
	l->size = PAGE + sizeof(l->data) + DP_ALIGN_UP(state, PAGE);
	for (size_t i = 1; i < l->maps.n; i++) {
		u64 lo = l->maps.v[i - 1].hi, hi = l->maps.v[i].lo;

		if (hi >= 1ull << 47 || hi < lo || hi - lo < ROOM)
			continue;
		l->code = DP_ALIGN_DOWN(lo + (hi - lo) / 2, PAGE);
		l->data_at = l->code + PAGE;
		return 0;
	}
	return dp_fail(err, E_TARGET_NOROOM, "process %d", (int)l->pid);
}

static int map_one(struct load *l, u64 addr, u64 size, u64 prot, struct dp_error *err)
{
	u64 args[6] = {addr, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (u64)-1, 0};

	return dp_remote_stub(&l->remote, SYS_mmap, args, err);
}

static int map_all(struct load *l, struct dp_error *err)
{
	struct load_data *d = &l->data;
	int r = map_one(l, l->code, PAGE, PROT_READ | PROT_EXEC, err);

	if (!r)
		r = map_one(l, l->data_at, l->size - PAGE, PROT_READ | PROT_WRITE, err);
	if (r)
		return r;
	snprintf(d->name, sizeof(d->name), "dp:%012llx",
		 (unsigned long long)(l->data_at + offsetof(struct load_data, args)));
	d->main = l->code + (u64)(dp_load_main - dp_load_code);
	/* All but those that instructions raise: libdprobes lives on them. */
	d->mask = ~(SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGBUS) | SIGNAL_BIT(SIGFPE) |
		    SIGNAL_BIT(SIGILL));
	r = dp_mem_write(&l->mem, l->data_at, d, sizeof(*d), err);
	return r ? r : dp_mem_write(&l->mem, l->code, dp_load_code, (size_t)(dp_load_code_end - dp_load_code), err);
}

/* Calls in which programs wait for something outside. Not futexes: what is waited for may be a lock
 * of the allocator. */
static bool waits(s64 nr)
{
	static const s64 calls[] = {
	    SYS_read,        SYS_poll,    SYS_select, SYS_pause,           SYS_nanosleep,  SYS_accept,   SYS_recvfrom,
	    SYS_recvmsg,     SYS_wait4,   SYS_waitid, SYS_clock_nanosleep, SYS_epoll_wait, SYS_pselect6, SYS_ppoll,
	    SYS_epoll_pwait, SYS_accept4, 441 /* epoll_pwait2 */};

	for (u32 i = 0; i < DP_ARRAY_SIZE(calls); i++)
		if (calls[i] == nr)
			return true;
	return false;
}

/* The call in which the thread sleeps, as far as one can see without stopping it. */
static bool sleeps(pid_t pid, pid_t tid)
{
	char state[32] = "?";

	if (dp_status_field(pid, tid, "State", state, sizeof(state)) || state[0] != 'S')
		return false;
	return waits(dp_thread_call(pid, tid).nr);
}

/* The same of the stopped thread: its call was interrupted, by us and nothing else, and will be
 * made again. */
static bool interrupted(const struct load *l, pid_t tid)
{
	struct user_regs_struct regs;
	u8 insn[2];
	s64 ret;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return false;
	ret = (s64)dp_user_result(&regs);
	if ((s64)dp_user_call(&regs) >= 0)
		return waits((s64)dp_user_call(&regs)) && (ret == -512 || ret == -513 || ret == -514 || ret == -516);
	/* Put back before its instruction already (dp_fix_restart). */
	return waits(ret) && !dp_mem_read(&l->mem, dp_user_ip(&regs), insn, 2, NULL) && dp_code_is_syscall(insn);
}

/* A sleeping thread, stopped; NULL: none. */
static struct dp_thread *choose_thread(struct load *l)
{
	struct dp_tracer *t = &l->tracer;
	u32 us = 0;

	for (int pass = 0; pass < 14; pass++, dp_tracer_pause(t, &us))
		for (u32 i = t->n; i-- > 0;) { /* the first thread last: it has the most to lose */
			struct dp_thread *th = &t->v[i];

			if (th->gone || th->released || th->foreign || th->sharer || th->group_stop ||
			    !sleeps(t->pid, th->tid) || !dp_tracer_stop(t, th, STOP_TIMEOUT))
				continue;
			th = &t->v[i];
			if (!th->group_stop && !th->signal && interrupted(l, th->tid) && !dp_signal_pending(th->tid) &&
			    !dp_in_handler(th, &l->mem, &l->maps))
				return th;
			dp_tracer_resume(t, th);
		}
	return NULL;
}

static bool created(void *arg)
{
	struct load *l = arg;
	u64 word;

	return !dp_mem_read(&l->mem, l->data_at, &word, sizeof(word), NULL) && word == 1;
}

static int attach(struct load *l, struct dp_error *err)
{
	char mode[16] = "0";
	int r = dp_maps_read(&l->maps, l->pid, err);

	if (!r)
		r = dp_tracer_attach(&l->tracer, l->pid, err);
	if (!r)
		r = dp_remote_init(&l->remote, &l->tracer, &l->mem, &l->maps, err);
	dp_status_field(l->pid, l->pid, "Seccomp", mode, sizeof(mode));
	/* The new thread outlives our suspending a filter. */
	if (!r && mode[0] != '0')
		r = dp_fail(err, E_TARGET_SECCOMP, "process %d", (int)l->pid);
	return r;
}

static void detach(struct load *l)
{
	dp_remote_end(&l->remote);
	dp_tracer_detach(&l->tracer);
	dp_maps_free(&l->maps);
	memset(&l->maps, 0, sizeof(l->maps));
}

static int unmap_all(struct load *l, struct dp_error *err)
{
	u64 args[6] = {l->code, l->size};

	return dp_remote_stub(&l->remote, SYS_munmap, args, err);
}

/* Until the new thread runs: with all threads under our eyes. */
static int start_thread(struct load *l, bool *started, struct dp_error *err)
{
	struct dp_thread *th;
	int r = attach(l, err);

	if (!r)
		r = choose_place(l, err);
	if (r)
		return r;
	th = choose_thread(l);
	if (!th)
		return dp_fail(err, E_LOAD_BUSY, "process %d", (int)l->pid);
	dp_tracer_resume(&l->tracer, th);
	r = map_all(l, err);
	if (r)
		return r;
	/* The code counts as the service loop: who was sent there is waited for. */
	l->remote.service = l->code;
	l->remote.table = l->code + PAGE;
	l->remote.service_end = l->code + PAGE;
	th = choose_thread(l);
	if (!th) {
		unmap_all(l, NULL);
		return dp_fail(err, E_LOAD_BUSY, "process %d", (int)l->pid);
	}
	r = dp_remote_run(&l->remote, th, l->code, l->data_at, created, l, err);
	if (!r)
		r = dp_remote_leave(&l->remote, err);
	if (!r)
		r = dp_mem_read(&l->mem, l->data_at, &l->data, sizeof(l->data), err);
	if (!r && l->data.create_error) {
		unmap_all(l, NULL);
		return dp_fail(err, E_LOAD_FAILED, "no thread could be started: %s",
			       strerror((int)l->data.create_error));
	}
	*started = !r;
	return r;
}

/*
 * The kernel attached the new thread to us at its birth. If its first stop, or its end, came only after we had let go
 * of all threads that we knew, it waits for us.
 */
static void let_go(void)
{
	int status;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
		if (WIFSTOPPED(status))
			ptrace(PTRACE_DETACH, tid, 0, status >> 16 ? 0 : (long)WSTOPSIG(status));
}

/* Nobody is attached while the linker works: constructors may take long, and may set probes. */
static int wait_thread(struct load *l, struct dp_error *err)
{
	u64 begin = dp_now_ns();
	char path[64];

	do {
		int r = dp_mem_read(&l->mem, l->data_at, &l->data, sizeof(l->data), NULL);

		if (r)
			return dp_fail(err, E_TARGET_GONE, "process %d", (int)l->pid);
		snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)l->pid, (int)l->data.tid);
		let_go();
		if (l->data.done && access(path, F_OK))
			return 0;
		usleep(2000);
	} while (dp_now_ns() - begin < WAIT_NS);
	return dp_fail(err, E_LOAD_SLOW, "thread %d of process %d", (int)l->data.tid, (int)l->pid);
}

static int tell(const struct load *l, struct dp_error *err)
{
	switch (l->data.status) {
	case LOAD_GOOD:
		return 0;
	case LOAD_THERE:
		return dp_fail(err, E_LOAD_TWICE, "%s in process %d", l->data.path, (int)l->pid);
	case LOAD_ABSENT:
		return dp_fail(err, E_LOAD_ABSENT, "%s in process %d", l->data.path, (int)l->pid);
	case LOAD_STAYS:
		return dp_fail(err, E_LOAD_STAYS, "%s in process %d", l->data.path, (int)l->pid);
	default:
		return dp_fail(err, E_LOAD_FAILED, "%.240s", l->data.text);
	}
}

int dp_load_object(pid_t pid, const char *path, const char *args, bool unload, struct dp_error *err)
{
	struct load l = {.pid = pid, .mem = {pid, -1}, .data.unload = unload};
	bool started = false;
	int r;

	if (pid == getpid())
		return dp_fail(err, E_TARGET_SELF, "process %d", (int)pid);
	if (strlen(path) >= sizeof(l.data.path))
		return dp_fail(err, E_FILE_OPEN, "the path is too long");
	strcpy(l.data.path, path);
	if (strlen(args) >= sizeof(l.data.args))
		return dp_fail(err, E_LOAD_FAILED, "the parameters are longer than %zu bytes", sizeof(l.data.args) - 1);
	strcpy(l.data.args, args);
	r = find_functions(&l, err);
	if (!r)
		r = check_file(&l, err);
	if (!r)
		r = dp_mem_open(&l.mem, pid, err);
	if (r)
		return r;
	r = start_thread(&l, &started, err);
	detach(&l);
	if (started)
		r = wait_thread(&l, err);
	if (started && !r) {
		/* A process that has gone meanwhile, or cannot be attached to now, keeps a few
		 * pages at most. */
		if (!attach(&l, NULL))
			unmap_all(&l, NULL);
		detach(&l);
		r = tell(&l, err);
	}
	dp_mem_close(&l.mem);
	return r;
}
