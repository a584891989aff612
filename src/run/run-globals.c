/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The global variables: one set for all processes that this driver has probes in. They lie in a file that each of them
 * maps, so that an atomic operation is one across processes; in the state's directory where there is one, so that a
 * successor has them too.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/run-priv.h"

#define SIZE 4096
_Static_assert(DRV_GLOBALS * sizeof(u64) <= SIZE, "one page");

/* It has all of its memory from the start: a process that found none at a hit would be killed. */
static bool fill(int fd)
{
	static const char zeros[SIZE];
	struct stat st;

	return !fstat(fd, &st) && (st.st_size == SIZE || pwrite(fd, zeros, SIZE, 0) == SIZE);
}

void dp_drv_close_globals(struct driver *d)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/globals", d->state);
	if (*d->state)
		unlink(path);
	if (!d->globals)
		return;
	munmap((void *)d->globals, SIZE);
	close(d->globals_fd);
	d->globals = NULL;
}

bool dp_drv_open_globals(struct driver *d)
{
	char path[4200];
	void *p;

	if (d->globals)
		return true;
	snprintf(path, sizeof(path), "%s/globals", d->state);
	d->globals_fd = *d->state ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)
				  : memfd_create("dprobes-globals", MFD_CLOEXEC);
	p = d->globals_fd >= 0 && fill(d->globals_fd)
		? mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, d->globals_fd, 0)
		: MAP_FAILED;
	if (p != MAP_FAILED)
		d->globals = p;
	else if (d->globals_fd >= 0)
		close(d->globals_fd);
	return p != MAP_FAILED;
}
