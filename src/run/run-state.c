/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the driver writes down for a successor, should it be killed: in its directory under state/ a file for each
 * module (module-N) and each target (target-PID), each replaced as a whole, and the journal of the log. An orderly end
 * removes them. They are of this boot and this version, or not used.
 *
 * A recorder writes down the same beside its journal (run-recorder.c), but for processes that have ended: there may be
 * many, so each is added to a file of its module (ended-N).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "run/run-journal.h"
#include "run/run-priv.h"

#define STATE_MAGIC 0x3145544154535044ull
#define PROBES_MOST (1u << 20) /* of a session */
#define FILE_MOST (256u << 20)
#define WORDS_MOST (FILE_MOST / 8) /* of a session */
#define PATH_ROOM 4400
#define SPARE "spare-" /* files */
#define SPARES_MOST 64

struct head {
	u64 magic;
	u32 abi, size; /* of the structure that follows */
	char boot[40];
};

struct saved_module {
	u32 number, generation, flags, fields, budget;
	s32 pid;
	u32 nended, pad;
	u64 pid_started;
	u64 object;
	/* then the object, the counts of each probe, and for each process that has ended its id, names and words */
};

/* Of the words those that are not 0, as runs: struct saved_run, each with its words. */
struct saved_ended {
	s32 pid;
	u32 nnames; /* struct run_name */
	u32 nwords, nruns;
};

struct saved_run {
	u32 first, n;
};

struct saved_target {
	s32 pid;
	u32 nranges;
	u64 started, inode;
	u64 nwords, nstored;
	/* then ranges, and the words that are stored: those behind are 0 */
};

struct saved_range {
	u32 module, generation, locals, gates, nlocals, ngates, room_locals, room_gates;
	/* then which probe of the session each of its probes is */
};

/* ---- writing ---- */

static FILE *begin(const struct dp_run *run, char **bytes, size_t *n, u32 size)
{
	struct head h = {.magic = STATE_MAGIC, .abi = DP_ABI, .size = size};
	FILE *f = *run->state ? open_memstream(bytes, n) : NULL;

	dp_boot_id(h.boot);
	if (f)
		fwrite(&h, sizeof(h), 1, f);
	return f;
}

static char *path_in(const struct dp_run *run, const char *name, char path[PATH_ROOM])
{
	snprintf(path, PATH_ROOM, "%s/%s", run->state, name);
	return path;
}

/*
 * Files that are there for what is written next: on some file systems it takes longer to make and remove a file than
 * all the rest, and a process that starts waits meanwhile.
 */
static char *spare(const struct dp_run *run, u32 i, char path[PATH_ROOM])
{
	snprintf(path, PATH_ROOM, "%s/" SPARE "%u", run->state, i);
	return path;
}

static bool write_file(const char *path, const char *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	bool good = fd >= 0 && write(fd, bytes, n) == (ssize_t)n && !ftruncate(fd, (off_t)n);

	if (fd >= 0)
		close(fd);
	return good;
}

/* The file has its old content or the new one, at any moment. The old one is a spare file from then on. */
static void commit(struct dp_run *run, FILE *f, const char *name, char *const *bytes, const size_t *n)
{
	char path[PATH_ROOM], new[PATH_ROOM];
	u32 i = run->nspares ? run->nspares - 1 : 0;
	bool good;

	fclose(f);
	path_in(run, name, path);
	good = write_file(spare(run, i, new), *bytes, *n);
	if (good && !renameat2(AT_FDCWD, new, AT_FDCWD, path, RENAME_EXCHANGE)) {
		run->nspares = i + 1;
	} else {
		run->nspares = i;
		if (!good || rename(new, path))
			unlink(path); /* rather none than an old one */
	}
	free(*bytes);
}

static void drop(const struct dp_run *run, const char *name)
{
	char path[PATH_ROOM];

	if (*run->state)
		unlink(path_in(run, name, path));
}

static void drop_spares(struct dp_run *run)
{
	char path[PATH_ROOM];

	while (*run->state && run->nspares)
		unlink(spare(run, --run->nspares, path));
}

static const char *module_file(const struct run_module *m, char *buf, size_t size)
{
	snprintf(buf, size, "module-%u", m->number);
	return buf;
}

