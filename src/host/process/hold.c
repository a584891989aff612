/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the dprobes of one user share: a directory for what they write down, and in it a lock, so that each process is
 * changed by one of them at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/hold.h"
#include "host/process/process-priv.h"

#define PATIENCE_NS 30000000000ull /* arming takes some 0.1 s, and waiting for threads to leave some seconds */

/* A directory that nobody else can write to. */
static bool own_dir(const char *path)
{
	struct stat st;

	mkdir(path, 0700);
	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022);
}

bool dp_record_dir(char *buf, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0)
		snprintf(buf, size, "/run/dprobes");
	else if (runtime && *runtime == '/' && strlen(runtime) < 64)
		snprintf(buf, size, "%s/dprobes", runtime);
	else
		snprintf(buf, size, "/tmp/dprobes-%u", (unsigned)geteuid());
	if (geteuid() == 0)
		mkdir("/run", 0755); /* a root that has no more than a program */
	if (!own_dir(buf))
		return false;
	snprintf(buf + strlen(buf), size - strlen(buf), "/sessions");
	return own_dir(buf);
}

u64 dp_pid_namespace(void)
{
	static u64 own; /* it does not change in the life of a process */
	struct stat st;

	if (!own && !stat("/proc/self/ns/pid", &st))
		own = st.st_ino;
	return own;
}

/* ---- one at a time ---- */

/*
 * A lock of the kernel on the byte of that number: it ends with its process, however that ends, and is not inherited.
 * It would end with any descriptor of the file that is closed, so there is one, for good.
 */
static int open_lock(void)
{
	static int lock = -1;
	char dir[100], path[120];
	struct stat a, b;

	if (!dp_record_dir(dir, sizeof(dir)))
		return -1;
	snprintf(path, sizeof(path), "%s/.lock", dir);
	if (lock >= 0 && (fstat(lock, &a) || stat(path, &b) || a.st_ino != b.st_ino || a.st_dev != b.st_dev)) {
		close(lock);
		lock = -1;
	}
	if (lock < 0)
		lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return lock;
}

static int set_lock(int fd, int cmd, short type, pid_t pid, pid_t *holder)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = pid, .l_len = 1};
	int r = fcntl(fd, cmd, &l);

	*holder = cmd == F_GETLK && !r && l.l_type != F_UNLCK ? l.l_pid : 0;
	return r;
}

int dp_process_hold(pid_t pid, struct dp_error *err)
{
	int fd = open_lock();
	u64 begin = dp_now_ns();
	pid_t holder;

	while (fd >= 0 && set_lock(fd, F_SETLK, F_WRLCK, pid, &holder) && (errno == EAGAIN || errno == EACCES)) {
		set_lock(fd, F_GETLK, F_WRLCK, pid, &holder);
		if (dp_now_ns() - begin > PATIENCE_NS)
			return dp_fail(err, E_TARGET_BUSY, "process %d is being changed by dprobes process %d",
				       (int)pid, (int)holder);
		usleep(1000);
	}
	return 0;
}

void dp_process_release(pid_t pid)
{
	int fd = open_lock();
	pid_t holder;

	if (fd >= 0)
		set_lock(fd, F_SETLK, F_UNLCK, pid, &holder);
}
