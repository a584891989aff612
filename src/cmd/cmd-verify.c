/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes verify`: compares every executable mapping of a process with the file it comes from,
 * byte by byte. Independent of everything that puts probes: it reads /proc only.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "host/process/process.h"
#include "symbols/symbolize.h"
#include "symbols/symbols.h"

#define CHUNK 65536u
#define SHOWN 20      /* differences */
#define LONGEST_MS 64 /* a mapping that differs is looked at again after 1, 2, 4 ... milliseconds */

struct check {
	int mem;
	pid_t pid;
	bool quiet;
	struct dp_json *json; /* its places are open; NULL: text */
	struct symbolizer *symbolizer;
	u64 bytes, differing, places, mappings, unreadable, vanished;
	struct dp_standing *ours; /* probes of a dprobes: see whose */
	u32 nours;
	u64 known; /* of the places: those of these probes */
};

/* A jump begins at most this far before the instruction that is probed, and ends this far behind it. */
#define REACH 16

static bool is_ours(const struct check *c, u64 addr, u64 n)
{
	for (u32 i = 0; i < c->nours; i++)
		if (!c->ours[i].is_watch && addr < c->ours[i].addr + REACH && addr + n + REACH > c->ours[i].addr)
			return true;
	return false;
}

#define PLACE_BYTES 16 /* shown of a place */

static void json_place(struct dp_json *j, u64 addr, const char *where, const u8 *mem, const u8 *file, u64 n, bool known)
{
	dp_json_open(j, '{');
	dp_cmd_json_address(j, "address", addr);
	dp_json_put_string(j, "symbol", where);
	dp_json_key(j, "file");
	dp_json_hex(j, file, n);
	dp_json_key(j, "memory");
	dp_json_hex(j, mem, n);
	dp_json_put_bool(j, "probe", known);
	dp_json_close(j, '}');
}

static void tell_place(struct check *c, u64 addr, const u8 *mem, const u8 *file, u64 n)
{
	char where[300];

	bool known = is_ours(c, addr, n);

	c->known += known;
	if (c->places++ >= SHOWN || c->quiet)
		return;
	if (!dp_symbolize(c->symbolizer, addr, where, sizeof(where)))
		where[0] = '\0';
	if (c->json) {
		json_place(c->json, addr, where, mem, file, DP_MIN(n, (u64)PLACE_BYTES), known);
		return;
	}
	printf("%016llx %s: ", (unsigned long long)addr, dp_ui_clean(where));
	for (u64 i = 0; i < n && i < PLACE_BYTES; i++)
		printf("%02x", file[i]);
	printf(" in the file, ");
	for (u64 i = 0; i < n && i < PLACE_BYTES; i++)
		printf("%02x", mem[i]);
	printf(" in memory%s%s\n", n > PLACE_BYTES ? " ..." : "", known ? " (a probe of dprobes)" : "");
}

/* Places less than four bytes apart are shown as one. */
static void compare(struct check *c, u64 addr, const u8 *mem, const u8 *file, u64 n)
{
	u64 i = 0;

	while (i < n) {
		u64 end, last;

		if (mem[i] == file[i]) {
			i++;
			continue;
		}
		for (last = end = i; end < n && end - last < 4; end++) {
			if (mem[end] == file[end])
				continue;
			last = end;
			c->differing++;
		}
		tell_place(c, addr + i, mem + i, file + i, last + 1 - i);
		i = last + 1;
	}
}

/* The program may unmap a library while we look. */
static bool is_there(const struct check *c, const struct dp_map *map)
{
	struct dp_error err;
	struct dp_maps now;
	const struct dp_map *m;
	bool same;

	if (dp_maps_read(&now, c->pid, &err))
		return false;
	m = dp_maps_at(&now, map->lo);
	same = m && m->x && m->inode == map->inode && m->lo <= map->lo && m->hi >= map->hi &&
	       m->offset + (map->lo - m->lo) == map->offset;
	dp_maps_free(&now);
	return same;
}

enum outcome { SAME, DIFFERS, UNREADABLE };

/* tell: count and show what differs; else the first difference is enough. An error is left in errno. */
static enum outcome look(struct check *c, const struct dp_map *map, bool tell)
{
	static u8 mem[CHUNK], file[CHUNK];
	int fd = dp_map_open(c->pid, map), error = errno;
	enum outcome r = fd < 0 ? UNREADABLE : SAME;
	u64 bytes = 0;

	for (u64 at = map->lo; at < map->hi && r != UNREADABLE && (tell || r == SAME); at += CHUNK) {
		u64 n = DP_MIN(map->hi - at, (u64)CHUNK);
		ssize_t got = pread(c->mem, mem, n, (off_t)at);
		ssize_t want = pread(fd, file, n, (off_t)(map->offset + (at - map->lo)));

		error = errno;
		if (got <= 0 || want < 0) {
			r = UNREADABLE;
			break;
		}
		/* Behind the end of the file a mapping is zero up to the end of the page, then
		 * absent. */
		if (want < got)
			memset(file + want, 0, (size_t)(got - want));
		if (memcmp(mem, file, (size_t)got))
			r = DIFFERS;
		bytes += (u64)got;
		if (tell)
			compare(c, at, mem, file, (u64)got);
		if ((u64)want < n)
			break;
	}
	if (fd >= 0)
		close(fd);
	if (tell || r == SAME)
		c->bytes += bytes;
	errno = error;
	return r;
}

/* A library that is unmapped and mapped again at its old place meanwhile may seem to differ: it is looked at again. */
static void check_mapping(struct check *c, const struct dp_map *map)
{
	enum outcome r = look(c, map, false);

	for (u32 ms = 1; r != SAME && ms < LONGEST_MS; ms *= 2) {
		if (!is_there(c, map)) {
			c->vanished++;
			return;
		}
		usleep(ms * 1000);
		r = look(c, map, false);
	}
	if (r == DIFFERS)
		r = look(c, map, true);
	if (r != UNREADABLE) {
		c->mappings++;
		return;
	}
	c->unreadable++;
	if (!c->quiet)
		dp_ui_note("%s at %llx cannot be read: %s", map->path, (unsigned long long)map->lo, strerror(errno));
}

/* Whose the differences are, when they are all those of one dprobes. */
static void hint(const struct check *c, char *buf, size_t size)
{
	pid_t owner = c->nours ? c->ours[0].owner : 0;
	bool killed = owner > 0 && kill(owner, 0) && errno == ESRCH;
	char who[64];

	*buf = '\0';
	if (!c->places || c->known < c->places || !owner)
		return;
	for (u32 i = 1; i < c->nours; i++)
		if (c->ours[i].owner != owner) {
			snprintf(buf, size, "they are the probes of several dprobes: `dprobes list -p %d` names them",
				 c->pid);
			return;
		}
	if (killed)
		snprintf(buf, size,
			 "they are the probes of dprobes process %d, which was killed: "
			 "`dprobes clean -p %d` takes them away",
			 owner, c->pid);
	else
		snprintf(buf, size, "they are the probes of %s, which runs", dp_cmd_owner(owner, who, sizeof(who)));
}

static void json_begin(const struct check *c)
{
	dp_json_open(c->json, '{');
	dp_json_put_unsigned(c->json, "pid", (u64)c->pid);
	dp_json_key(c->json, "differences");
	dp_json_open(c->json, '[');
}

static void json_end(const struct check *c)
{
	const struct {
		const char *name;
		u64 n;
	} counts[] = {{"bytes", c->bytes},   {"mappings", c->mappings},     {"differing", c->differing},
		      {"places", c->places}, {"unreadable", c->unreadable}, {"unmapped", c->vanished}};

	dp_json_close(c->json, ']');
	for (u32 i = 0; i < DP_ARRAY_SIZE(counts); i++)
		dp_json_put_unsigned(c->json, counts[i].name, counts[i].n);
	dp_json_close(c->json, '}');
	dp_ui_json_end(c->json);
}

static int check_process(struct check *c)
{
	struct dp_process process;
	struct dp_error err = {0};
	char path[64], whose[200];

	if (dp_process_read(&process, c->pid, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	snprintf(path, sizeof(path), "/proc/%d/mem", c->pid);
	c->mem = open(path, O_RDONLY | O_CLOEXEC);
	if (c->mem < 0) {
		dp_process_free(&process);
		return dp_ui_fail(E_CMD_VERIFY, "run as root or as the owner of the process", "%s: %s", path,
				  strerror(errno));
	}
	if (c->json)
		json_begin(c);
	c->symbolizer = dp_symbolizer_new(&process);
	if (dp_standing_read(c->pid, &c->ours, &c->nours, &err))
		c->nours = 0;
	for (size_t i = 0; i < process.maps.n; i++) {
		const struct dp_map *map = &process.maps.v[i];

		if (map->x && map->inode && map->path[0] == '/')
			check_mapping(c, map);
	}
	dp_symbolizer_free(c->symbolizer);
	close(c->mem);
	dp_process_free(&process);
	if (c->json)
		json_end(c);
	hint(c, whose, sizeof(whose));
	free(c->ours);
	if (c->vanished && !c->quiet)
		dp_ui_note("%llu mappings were unmapped meanwhile", (unsigned long long)c->vanished);
	if (c->differing || c->unreadable)
		return c->quiet ? CMD_FAILED
				: dp_ui_fail(E_CMD_VERIFY, *whose ? whose : NULL,
					     "%llu bytes in %llu places; %llu mappings could not be read",
					     (unsigned long long)c->differing, (unsigned long long)c->places,
					     (unsigned long long)c->unreadable);
	if (!c->quiet && !c->json)
		printf("%llu bytes of code in %llu mappings: all as in the files\n", (unsigned long long)c->bytes,
		       (unsigned long long)c->mappings);
	return CMD_OK;
}

int dp_cmd_verify(int argc, char **argv)
{
	struct cmd_words w = {.most = 0};
	struct dp_line line = {0};
	struct dp_json json = {.line = &line};
	struct check c = {0};
	int status;

	if (!dp_cmd_words(VERB_VERIFY, argc, argv, &w, &status))
		return status;
	c.pid = w.pid;
	c.quiet = dp_cmd_has(&w, OPT_QUIET);
	c.json = dp_cmd_has(&w, OPT_JSON) && !c.quiet ? &json : NULL;
	if (!c.pid)
		return dp_ui_fail(E_CMD_MISSING, NULL, "no process: give one with -p");
	return check_process(&c);
}
