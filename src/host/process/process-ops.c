/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The process host as a table of functions (host/host.h). Each hands over to the session. */
#include <stdio.h>

#include "host/process/process.h"
#include "symbols/symbolize.h"

static int add(void *s, struct dp_event_line *line, struct dp_error *err)
{
	return dp_session_add(s, line, err);
}

static int add_spec(void *s, const struct dp_probe_spec *spec, struct dp_error *err)
{
	return dp_session_add_spec(s, spec, err);
}

static int set_words(void *s, const u64 *values, u32 n, struct dp_error *err)
{
	return dp_session_set_words(s, values, n, err);
}

static int arm(void *s, struct dp_error *err)
{
	return dp_session_arm(s, err);
}

static bool adopt(void *s)
{
	return dp_session_adopt(s);
}

static void adopted(void *s, const pid_t *heirs, u32 n)
{
	dp_session_adopted(s, heirs, n);
}

static bool can_change(void *s, u32 *words)
{
	return dp_session_can_change(s, words);
}

static void permit(void *s, bool traps, int globals_fd)
{
	dp_session_permit(s, traps, globals_fd);
}

static bool fits(void *s)
{
	return dp_session_fits(s);
}

static void cancel(void *s)
{
	dp_session_cancel(s);
}

static void drop(void *s, u32 probe)
{
	dp_session_drop(s, probe);
}

static int pause_probe(void *s, u32 probe, bool pause)
{
	return dp_session_pause(s, probe, pause);
}

static int change(void *s, struct dp_error *err)
{
	return dp_session_change(s, err);
}

static bool groups(void *s, u32 *group)
{
	return dp_session_groups(s, group);
}

static void mark_out(void *s, u32 probe, bool out)
{
	dp_session_mark_out(s, probe, out);
}

static int take_marked_out(void *s, struct dp_error *err)
{
	return dp_session_take_out(s, err);
}

static u32 processes(void *s, pid_t **pids)
{
	return dp_session_processes(s, pids);
}

static volatile u64 *words(void *s)
{
	return dp_session_words(s);
}

static struct dp_apart apart(void *s)
{
	return dp_session_apart(s);
}

static u64 words_at(void *s)
{
	return dp_session_words_at(s);
}

static const struct dp_ring_map *rings(void *s)
{
	return dp_session_rings(s);
}

static u64 rings_inode(void *s)
{
	return dp_session_rings_inode(s);
}

static bool alive(void *s)
{
	return dp_session_alive(s);
}

static void tend(void *s)
{
	dp_session_tend(s);
}

static void tend_soon(void *s)
{
	dp_session_tend_pages(s);
	dp_session_present(s);
	dp_session_tend_stretches(s);
}

static void rest(void *s, u64 ns)
{
	dp_session_rest(s, ns);
}

static int take_out(void *s, struct dp_error *err)
{
	return dp_session_remove(s, err);
}

static u32 nprobes(void *s)
{
	return dp_session_nprobes(s);
}

static void probe(void *s, u32 i, struct dp_probe_info *out)
{
	dp_session_probe(s, i, out);
}

static void end(void *s)
{
	dp_session_free(s);
}

static int symbol(void *s, const char *name, u64 *addr, struct dp_error *err)
{
	return dp_session_symbol(s, name, addr, err);
}

static int base(void *s, const char *module, u64 *addr, struct dp_error *err)
{
	struct dp_image *im = dp_process_image(dp_session_process(s), module, err);

	if (im)
		*addr = im->bias;
	return im ? 0 : -ENOENT;
}

static int build_id(void *s, enum dp_module_kind kind, const char *module, char *id, size_t size, struct dp_error *err)
{
	struct dp_image *im = dp_process_image(dp_session_process(s), module, err);

	if (!im)
		return -ENOENT;
	snprintf(id, size, "%s", dp_module_identity(im->mod));
	return 0;
}

static bool symbolize(void *s, void **names, u64 addr, char *buf, size_t size)
{
	struct dp_process *p = dp_session_process(s);
	struct dp_image *im;

	if (!*names)
		*names = dp_symbolizer_new(p);
	if (*names && dp_symbolize(*names, addr, buf, size))
		return true;
	im = dp_process_image_at(p, addr);
	if (im) /* of a program without names: as MODULE:0x1234 probes it */
		snprintf(buf, size, "%s+0x%llx", dp_process_image_name(p, im), (unsigned long long)(addr - im->bias));
	return im;
}

static void free_names(void *names)
{
	dp_symbolizer_free(names);
}

static struct dp_process *process(void *s)
{
	return dp_session_process(s);
}

static pid_t pid(void *s)
{
	return dp_session_pid(s);
}

static bool status(void *s, int *status)
{
	return dp_session_status(s, status);
}

const struct dp_host_ops dp_process_ops = {
    .name = "process",
    .add = add,
    .add_spec = add_spec,
    .set_words = set_words,
    .arm = arm,
    .adopt = adopt,
    .adopted = adopted,
    .can_change = can_change,
    .permit = permit,
    .fits = fits,
    .cancel = cancel,
    .drop = drop,
    .pause = pause_probe,
    .change = change,
    .groups = groups,
    .mark_out = mark_out,
    .take_out = take_marked_out,
    .processes = processes,
    .words = words,
    .apart = apart,
    .words_at = words_at,
    .rings = rings,
    .rings_inode = rings_inode,
    .alive = alive,
    .tend = tend,
    .tend_soon = tend_soon,
    .rest = rest,
    .remove = take_out,
    .nprobes = nprobes,
    .probe = probe,
    .free = end,
    .symbol = symbol,
    .base = base,
    .build_id = build_id,
    .symbolize = symbolize,
    .free_names = free_names,
    .process = process,
    .pid = pid,
    .status = status,
};
