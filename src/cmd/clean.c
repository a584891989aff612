/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes clean`: takes away what a dprobes that was killed (SIGKILL, out of memory) has left in processes. What
 * belongs to one that runs is left alone.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/nowhere.h"
#include "cmd/cmd.h"
#include "run/run-freezer.h"
#include "run/run-guard.h"
#include "run/run-recover.h"
#include "host/process/process.h"

struct cleaning {
	bool all;
	pid_t of; /* only what this dprobes has left, without a word; 0: all */
	u32 cleaned;
	int status;
	struct dp_json *json; /* its processes are open; NULL: text */
};

/* One that was killed but not waited for has no program any more. */
bool dp_cmd_lives(pid_t owner)
{
	char path[64], exe[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)owner);
	return owner == DP_OWNER_UNSEEN || (owner > 0 && (!kill(owner, 0) || errno == EPERM) &&
					    (readlink(path, exe, sizeof(exe)) >= 0 || errno != ENOENT));
}

const char *dp_cmd_owner(pid_t owner, char *buf, size_t size)
{
	if (owner == DP_OWNER_UNSEEN)
		snprintf(buf, size, "a dprobes outside of this container");
	else
		snprintf(buf, size, "dprobes process %d", (int)owner);
	return buf;
}

static void on_note(void *arg, const char *text)
{
	dp_ui_note("%s", text);
}

/* Whose probes stand there: one that runs, 0: none; and whether there are some to be taken away. */
static pid_t look(const struct cleaning *c, const struct dp_standing *v, u32 n, bool *left)
{
	pid_t running = 0;

	*left = false;
	for (u32 i = 0; i < n; i++) {
		*left |= c->of ? v[i].owner == c->of : !dp_cmd_lives(v[i].owner);
		running = dp_cmd_lives(v[i].owner) ? v[i].owner : running;
	}
	return running;
}

/* left: probes were taken away; running: whose probes stay, 0: nobody's. */
static void tell_process(const struct cleaning *c, pid_t pid, bool left, pid_t running)
{
	struct dp_json *j = c->json;
	char who[64];

	if (c->of)
		return;
	if (!j && running)
		printf("process %d: clean again but for the probes of %s, which runs\n", pid,
		       dp_cmd_owner(running, who, sizeof(who)));
	else if (!j)
		printf("process %d: %s\n", pid, left ? "clean again" : "no probes are left in it");
	if (!j)
		return;
	dp_json_open(j, '{');
	dp_json_put_unsigned(j, "pid", (u64)pid);
	dp_json_put_bool(j, "removed", left);
	dp_json_key(j, "owner");
	running > 0 ? dp_json_unsigned(j, (u64)running) : dp_json_null(j);
	dp_json_close(j, '}');
}

/* A new session takes away what a dead one has left; it is not used further. */
static void clean(struct cleaning *c, pid_t pid)
{
	struct dp_session_options opt = {.note = c->of ? NULL : on_note, .left = c->of ? NULL : on_note};
	struct dp_standing *v = NULL;
	struct dp_tracee t;
	struct dp_error err = {0};
	char who[64];
	u32 n = 0;
	int r = dp_standing_read(pid, &v, &n, &err);
	bool left;
	pid_t running = look(c, v, n, &left);

	if (c->all && (r || !left)) { /* or it has ended, or may not be looked at */
		free(v);
		return;
	}
	if (!r && running && !left && !c->of)
		c->status = dp_ui_fail(
		    E_TARGET_BUSY, "end that dprobes, or take its programs out with `dprobes remove`",
		    "the probes in process %d belong to %s", pid, dp_cmd_owner(running, who, sizeof(who)));
	else if (!r)
		r = dp_recover_open(&t, pid, NULL, &opt, &err);
	if (!r && c->status == CMD_OK) {
		dp_tracee_free(&t);
		tell_process(c, pid, left, running);
		c->cleaned += left;
	}
	if (r) {
		dp_ui_error(&err, NULL);
		c->status = CMD_FAILED;
	}
	free(v);
}

static void end_json(const struct cleaning *c, u32 held, u32 chunks)
{
	dp_json_close(c->json, ']');
	dp_json_put_unsigned(c->json, "released", held);
	dp_json_put_unsigned(c->json, "recordings", chunks);
	dp_json_close(c->json, '}');
	dp_ui_json_end(c->json);
}

static int clean_all(struct cleaning *c)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	u32 held, chunks;

	if (!dir)
		return dp_ui_fail(E_PROC_PERM, NULL, "/proc");
	held = dp_run_thaw_all();
	if (held && !c->of && !c->json)
		printf("%u process%s held at the start by a dead driver now run%s\n", held, held == 1 ? "" : "es",
		       held == 1 ? "s" : "");
	c->cleaned += held;
	while ((e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			clean(c, (pid_t)atol(e->d_name));
	closedir(dir);
	chunks = dp_recover_chunks(c->of ? NULL : on_note, NULL);
	c->cleaned += chunks;
	if (!c->cleaned && c->status == CMD_OK && !c->of && !c->json)
		printf("no probes are left in any process\n");
	if (c->json)
		end_json(c, held, chunks);
	return c->status;
}

int dp_cmd_clean(int argc, char **argv)
{
	struct cleaning c = {.status = CMD_OK};
	struct cmd_words w = {.most = 0};
	struct dp_line line = {0};
	struct dp_json json = {.line = &line};

	if (!dp_cmd_words(VERB_CLEAN, argc, argv, &w, &c.status))
		return c.status;
	c.all = dp_cmd_has(&w, OPT_ALL);
	if (!w.pid == !c.all)
		return dp_ui_fail(w.pid ? E_CMD_EXTRA : E_CMD_MISSING, NULL, "give one of -p PID and --all");
	if (dp_cmd_has(&w, OPT_JSON)) {
		c.json = &json;
		dp_json_open(&json, '{');
		dp_json_key(&json, "processes");
		dp_json_open(&json, '[');
	}
	if (c.all)
		return clean_all(&c);
	clean(&c, w.pid);
	if (c.json)
		end_json(&c, 0, 0);
	return c.status;
}

/* ---- beside a trace ---- */

#define CLEANER "dprobes-clean"
#define LOOK_MS 500

int dp_cmd_start_cleaner(struct dp_cmd_cleaner *c, bool cleans)
{
	int ends[2];

	*c = (struct dp_cmd_cleaner){-1, 0};
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	c->pid = fork();
	if (!c->pid) {
		char of[16];

		snprintf(of, sizeof(of), "%d", (int)getppid());
		setsid();
		if (dup2(ends[0], 3) < 0 || fcntl(3, F_SETFD, 0))
			_exit(1);
		syscall(SYS_close_range, 4, ~0u, 0);
		execl("/proc/self/exe", CLEANER, "cleaner", "3", of, cleans ? "clean" : "look", (char *)NULL);
		_exit(127);
	}
	close(ends[0]);
	c->fd = ends[1];
	return 0;
}

void dp_cmd_end_cleaner(struct dp_cmd_cleaner *c)
{
	if (c->fd < 0)
		return;
	if (write(c->fd, "", 1) < 0) {
		/* It was killed: there is nobody to tell. */
	}
	close(c->fd);
	if (c->pid > 0) /* it ends at once; if it did before, whoever waited for a thread has met it */
		waitpid(c->pid, NULL, 0);
	*c = (struct dp_cmd_cleaner){-1, 0};
}

/*
 * Only a trace starts this, with a pipe: a byte in it says that nothing is left to do, its end that the trace was
 * killed. Meanwhile it looks whether the trace is stopped while its processes wait for it.
 */
int dp_cmd_cleaner(int argc, char **argv)
{
	struct cleaning c = {.all = true, .of = argc == 4 ? atoi(argv[2]) : 0};
	int fd = argc == 4 ? atoi(argv[1]) : -1;
	struct pollfd p = {fd, POLLIN, 0};
	struct dp_guard_look look = {0, 0};
	char byte;

	if (fd <= 2 || c.of <= 0 || fcntl(fd, F_GETFD) < 0)
		return dp_ui_fail(E_CMD_UNKNOWN, "it is started by `dprobes trace`", "%s", argv[0]);
	prctl(PR_SET_NAME, CLEANER);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0, null = dp_open_nowhere(); i < 3 && null >= 0; i++)
		dup2(null, i); /* whoever reads our trace's output waits for its end, not for ours */
	while (poll(&p, 1, LOOK_MS) <= 0)
		dp_guard_look(c.of, &look);
	return read(fd, &byte, 1) || strcmp(argv[3], "clean") ? CMD_OK : clean_all(&c);
}