static const char *ended_file(const struct run_module *m, char *buf, size_t size)
{
	snprintf(buf, size, "ended-%u", m->number);
	return buf;
}

static const char *target_file(pid_t pid, char *buf, size_t size)
{
	snprintf(buf, size, "target-%d", (int)pid);
	return buf;
}

void dp_run_save_module(struct dp_run *run, const struct run_module *m)
{
	struct saved_module sm = {.number = m->number,
				  .generation = m->generation,
				  .flags = m->flags,
				  .fields = m->fields,
				  .budget = m->budget,
				  .pid = m->pid,
				  .pid_started = m->pid_started};
	void *object = NULL;
	size_t n, size = 0;
	char *bytes, name[32];
	FILE *f;

	if (!*run->state || m->before || dp_rpn_save(&m->unit, &object, &size, NULL))
		return;
	for (const struct run_ended *e = run->log ? m->ended : NULL; e; e = e->next)
		sm.nended++;
	sm.object = size;
	f = begin(run, &bytes, &n, sizeof(sm));
	if (f) {
		fwrite(&sm, sizeof(sm), 1, f);
		fwrite(object, 1, size, f);
		fwrite(m->done, sizeof(*m->done), m->unit.nprobes, f);
		for (const struct run_ended *e = run->log ? m->ended : NULL; e; e = e->next) {
			fwrite(&e->pid, sizeof(e->pid), 1, f);
			fwrite(&e->nnames, sizeof(e->nnames), 1, f);
			if (e->nnames)
				fwrite(e->names, sizeof(*e->names), e->nnames, f);
			fwrite(e->words, sizeof(u64), m->unit.nlocals, f);
		}
		commit(run, f, module_file(m, name, sizeof(name)), &bytes, &n);
	}
	free(object);
}

void dp_run_unsave_module(struct dp_run *run, const struct run_module *m)
{
	char name[32];

	drop_spares(run);
	drop(run, module_file(m, name, sizeof(name)));
	drop(run, ended_file(m, name, sizeof(name)));
}

static void put_ended(FILE *f, const struct run_module *m, const struct run_ended *e)
{
	struct saved_ended s = {.pid = e->pid, .nnames = e->nnames, .nwords = m->unit.nlocals};
	struct saved_run run = {0, 0};

	for (u32 i = 0; i < s.nwords; i++)
		s.nruns += e->words[i] && (!i || !e->words[i - 1]);
	fwrite(&s, sizeof(s), 1, f);
	if (e->nnames)
		fwrite(e->names, sizeof(*e->names), e->nnames, f);
	for (; run.first < s.nwords; run.first += run.n + 1) {
		for (run.n = 0; run.first + run.n < s.nwords && e->words[run.first + run.n];)
			run.n++;
		if (!run.n)
			continue;
		fwrite(&run, sizeof(run), 1, f);
		fwrite(e->words + run.first, sizeof(u64), run.n, f);
	}
}

static void save_ended(struct dp_run *run, struct run_module *m, const struct run_ended *e, u32 kept)
{
	char path[4200], name[32], *bytes = NULL;
	bool anew = m->nsaved_ended >= 2 * kept; /* more than half of what is there is not wanted any more */
	size_t n = 0;
	FILE *f;
	int fd;

	if (!*run->state || run->log || (run->recorder && dp_journal_is_full(run->recorder)))
		return;
	f = open_memstream(&bytes, &n);
	if (!f)
		return;
	for (const struct run_ended *i = anew ? m->ended : e; i; i = anew ? i->next : NULL)
		put_ended(f, m, i);
	if (anew) {
		commit(run, f, ended_file(m, name, sizeof(name)), &bytes, &n);
		m->nsaved_ended = kept;
		return;
	}
	fclose(f);
	snprintf(path, sizeof(path), "%s/%s", run->state, ended_file(m, name, sizeof(name)));
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd >= 0 && write(fd, bytes, n) == (ssize_t)n)
		m->nsaved_ended++;
	if (fd >= 0)
		close(fd);
	free(bytes);
}

