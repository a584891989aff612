/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes driver`: the driver in the foreground, for a service manager. A child inserts the files of a directory, each
 * by `dprobes insert`, so that a bad one stops nobody, and tells the manager when all were tried.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "driver/driver.h"
#include "run/run-priv.h"

#define PROGRAMS "/etc/dprobes.d"

static int is_program(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');

	return dot && e->d_name[0] != '.' && (!strcmp(dot, ".dpc") || !strcmp(dot, ".rpn"));
}

/* NULL: it may be inserted. */
static const char *distrusted(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "no regular file";
	return dp_cmd_distrusted(&st);
}

static bool insert(const char *path, bool replace)
{
	const char *why = distrusted(path);
	int status = 0;
	pid_t pid;

	if (why) {
		dp_ui_fail(E_DRV_PROGRAM, NULL, "%s: %s", path, why);
		return false;
	}
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "dprobes", "insert", path, replace ? "--replace" : NULL, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status) {
		dp_ui_fail(E_DRV_PROGRAM, NULL, "%s", path);
		return false;
	}
	fprintf(stderr, "dprobes: %s: inserted\n", dp_ui_clean(path));
	return true;
}

/* again: a driver was killed, and its successor has its programs already. */
static void insert_all(const char *dir, bool again, pid_t driver)
{
	struct dirent **files = NULL;
	int n = scandir(dir, &files, is_program, alphasort);
	int good = 0;
	char path[4096], text[128];

	if (n < 0 && (errno != ENOENT || strcmp(dir, PROGRAMS) != 0))
		dp_ui_fail(E_FILE_OPEN, NULL, "%s: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%.3800s/%.255s", dir, files[i]->d_name);
		if (!kill(driver, 0)) /* else it was ended meanwhile, and an insertion would start another one */
			good += insert(path, again);
		free(files[i]);
	}
	free(files);
	snprintf(text, sizeof(text), "READY=1\nSTATUS=%d programs of the directory inserted, %d not", good,
		 n > 0 ? n - good : 0);
	dp_driver_notify(text);
}

/* Nobody waits for the child: its parent is the one that ends. */
static bool insert_beside(const char *dir, bool again, int listener, int lock)
{
	pid_t driver = getpid(), pid = fork();

	if (pid == 0) {
		close(listener);
		close(lock);
		if (fork() == 0)
			insert_all(dir, again, driver);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, NULL, 0) == pid;
}

/* To the file of this very command. */
static int hand_over(void)
{
	struct dp_error err = {0};
	char *text = NULL;

	if (!dp_driver_hand_over(&text, &err)) {
		dp_ui_put_text(stdout, text);
	} else if (err.code == E_DRV_NONE) {
		dp_ui_note("no driver runs");
		err.code = 0;
	} else {
		dp_ui_error(&err, NULL);
	}
	free(text);
	return err.code ? dp_ui_status(err.code) : CMD_OK;
}

int dp_cmd_driver(int argc, char **argv)
{
	struct cmd_words w = {.most = 1, .hint = "give one directory"};
	struct dp_error err = {0};
	int status, listener, lock;
	char dir[256];
	bool again;

	if (!dp_cmd_words(VERB_DRIVER, argc, argv, &w, &status))
		return status;
	if (dp_cmd_has(&w, OPT_HAND_OVER)) {
		if (w.n)
			return dp_ui_fail(E_CMD_EXTRA, "--hand-over takes no directory", "%s", w.v[0]);
		return hand_over();
	}
	if (dp_driver_dir(dir, sizeof(dir), &err) || dp_driver_listen(dir, &listener, &lock, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	if (listener < 0)
		return dp_ui_fail(E_DRV_RUNS, NULL, "%s", dir);
	again = dp_run_state_exists(dir);
	setenv(DP_DRIVER_DIR_ENV, dir, 1);
	if (!insert_beside(w.n ? w.v[0] : PROGRAMS, again, listener, lock))
		return dp_ui_fail(E_DRV_START, NULL, "%s", strerror(errno));
	return dp_driver_main(listener, lock, dir, true);
}
