/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What dprobes share: a directory of each user for what they write down, and a lock, so that each process is changed by
 * one of them at a time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/hold.h"
#include "host/process/process-priv.h"

#define FIRST_NAMESPACE 0xeffffffcull /* of process ids: a constant of the kernel */
#define PATIENCE_NS 30000000000ull    /* arming takes some 0.1 s, and waiting for threads to leave some seconds */

/* A directory that nobody else can write to. */
static bool own_dir(const char *path)
{
	struct stat st;

	if (lstat(path, &st)) {
		mkdir(path, 0700);
		if (lstat(path, &st))
			return false;
	}
	return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022);
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
	if (!own_dir(buf)) { /* a root that has no more than a program */
		if (geteuid() || mkdir("/run", 0755) || !own_dir(buf))
			return false;
	}
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

pid_t dp_id_in_namespace(u32 pid, u64 namespace)
{
	bool all = dp_pid_namespace() == FIRST_NAMESPACE; /* from there all others can be seen */
	bool foreign = pid && namespace && namespace != dp_pid_namespace();
	DIR *dir = foreign ? opendir("/proc") : NULL;
	struct dirent *e;
	pid_t found = 0;
	struct stat st;
	char path[64];

	if (!dir)
		return foreign ? DP_OWNER_UNSEEN : (pid_t)pid;
	while (!found && (e = readdir(dir))) {
		pid_t id = (pid_t)atoi(e->d_name);

		if (id <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)id);
		if (stat(path, &st)) /* it may be somebody else's */
			all &= errno == ENOENT;
		else if (st.st_ino == namespace && dp_inner_tid(id, id) == (pid_t)pid)
			found = id;
		else
			all |= st.st_ino == namespace && !geteuid();
	}
	closedir(dir);
	return found || all ? found : DP_OWNER_UNSEEN;
}

/* ---- one at a time ---- */

static struct hold {
	pid_t pid;
	int fd;
} * holds; /* of this process: one, or a child's beside that of its parent */
static size_t room;
static u32 nholds;

/*
 * The lock is on the file of the process's memory: all users' dprobes that may change the process can open it, and
 * nobody else can. The kernel keeps one inode of it for as long as somebody has it open. A lock ends with its
 * descriptor, also after SIGKILL.
 */
static int open_memory(pid_t pid)
{
	char path[64];

	dp_format(path, sizeof(path), "/proc/%d/mem", (int)pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* As the kernel lists it; 0: nobody that we know of. */
static pid_t holder_of(int fd)
{
	FILE *f = fopen("/proc/locks", "re");
	unsigned long inode;
	char line[256];
	struct stat st;
	int pid, found = 0;

	if (fstat(fd, &st))
		st.st_ino = 0;
	while (f && !found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %*x:%*x:%lu", &pid, &inode) == 2 && inode == st.st_ino)
			found = pid;
	if (f)
		fclose(f);
	return found;
}

static int lock(int fd, pid_t pid, struct dp_error *err)
{
	u64 begin = dp_now_ns();

	while (flock(fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR)) {
		if (dp_now_ns() - begin > PATIENCE_NS)
			return dp_fail(err, E_TARGET_BUSY, "process %d is being changed by dprobes process %d",
				       (int)pid, (int)holder_of(fd));
		usleep(1000);
	}
	return 0;
}

int dp_process_hold(pid_t pid, struct dp_error *err)
{
	int fd = open_memory(pid), r;

	if (fd < 0)
		return 0; /* whoever wants to change it will tell */
	r = dp_grow((void **)&holds, &room, nholds, sizeof(*holds)) ? lock(fd, pid, err)
								    : dp_fail(err, E_ARM_NOMEM, "process %d", (int)pid);
	if (r)
		close(fd);
	else
		holds[nholds++] = (struct hold){pid, fd};
	return r;
}

void dp_process_release(pid_t pid)
{
	for (u32 i = nholds; i-- > 0;)
		if (holds[i].pid == pid) {
			flock(holds[i].fd, LOCK_UN); /* also where a child that was forked meanwhile has it */
			close(holds[i].fd);
			holds[i] = holds[--nholds];
			return;
		}
}
