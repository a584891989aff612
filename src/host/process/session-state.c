/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a session knows, for its other files and for those who opened it: its rings and words, its probes, whether its
 * process lives. Nothing is changed in the process.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "host/process/session-priv.h"
#include "log/log-guard.h"

static void say(struct dp_session *s, void (*note)(void *arg, const char *text), const char *fmt, va_list ap)
{
	char text[512];

	if (!note)
		return;
	vsnprintf(text, sizeof(text), fmt, ap);
	note(s->opt.arg, text);
}

void dp_session_say(struct dp_session *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(s, s->opt.note, fmt, ap);
	va_end(ap);
}

void dp_session_say_left(struct dp_session *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(s, s->opt.left, fmt, ap);
	va_end(ap);
}

int dp_session_map_rings(struct dp_session *s, int fd, u64 there, u64 size, struct dp_error *err)
{
	struct stat st;
	void *p;

	dp_session_unmap_rings(s);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || fstat(fd, &st)) {
		if (p != MAP_FAILED)
			munmap(p, size);
		return dp_fail(err, E_TARGET_CALL, "the log rings: %s", strerror(errno));
	}
	s->rings = (struct dp_ring_map){.at = p, .size = size, .there = there, .pid = s->pid};
	s->rings_file = (struct dp_file_id){st.st_dev, st.st_ino};
	if (dp_guard_add(p, size))
		return 0;
	dp_session_unmap_rings(s);
	return dp_fail(err, E_ARM_NOMEM, "the log rings");
}

void dp_session_unmap_rings(struct dp_session *s)
{
	if (!s->rings.at)
		return;
	dp_guard_drop(s->rings.at);
	munmap(s->rings.at, s->rings.size);
	s->rings = (struct dp_ring_map){.at = NULL};
	s->rings_file = (struct dp_file_id){0, 0};
}

void dp_session_add_withdrawn(struct dp_session *s, const struct dp_withdrawn *wd)
{
	s->stats.longest_stop_ns = DP_MAX(s->stats.longest_stop_ns, wd->longest_stop_ns);
	s->stats.stops += wd->stops;
	s->stats.moved += wd->moved;
	s->stats.rescued += wd->rescued;
	s->stats.kept_bytes += wd->kept_bytes;
}

int dp_session_set_words(struct dp_session *s, const u64 *values, u32 n, struct dp_error *err)
{
	u64 *copy = malloc((n + 1) * sizeof(*copy));

	if (!copy)
		return dp_fail(err, E_ARM_NOMEM, "%u words", n);
	if (n)
		memcpy(copy, values, n * sizeof(*copy));
	free(s->words);
	s->words = copy;
	s->nwords = n;
	return 0;
}

volatile u64 *dp_session_words(struct dp_session *s)
{
	return s->rings.at ? (volatile u64 *)((u8 *)s->rings.at + s->words_off) : NULL;
}

struct dp_apart dp_session_apart(const struct dp_session *s)
{
	return s->rings.at ? s->apart : (struct dp_apart){0, 0};
}

u64 dp_session_words_at(const struct dp_session *s)
{
	return s->rings.at ? s->region + s->rings_off + s->words_off : 0;
}

u32 dp_session_nprobes(const struct dp_session *s)
{
	return s->nprobes;
}

void dp_session_probe(const struct dp_session *s, u32 i, struct dp_probe_info *out)
{
	const struct dp_probe *p = &s->probes[i];

	*out = (struct dp_probe_info){
	    .event = p->event,
	    .name = p->name    ? p->name
		    : p->event ? p->event->name
			       : "",
	    .symbol = p->symbol ? p->symbol : "",
	    .offset = p->offset,
	    .addr = p->addr,
	    .module = p->module,
	    .outcome = p->outcome,
	    .reason = p->why ? dp_error_info(p->why)->sentence : "",
	    .nsites = p->nsites,
	    .ncompiled = p->ncompiled,
	    .nplain = p->nplain,
	    .loads = s->stretches.guards && !s->stretches.why,
	    .via = p->event && p->event->is_watch ? "watch" : NULL,
	};
}

const struct dp_ring_map *dp_session_rings(const struct dp_session *s)
{
	return &s->rings;
}

u64 dp_session_rings_inode(const struct dp_session *s)
{
	return s->rings_file.inode;
}

struct dp_process *dp_session_process(struct dp_session *s)
{
	return &s->proc;
}

pid_t dp_session_pid(const struct dp_session *s)
{
	return s->pid;
}

bool dp_session_alive(struct dp_session *s)
{
	struct pollfd p = {s->pidfd, POLLIN, 0};
	int status;

	if (s->reaped)
		return false;
	if (s->spawned && waitpid(s->pid, &status, WNOHANG) == s->pid) {
		s->exit_status = status;
		s->reaped = true;
		return false;
	}
	/* First: another process may have its number. */
	if (s->pidfd >= 0 ? poll(&p, 1, 0) != 0 : kill(s->pid, 0) && errno != EPERM)
		return false;
	/* A program that was started for this is waited for, whatever it becomes. */
	return !s->armed || s->spawned || dp_block_there(s->pid, s->control);
}

bool dp_session_status(const struct dp_session *s, int *status)
{
	if (s->reaped)
		*status = s->exit_status;
	return s->reaped;
}

void dp_session_stats(const struct dp_session *s, struct dp_session_stats *out)
{
	*out = s->stats;
}
