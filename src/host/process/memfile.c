/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory files that we share with a process. They are made here and sealed, so that nobody can take away the memory
 * that we have mapped; a file that a process names is opened only when it is such a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/process/session-priv.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define NAME "dprobes-rings"
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int make(void)
{
	int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	return fd >= 0 || errno != EINVAL ? fd
					  : memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING); /* before Linux 6.3 */
}

int dp_memory_file(u64 size, struct dp_error *err)
{
	int fd = make();

	if (fd >= 0 && !ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	dp_fail(err, E_TARGET_SHARE, "the log rings: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Of the kernel's own mount, where all memory files are and nothing that a path leads to. */
static bool memory_device(dev_t *dev)
{
	struct stat st;
	int fd = make();
	bool good = fd >= 0 && !fstat(fd, &st);

	if (fd >= 0)
		close(fd);
	*dev = good ? st.st_dev : 0;
	return good;
}

/*
 * O_PATH opens nothing: a device, a FIFO or somebody's file that stands there instead does not notice. What is looked
 * at is what is opened then.
 */
static int open_checked(const char *link, u64 size, const uid_t *owner)
{
	int at = open(link, O_PATH | O_CLOEXEC), fd = -1;
	char path[64];
	struct stat st;
	dev_t dev;

	if (at < 0)
		return -1;
	if (memory_device(&dev) && !fstat(at, &st) && S_ISREG(st.st_mode) && st.st_dev == dev && !st.st_nlink &&
	    (u64)st.st_size == size && (!owner || st.st_uid == *owner)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
		fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	}
	close(at);
	return fd;
}

int dp_memory_open(const char *link, u64 size)
{
	int fd = open_checked(link, size, NULL), seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);

	if (fd >= 0 && (seals < 0 || (seals & SEALS) != SEALS)) {
		close(fd);
		return -1;
	}
	return fd;
}

int dp_memory_adopt(const char *link, uid_t owner, u64 size, struct dp_error *err)
{
	int fd = open_checked(link, 0, &owner);

	if (fd >= 0 && fcntl(fd, F_GET_SEALS) == 0 && !ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	dp_fail(err, E_TARGET_SHARE, "memfd_create: what the process made is no memory file");
	if (fd >= 0)
		close(fd);
	return -1;
}
