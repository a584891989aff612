/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See run-join.h. Believes no size: a file may have been written by whoever was killed in the middle of it. */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "log/recording.h"
#include "run/run-join.h"

static bool is_new(struct dp_join *j, const struct dp_recording_block *b)
{
	const struct dp_recording_event *e = (const void *)(b + 1);
	bool is_event = b->kind == DP_RECORDING_EVENT && b->size >= sizeof(*e);
	bool is_source = b->kind == DP_RECORDING_SOURCE;

	if (j->only_events && !is_event)
		return false;
	if ((is_event && e->index < j->nevents) || (is_source && b->source < j->nsources))
		return false;
	j->nevents += is_event;
	j->nsources += is_source;
	return true;
}

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
