/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The global variables: one set for all processes that this run has probes in. They lie in a file that each of them
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
_Static_assert(RUN_GLOBALS * sizeof(u64) <= SIZE, "one page");

/* It has all of its memory from the start: a process that found none at a hit would be killed. */
static bool fill(int fd)
{
	static const char zeros[SIZE];
	struct stat st;

	return !fstat(fd, &st) && (st.st_size == SIZE || pwrite(fd, zeros, SIZE, 0) == SIZE);
}

void dp_run_close_globals(struct dp_run *run)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/globals", run->state);
	if (*run->state)
		unlink(path);
	if (!run->globals)
		return;
	munmap((void *)run->globals, SIZE);
	close(run->globals_fd);
	run->globals = NULL;
}

bool dp_run_open_globals(struct dp_run *run)
{
	char path[4200];
	void *p;

	if (run->globals)
		return true;
	snprintf(path, sizeof(path), "%s/globals", run->state);
	run->globals_fd = *run->state ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)
				      : memfd_create("dprobes-globals", MFD_CLOEXEC);
	p = run->globals_fd >= 0 && fill(run->globals_fd)
		? mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, run->globals_fd, 0)
		: MAP_FAILED;
	if (p != MAP_FAILED)
		run->globals = p;
	else if (run->globals_fd >= 0)
		close(run->globals_fd);
	return p != MAP_FAILED;
}
