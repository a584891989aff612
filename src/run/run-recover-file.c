/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See run-recover-file.h. A recording is only gone on with if it is the very file that the recorder wrote, and ours;
 * everything else leads to a new file.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/run-recover-file.h"

struct dp_recover_file dp_recover_file_of(const struct dp_journal_left *journal, bool must)
{
	struct dp_journal_head *h = journal->head;

	return (struct dp_recover_file){.journal = journal, .point = &h->point[h->epoch & 1], .must = must};
}

/* The directory that the recorder wrote to; -1: another one is there. */
static int open_directory(const struct dp_journal_head *h)
{
	const char *slash = strrchr(h->path, '/');
	char dir[PATH_MAX];
	struct stat st;
	int fd;

	snprintf(dir, sizeof(dir), "%.*s", slash == h->path ? 1 : (int)(slash - h->path), h->path);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) || st.st_dev != h->dir_dev || st.st_ino != h->dir_inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool is_long_enough(const struct dp_recover_file *s, u64 size)
{
	return s->journal->head->in_memory || size == s->point->size || (size > s->point->size && !s->keeps);
}

/* The file that the recorder was writing, as it was when the journal was written last. */
static int open_same(const struct dp_recover_file *s, int dir)
{
	const struct dp_journal_head *h = s->journal->head;
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (dir < 0 || !s->point->inode || !dp_join_name(h->path, s->point->number, path, sizeof(path)))
		return -1;
	fd = openat(dir, strrchr(path, '/') + 1, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_dev == s->point->dev &&
	    st.st_ino == s->point->inode && is_long_enough(s, (u64)st.st_size))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* A file that was not there: beside the recording or, for records that exist nowhere else, where we are. */
static int make_new(struct dp_recover_file *s, int dir)
{
	const struct dp_journal_head *h = s->journal->head;
	bool next = h->in_memory && !s->point->inode && dir >= 0; /* the one that the recorder would have made */

	for (u32 i = 1; i < 1000 && (dir >= 0 || s->must); i++) {
		u32 number = next ? s->point->number + i - 1 : i;
		int fd;

		if (!dp_join_name_of(h->path, next ? "" : ".recovered", number, s->path, sizeof(s->path)))
			return -1;
		if (dir < 0)
			memmove(s->path, strrchr(s->path, '/') + 1, strlen(strrchr(s->path, '/') + 1) + 1);
		fd = openat(dir < 0 ? AT_FDCWD : dir, dir < 0 ? s->path : strrchr(s->path, '/') + 1,
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

static void put_chunks(const struct dp_recover_file *s, struct dp_join *join, FILE *to)
{
	for (u32 i = s->point->first; i && i <= s->point->last; i++) {
		char name[16];
		int fd;

		snprintf(name, sizeof(name), "%u", i);
		fd = dp_journal_part(s->journal, name);
		if (fd >= 0) { /* else it was dropped */
			dp_join_file(join, to, fd, i == s->point->last ? s->point->size : ~0ull);
			close(fd);
		}
	}
}

static void put_head(const struct dp_recover_file *s, struct dp_join *join, FILE *to)
{
	int fd = dp_journal_part(s->journal, "head");

	join->only_events = true; /* the counts behind them are to stand at the end */
	if (fd >= 0) {
		dp_join_file(join, to, fd, ~0ull);
		close(fd);
	}
	join->only_events = false;
}

/* Whether a file was begun after the recording. */
static bool is_later(const char *link, u64 size, const struct dp_recording *before)
{
	struct dp_recording_info mine, its;
	struct dp_recording *r = NULL;
	struct dp_error err;
	bool later;

	if (!size)
		return true;
	if (dp_recording_open(&r, link, &err))
		return false;
	dp_recording_info(before, &mine);
	dp_recording_info(r, &its);
	later = its.head.mono_ns > mine.head.mono_ns && its.head.real_ns > mine.head.real_ns;
	dp_recording_close(r);
	return later;
}

/* The recorder was killed when it had just begun its next file: no record is in it, and nobody needs it. */
static void drop_next(const struct dp_recover_file *s, int dir)
{
	char path[PATH_MAX], link[32], *name;
	struct stat st;
	int fd;

	if (!s->point->rotates || !dp_join_name(s->journal->head->path, s->point->number + 1, path, sizeof(path)))
		return;
	name = strrchr(path, '/') + 1;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    is_later(link, (u64)st.st_size, s->before))
		unlinkat(dir, name, 0);
	if (fd >= 0)
		close(fd);
}

/* The recording up to where the journal has it, to go on behind that. -1: it is not the same any more. */
static int go_on(struct dp_recover_file *s, int dir, struct dp_join *join)
{
	struct dp_recording_info info;
	struct dp_error err;
	char link[32];
	int fd = open_same(s, dir);

	if (fd < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	dp_join_name(s->journal->head->path, s->point->number, s->path, sizeof(s->path));
	if (ftruncate(fd, s->journal->head->in_memory ? 0 : (off_t)s->point->size) ||
	    (!s->journal->head->in_memory && dp_recording_open(&s->before, link, &err))) {
		close(fd);
		return -1;
	}
	if (s->before) {
		drop_next(s, dir);
		dp_recording_info(s->before, &info);
		*join = (struct dp_join){.begun = true, .nevents = info.nevents, .nsources = info.nsources};
	}
	return fd;
}

FILE *dp_recover_file_begin(struct dp_recover_file *s, struct dp_join *join)
{
	int dir = open_directory(s->journal->head), fd = go_on(s, dir, join);
	FILE *to;

	if (fd < 0)
		fd = make_new(s, dir);
	if (dir >= 0)
		close(dir);
	to = fd >= 0 && lseek(fd, 0, SEEK_END) >= 0 ? fdopen(fd, "w") : NULL;
	if (!to) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	if (s->journal->head->in_memory)
		put_chunks(s, join, to);
	else if (!join->begun)
		put_head(s, join, to);
	return to;
}

bool dp_recover_file_end(struct dp_recover_file *s, FILE *to)
{
	struct dp_journal_head *h = s->journal->head;
	bool good = !fflush(to) && !ferror(to);
	char link[32], path[PATH_MAX];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fileno(to));
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (good && !fstat(fileno(to), &st) && dp_journal_place(h, path)) {
		h->in_memory = 0;
		*s->point = (struct dp_journal_point){.number = 1,
						      .size = (u64)st.st_size,
						      .dev = st.st_dev,
						      .inode = st.st_ino,
						      .tsc = s->point->tsc,
						      .ns = s->point->ns};
	}
	return !fclose(to) && good;
}
