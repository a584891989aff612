/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The kernel's own event tracer: uprobe events in tracefs, in a trace instance of our own whose
 * ring overwrites the oldest, so that nothing need be read while it is measured.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

#define BUFFER_KB "1024" /* per processor, as ours */

static char root[64]; /* "" when not there */
static char instance[128];
static bool mounted;

struct tracefs {
	int n;
};

static int write_file(const char *path, const char *text, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags);
	int r = -1;

	if (fd < 0)
		return -1;
	if (write(fd, text, strlen(text)) == (ssize_t)strlen(text))
		r = 0;
	int keep = errno;
	close(fd);
	errno = keep;
	return r;
}

static bool try_root(const char *path)
{
	char file[128];

	snprintf(file, sizeof(file), "%s/uprobe_events", path);
	if (access(file, W_OK))
		return false;
	snprintf(root, sizeof(root), "%s", path);
	return true;
}

static int begin(char *why)
{
	char path[256];

	if (instance[0])
		return 0;
	if (!try_root("/sys/kernel/tracing") && !try_root("/sys/kernel/debug/tracing")) {
		if (mount("nodev", "/sys/kernel/tracing", "tracefs", 0, NULL)) {
			snprintf(why, WHY_SIZE, "tracefs is not mounted and cannot be: %s", strerror(errno));
			return -1;
		}
		mounted = true;
		if (!try_root("/sys/kernel/tracing")) {
			snprintf(why, WHY_SIZE, "tracefs has no uprobe_events");
			return -1;
		}
	}
	snprintf(instance, sizeof(instance), "%s/instances/bench%d", root, (int)getpid());
	if (mkdir(instance, 0700)) {
		snprintf(why, WHY_SIZE, "no trace instance: %s", strerror(errno));
		instance[0] = '\0';
		return -1;
	}
	snprintf(path, sizeof(path), "%s/buffer_size_kb", instance);
	write_file(path, BUFFER_KB, 0);
	return 0;
}

void bench_tracefs_end(void)
{
	if (instance[0])
		rmdir(instance);
	instance[0] = '\0';
	if (mounted)
		umount("/sys/kernel/tracing");
	mounted = false;
}

static void enable(int k, bool on)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/events/bench/b%d_%d/enable", instance, (int)getpid(), k);
	write_file(path, on ? "1" : "0", 0);
}

static void detach(struct bench_contender *c)
{
	struct tracefs *s = c->state;
	char path[128], line[128];

	snprintf(path, sizeof(path), "%s/uprobe_events", root);
	for (int i = 0; i < s->n; i++) {
		enable(i, false);
		snprintf(line, sizeof(line), "-:bench/b%d_%d", (int)getpid(), i);
		write_file(path, line, O_APPEND);
	}
	free(s);
	c->state = NULL;
}

/* text: the definitions' letter and arguments, one a line; "|filter" behind the last sets a filter on it. */
static int attach(struct bench_contender *c, const struct bench_target *t, const struct bench_place *p, char *why)
{
	struct tracefs *s;
	char text[512], path[256], line[1024], *filter, *save, *def;

	(void)t;
	if (begin(why))
		return -1;
	c->state = s = calloc(1, sizeof(*s));
	snprintf(text, sizeof(text), "%s", c->text);
	filter = strchr(text, '|');
	if (filter)
		*filter++ = '\0';
	for (def = strtok_r(text, "\n", &save); def; def = strtok_r(NULL, "\n", &save)) {
		snprintf(path, sizeof(path), "%s/uprobe_events", root);
		snprintf(line, sizeof(line), "%c:bench/b%d_%d %s:0x%llx%s", def[0], (int)getpid(), s->n, p->path,
			 (unsigned long long)p->offset, def + 1);
		if (write_file(path, line, O_APPEND)) {
			snprintf(why, WHY_SIZE, "uprobe_events does not take '%.120s': %s", line, strerror(errno));
			detach(c);
			return -1;
		}
		if (filter) {
			snprintf(path, sizeof(path), "%s/events/bench/b%d_%d/filter", instance, (int)getpid(), s->n);
			if (write_file(path, filter, 0))
				fprintf(stderr, "bench: no filter: %s\n", strerror(errno));
		}
		enable(s->n++, true);
	}
	return 0;
}

static bench_u64 hits(struct bench_contender *c)
{
	char path[128], line[1024], ours[32];
	bench_u64 sum = 0;
	FILE *f;

	(void)c;
	snprintf(path, sizeof(path), "%s/uprobe_profile", root);
	snprintf(ours, sizeof(ours), "b%d_", (int)getpid());
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		char file[700], event[128];
		unsigned long long n;

		if (sscanf(line, "%699s %127s %llu", file, event, &n) == 3 && !strncmp(event, ours, strlen(ours)))
			sum += n;
	}
	if (f)
		fclose(f);
	return sum;
}

#define FOUR " a=%di b=%si c=%dx d=%cx"

struct bench_contender bench_tracefs[] = {
    {.name = "uprobe, tracefs false filter",
     .job = JOB_FILTER,
     .attach = attach,
     .detach = detach,
     .hits = hits,
     .text = "p a=%di:u64|a > 140737488355327",
     .hits_per_call = 1},
    {.name = "uprobe, tracefs event, 4 arguments",
     .job = JOB_RECORD,
     .attach = attach,
     .detach = detach,
     .hits = hits,
     .text = "p" FOUR,
     .hits_per_call = 1},
    {.name = "uprobe, tracefs event, 4 words of the heap",
     .job = JOB_WORDS,
     .attach = attach,
     .detach = detach,
     .hits = hits,
     .text = "p a=+0(%si):u64 b=+8(%si):u64 c=+16(%si):u64 d=+24(%si):u64",
     .hits_per_call = 1,
     .places = 1 << FUNC_NOP5 | 1 << FUNC_PUSH},
    {.name = "uprobe, tracefs event, string",
     .job = JOB_STRING,
     .attach = attach,
     .detach = detach,
     .hits = hits,
     .text = "p s=+0(%di):string",
     .hits_per_call = 1,
     .places = 1 << FUNC_NOP5 | 1 << FUNC_PUSH},
    {.name = "uprobe + uretprobe, tracefs events",
     .job = JOB_PAIR,
     .attach = attach,
     .detach = detach,
     .hits = hits,
     .text = "p"
	     "\n"
	     "r",
     .hits_per_call = 2},
};
const size_t bench_tracefs_n = sizeof(bench_tracefs) / sizeof(bench_tracefs[0]);