void dp_run_save_target(struct dp_run *run, const struct run_target *t, const struct run_range *ranges, u32 nranges,
			volatile const u64 *words, struct dp_apart apart, u32 nwords)
{
	struct saved_target st = {t->pid, nranges, t->started, t->rings_inode, nwords, nwords};
	char *bytes, name[32];
	size_t n;
	FILE *f = begin(run, &bytes, &n, sizeof(st));

	if (!f)
		return;
	while (st.nstored && !dp_apart_read(words + st.nstored - 1, apart))
		st.nstored--;
	fwrite(&st, sizeof(st), 1, f);
	for (u32 i = 0; i < nranges; i++) {
		const struct run_range *s = &ranges[i];
		struct saved_range ss = {s->m->number, s->generation, s->locals,      s->gates,
					 s->nlocals,   s->ngates,     s->room_locals, s->room_gates};

		fwrite(&ss, sizeof(ss), 1, f);
		fwrite(s->at, sizeof(*s->at), s->ngates, f);
	}
	for (u32 i = 0; i < st.nstored; i++) {
		u64 w = dp_apart_read(words + i, apart);

		fwrite(&w, sizeof(w), 1, f);
	}
	commit(run, f, target_file(t->pid, name, sizeof(name)), &bytes, &n);
}

/* There will be others. */
void dp_run_unsave_target(struct dp_run *run, const struct run_target *t)
{
	char name[32], path[PATH_ROOM], to[PATH_ROOM];

	target_file(t->pid, name, sizeof(name));
	if (!*run->state || !run->modules || run->nspares == SPARES_MOST)
		drop(run, name);
	else if (!rename(path_in(run, name, path), spare(run, run->nspares, to)))
		run->nspares++;
}

/* ---- reading ---- */

struct input {
	char *bytes;
	size_t n, at;
};

/* The next n bytes; NULL: there are not so many. Copy them: they are not aligned. */
static const void *take(struct input *in, u64 n)
{
	const char *p = in->bytes + in->at;

	if (n > in->n - in->at)
		return NULL;
	in->at += n;
	return p;
}

static bool get(struct input *in, void *to, u64 n)
{
	const void *p = take(in, n);

	if (p)
		memcpy(to, p, n);
	return p;
}

static bool read_file(const struct dp_run *run, const char *name, struct input *in)
{
	char path[4400];
	struct stat st;
	FILE *f;

	*in = (struct input){NULL, 0, 0};
	snprintf(path, sizeof(path), "%s/%s", run->state, name);
	f = fopen(path, "re");
	if (f && !fstat(fileno(f), &st) && st.st_size <= FILE_MOST) {
		in->bytes = malloc((size_t)st.st_size + 1);
		in->n = in->bytes ? fread(in->bytes, 1, (size_t)st.st_size, f) : 0;
	}
	if (f)
		fclose(f);
	return in->bytes;
}

static bool read_input(const struct dp_run *run, const char *name, struct input *in, u32 size)
{
	char boot[40];
	struct head h;

	dp_boot_id(boot);
	return read_file(run, name, in) && get(in, &h, sizeof(h)) && h.magic == STATE_MAGIC && h.abi == DP_ABI &&
	       h.size == size && !memcmp(h.boot, boot, sizeof(boot));
}

static bool get_names(struct run_ended *e, struct input *in)
{
	const struct run_name *names = take(in, e->nnames * sizeof(*names));

	e->names = names ? calloc(e->nnames + 1ull, sizeof(*names)) : NULL;
	if (!e->names)
		return false;
	memcpy(e->names, names, e->nnames * sizeof(*names));
	for (u32 i = 0; i < e->nnames; i++)
		e->names[i].text[sizeof(names->text) - 1] = '\0';
	return true;
}

static bool read_ended(struct run_module *m, struct input *in, u32 n)
{
	struct run_ended **end = &m->ended;

	for (u32 i = 0; i < n; i++) {
		struct run_ended *e = calloc(1, sizeof(*e) + m->unit.nlocals * sizeof(u64));

		if (!e || !get(in, &e->pid, sizeof(e->pid)) || !get(in, &e->nnames, sizeof(e->nnames)) ||
		    !get_names(e, in) || !get(in, e->words, m->unit.nlocals * sizeof(u64))) {
			dp_run_free_ended(e);
			return false;
		}
		*end = e;
		end = &e->next;
	}
	return true;
}

