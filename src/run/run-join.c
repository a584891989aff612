/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See run-join.h. Believes no size: a file may have been written by whoever was killed in the middle of it. */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "log/recording.h"
#include "run/run-join.h"

static bool is_new(struct dp_join *j, const struct dp_recording_block *b)
{
	const u32 *index = (const u32 *)(b + 1); /* of an event, a program and a probe */
	bool is_event = (b->kind == DP_RECORDING_EVENT && b->size >= sizeof(struct dp_recording_event)) ||
			(b->kind == DP_RECORDING_PROBE && b->size >= sizeof(struct dp_recording_probe));
	bool is_program = b->kind == DP_RECORDING_PROGRAM && b->size >= sizeof(struct dp_recording_program);
	bool is_source = b->kind == DP_RECORDING_SOURCE;

	if (j->only_events && !is_event && !is_program)
		return false;
	if ((is_event && *index < j->nevents) || (is_program && *index < j->nprograms) ||
	    (is_source && b->source < j->nsources))
		return false;
	j->nevents += is_event;
	j->nprograms += is_program;
	j->nsources += is_source;
	return true;
}

_Static_assert(!offsetof(struct dp_recording_event, index) && !offsetof(struct dp_recording_probe, index) &&
		   !offsetof(struct dp_recording_program, index),
	       "the index stands first");

bool dp_join_put(struct dp_join *j, FILE *to, const void *from, size_t n)
{
	const char *at = from, *end = at + n;

	if (n < sizeof(struct dp_recording_head))
		return true;
	if (!j->begun)
		fwrite(at, 1, sizeof(struct dp_recording_head), to);
	j->begun = true;
	at += sizeof(struct dp_recording_head);
	while ((size_t)(end - at) >= sizeof(struct dp_recording_block)) {
		const struct dp_recording_block *b = (const void *)at;
		size_t size = sizeof(*b) + b->size;

		if (b->magic != DP_RECORDING_BLOCK || b->size % 8 || size > (size_t)(end - at))
			return true;
		if (is_new(j, b))
			fwrite(at, 1, size, to);
		at += size;
	}
	return at != end;
}

bool dp_join_file(struct dp_join *j, FILE *to, int fd, u64 n)
{
	struct stat st;
	void *at;

	if (fstat(fd, &st) || st.st_size <= 0)
		return false;
	n = DP_MIN(n, (u64)st.st_size);
	at = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return false;
	dp_join_put(j, to, at, n);
	munmap(at, n);
	return true;
}

bool dp_join_name_of(const char *path, const char *word, u32 number, char *buf, size_t size)
{
	const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
	size_t stem = dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);

	if (number == 1)
		return (size_t)snprintf(buf, size, "%.*s%s%s", (int)stem, path, word, path + stem) < size;
	return (size_t)snprintf(buf, size, "%.*s%s.%u%s", (int)stem, path, word, number, path + stem) < size;
}

bool dp_join_name(const char *path, u32 number, char *buf, size_t size)
{
	return dp_join_name_of(path, "", number, buf, size);
}