static bool get_runs(struct run_ended *e, const struct saved_ended *s, struct input *in)
{
	struct saved_run r;

	for (u32 i = 0; i < s->nruns; i++)
		if (!get(in, &r, sizeof(r)) || r.first > s->nwords || r.n > s->nwords - r.first ||
		    !get(in, e->words + r.first, r.n * sizeof(u64)))
			return false;
	return true;
}

/* Up to one that was not written as a whole. */
static void read_added(struct dp_run *run, struct run_module *m)
{
	struct input in;
	struct saved_ended s;
	char name[32];

	if (read_file(run, ended_file(m, name, sizeof(name)), &in))
		while (get(&in, &s, sizeof(s)) && s.nwords == m->unit.nlocals) {
			struct run_ended *e = calloc(1, sizeof(*e) + s.nwords * sizeof(u64));

			if (!e)
				break;
			e->pid = s.pid;
			e->nnames = s.nnames;
			if (!get_names(e, &in) || !get_runs(e, &s, &in)) {
				dp_run_free_ended(e);
				break;
			}
			dp_run_keep_ended(run, m, e);
		}
	free(in.bytes);
}

/* A probe program for one process is no longer wanted when that is gone; by a recording it is. */
static bool module_of(struct dp_run *run, struct input *in)
{
	struct saved_module sm;
	struct run_module *m;
	struct dp_rpn_unit u;
	const void *object;

	if (!get(in, &sm, sizeof(sm)) || (run->log && sm.pid && dp_process_started(sm.pid) != sm.pid_started))
		return false;
	object = take(in, sm.object);
	if (!object || dp_rpn_load(&u, object, sm.object, NULL))
		return false;
	m = dp_run_module_new(run, &u);
	if (!m) {
		dp_rpn_free(&u);
		return false;
	}
	m->number = sm.number;
	m->generation = sm.generation;
	m->flags = sm.flags;
	m->fields = sm.fields;
	m->budget = sm.budget;
	m->pid = sm.pid;
	m->pid_started = sm.pid_started;
	run->numbers = DP_MAX(run->numbers, m->number);
	if (!get(in, m->done, m->unit.nprobes * sizeof(*m->done)) || !read_ended(m, in, sm.nended))
		dp_run_forget_ended(m);
	if (!run->log)
		read_added(run, m);
	else if (!run_is_in_kernel(m) && m->unit.name[0] == '/')
		dp_run_watch_file(run, m, dp_open_regular(m->unit.name));
	return true;
}

static struct run_module *numbered(const struct dp_run *run, u32 number)
{
	for (struct run_module *m = run->modules; m; m = m->next)
		if (m->number == number)
			return m;
	return NULL;
}

void dp_run_free_orphan(struct run_orphan *h)
{
	if (!h)
		return;
	dp_run_free_ranges(h->ranges, h->nranges);
	free(h->words);
	free(h);
}

static bool read_ranges(const struct dp_run *run, struct run_orphan *h, struct input *in)
{
	for (u32 i = 0; i < h->nranges; i++) {
		struct run_range *r = &h->ranges[i];
		struct saved_range ss;
		struct run_module *m;

		if (!get(in, &ss, sizeof(ss)) || ss.ngates > PROBES_MOST)
			return false;
		m = numbered(run, ss.module);
		if (!m || (u64)ss.locals + ss.nlocals > h->nwords || (u64)ss.gates + ss.ngates > h->nwords ||
		    (ss.generation == m->generation && ss.ngates != m->unit.nprobes))
			return false;
		*r = (struct run_range){.m = m,
					.generation = ss.generation,
					.locals = ss.locals,
					.gates = ss.gates,
					.nlocals = ss.nlocals,
					.ngates = ss.ngates,
					.room_locals = ss.room_locals,
					.room_gates = ss.room_gates,
					.at = calloc(ss.ngates + 1ull, sizeof(*r->at))};
		if (!r->at || !get(in, r->at, ss.ngates * sizeof(*r->at)))
			return false;
		for (u32 k = 0; k < ss.ngates; k++)
			if (r->at[k] >= PROBES_MOST)
				return false;
	}
	return true;
}

static bool orphan_of(struct dp_run *run, struct input *in)
{
	struct saved_target st;
	struct run_orphan *h;

	if (!get(in, &st, sizeof(st)) || st.nranges > 4096 || st.nwords > WORDS_MOST || st.nstored > st.nwords ||
	    st.nwords < RUN_GLOBALS)
		return false;
	h = calloc(1, sizeof(*h));
	if (!h)
		return false;
	*h = (struct run_orphan){
	    .pid = st.pid, .started = st.started, .inode = st.inode, .nranges = st.nranges, .nwords = (u32)st.nwords};
	h->ranges = calloc(st.nranges + 1, sizeof(*h->ranges));
	h->words = calloc(st.nwords, sizeof(*h->words));
	if (!h->ranges || !h->words || !read_ranges(run, h, in) || !get(in, h->words, st.nstored * sizeof(u64))) {
		dp_run_free_orphan(h);
		return false;
	}
	h->next = run->orphans;
	run->orphans = h;
	return true;
}

static int by_number(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static void each(struct dp_run *run, const char *prefix, u32 size, bool (*use)(struct dp_run *run, struct input *in))
{
	struct dirent **v;
	int n = scandir(run->state, &v, NULL, by_number);

	for (int i = 0; i < n; i++) {
		struct input in;

		if (!strncmp(v[i]->d_name, prefix, strlen(prefix))) {
			if (!use || !read_input(run, v[i]->d_name, &in, size) || !use(run, &in))
				drop(run, v[i]->d_name);
			if (use)
				free(in.bytes);
		}
		free(v[i]);
	}
	if (n >= 0)
		free(v);
}

/* What the predecessor wrote behind the last epoch comes again from the rings. */
static void open_journal(struct dp_run *run)
{
	char path[4400];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/journal", run->state);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && !ftruncate(fd, sizeof(*run->journal))) {
		run->journal = mmap(NULL, sizeof(*run->journal), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (run->journal == MAP_FAILED)
			run->journal = NULL;
	}
	if (fd >= 0)
		close(fd);
	if (!run->journal || fstat(fileno(run->log), &st))
		return;
	if (run->orphans && run->journal->epoch && run->journal->size[run->journal->epoch & 1] < (u64)st.st_size &&
	    !ftruncate(fileno(run->log), (off_t)run->journal->size[run->journal->epoch & 1]))
		st.st_size = (off_t)run->journal->size[run->journal->epoch & 1];
	run->log_bytes = (u64)st.st_size;
	run->old_epoch = run->journal->epoch;
	if (!run->journal->epoch)
		run->journal->epoch = 1;
	run->journal->size[run->journal->epoch & 1] = (u64)st.st_size;
}

static bool make_directory(struct dp_run *run)
{
	bool good = !mkdir(run->state, 0700) || errno == EEXIST;

	if (!good)
		run->state[0] = '\0';
	return good;
}

void dp_run_state_begin(struct dp_run *run, const char *dir)
{
	snprintf(run->state, sizeof(run->state), "%.4000s", dir);
	if (make_directory(run))
		run->save_ended = save_ended;
}

void dp_run_state_read(struct dp_run *run, const char *dir, u64 epoch)
{
	snprintf(run->state, sizeof(run->state), "%.4000s", dir);
	each(run, "module-", sizeof(struct saved_module), module_of);
	each(run, "target-", sizeof(struct saved_target), orphan_of);
	for (const struct run_module *m = run->modules; m; m = m->next)
		if (m->unit.nglobals)
			dp_run_open_globals(run);
	run->old_epoch = epoch;
	run->state[0] = '\0'; /* should we be killed, the next one finds it as we have */
}

void dp_run_state_open(struct dp_run *run, const char *dir)
{
	snprintf(run->state, sizeof(run->state), "%.4000s/state", dir);
	if (!make_directory(run))
		return;
	each(run, SPARE, 0, NULL); /* of a predecessor */
	each(run, "module-", sizeof(struct saved_module), module_of);
	if (!run->modules)
		dp_run_close_globals(run); /* nobody's any more */
	each(run, "target-", sizeof(struct saved_target), orphan_of);
	open_journal(run);
}

bool dp_run_state_exists(const char *dir)
{
	char path[4200];
	struct dirent *e;
	bool any = false;
	DIR *v;

	snprintf(path, sizeof(path), "%.4000s/state", dir);
	v = opendir(path);
	while (v && !any && (e = readdir(v)))
		any = !strncmp(e->d_name, "module-", 7);
	if (v)
		closedir(v);
	return any;
}
