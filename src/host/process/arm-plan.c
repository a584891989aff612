/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What arming, extend.c and change.c ask of a plan before anything is changed: which addresses are free, of which files
 * the patches are, whether these bytes stand in the process, and what came of each probe.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/process/arm-priv.h"

#define PAGE 4096ull
#define MiB (1024 * 1024ull)
#define LOOKS 8                 /* at a module that may come and go, 1 ms apart, before a difference is believed */
#define HEAP_MARGIN (512 * MiB) /* room that the heap may grow into */
#define STACK_MARGIN (256 * MiB)

/* Everything that is in use or that the program may grow into. */
int dp_arm_mark_busy(struct dp_space *space, const struct dp_maps *maps, const struct dp_process *proc)
{
	int r = dp_space_busy(space, 0, 65536);
	u64 exe_hi = 0;

	for (size_t i = 0; i < proc->nimages; i++)
		if (proc->images[i].is_exe)
			exe_hi = proc->images[i].hi;
	for (size_t i = 0; i < maps->n && !r; i++) {
		const struct dp_map *m = &maps->v[i];
		u64 lo = m->lo, hi = m->hi;

		if (!strcmp(m->path, "[heap]") || m->hi == exe_hi)
			hi += HEAP_MARGIN;
		if (!strcmp(m->path, "[stack]"))
			lo -= STACK_MARGIN;
		if (lo < 1ull << 47)
			r = dp_space_busy(space, lo, hi);
	}
	return r ? r : dp_space_busy(space, (1ull << 47) - PAGE, ~0ull);
}

void dp_arm_entries(struct arming *a)
{
	const struct dp_blob_head *head = (const struct dp_blob_head *)dp_blob;
	u64 region = a->s->region;

	a->entries[DP_ENTRY_PLAIN] = region + head->entry_plain;
	a->entries[DP_ENTRY_FLAGS] = region + head->entry_flags;
	a->entries[DP_ENTRY_ZONE] = region + head->entry_zone;
	a->entries[DP_ENTRY_ZONE_FLAGS] = region + head->entry_zone_flags;
}

/* Whether the others may do without it. What is armed already is not left out. */
static bool is_optional(const struct dp_session *s, const struct dp_probe *p)
{
	return (p->from_pattern || s->opt.skip_refused) && (!s->armed || p->fresh);
}

/* Those of patterns are many: they are counted. */
static void tell_dropped(struct dp_session *s)
{
	const struct dp_probe *last = NULL;
	u32 dropped = 0, all = 0;

	for (u32 i = 0; i < s->nprobes; i++) {
		const struct dp_probe *p = &s->probes[i];

		all += p->from_pattern;
		if (p->dropped && p->from_pattern) {
			dropped++;
			last = p;
		} else if (p->dropped) {
			dp_session_say(s, "left out in process %d: %s:%s+0x%llx: %s: %s", (int)s->pid, p->module,
				       p->symbol, (unsigned long long)p->offset, dp_error_info(p->why)->name,
				       dp_error_info(p->why)->sentence);
		}
	}
	if (last)
		dp_session_say(s, "%u of %u functions left out (the last one: %s: %s)", dropped, all,
			       dp_error_info(last->why)->name, dp_error_info(last->why)->sentence);
}

/* A spot that could not be planned takes its probe with it; where the others cannot do without it, it is an error. */
int dp_arm_settle(struct dp_session *s, const struct dp_spot *spots, u32 n, struct dp_error *err)
{
	u32 left = 0;

	for (u32 i = 0; i < s->nprobes; i++)
		if (!s->armed || s->probes[i].fresh)
			s->probes[i].outcome = DP_OUTCOME_JUMP;
	for (u32 i = 0; i < n; i++) {
		const struct dp_spot *sp = &spots[i];
		struct dp_probe *p = dp_spot_probe(s, sp);

		if (sp->outcome < p->outcome) {
			p->outcome = sp->outcome;
			p->why = sp->why;
		}
		if (sp->outcome != DP_OUTCOME_REFUSED)
			continue;
		if (!is_optional(s, p)) {
			int r = dp_fail(err, E_ARM_SITE, "%s:%s+0x%llx (0x%llx): %s: %s", p->module,
					p->symbol ? p->symbol : "", (unsigned long long)p->offset,
					(unsigned long long)sp->addr, dp_error_info(sp->why)->name,
					dp_error_info(sp->why)->sentence);

			dp_error_hint(err, "%s", dp_error_info(sp->why)->hint);
			return r;
		}
		p->dropped = true;
	}
	if (s->armed)
		return 0;
	for (u32 i = 0; i < s->nprobes; i++)
		left += !s->probes[i].dropped;
	tell_dropped(s);
	return left ? 0 : dp_fail(err, E_ARM_NONE, "process %d", (int)s->pid);
}

static void hex(char *out, const u8 *v, u32 n)
{
	for (u32 i = 0; i < n; i++)
		sprintf(out + 3 * i, "%02x ", v[i]);
	out[3 * n - 1] = '\0';
}

/*
 * Of two modules that take each other's place, the image that was looked at: both may be known, since the maps are not
 * read in one moment.
 */
static const struct dp_image *image_of(const struct dp_process *proc, const struct dp_planned *p)
{
	for (size_t i = 0; i < proc->nimages; i++) {
		const struct dp_image *im = &proc->images[i];
		const struct dp_text *text;

		if (im->bias == p->bias && p->start >= im->lo && p->start < im->hi &&
		    !dp_module_text(im->mod, p->start - im->bias, &text, NULL) && text == p->text)
			return im;
	}
	return NULL;
}

/*
 * Threads come to guards with all signals blocked, where a breakpoint ends the process as soon as nobody traces it. So
 * these patches are never written while threads run, like those in code that may be unmapped.
 */
static void rest_at_guards(struct dp_plan *plan, const struct dp_spot *spots, u32 n)
{
	for (u32 i = 0; i < n; i++) {
		size_t k = DP_COUNT_UP_TO(plan->patches, plan->npatches, start, spots[i].addr);

		if (spots[i].owner >= DP_GUARD_OWNER && k)
			plan->patches[k - 1].patch.file &= ~DP_FILE_STAYS;
	}
}

void dp_arm_name_files(struct dp_plan *plan, struct dp_process *proc, const struct dp_spot *spots, u32 n)
{
	dp_process_find_lasting(proc);
	for (u32 i = 0; i < plan->npatches; i++) {
		const struct dp_image *im = image_of(proc, &plan->patches[i]);

		plan->patches[i].patch.file = im ? dp_image_file(im, plan->patches[i].start) : 0;
	}
	rest_at_guards(plan, spots, n);
}

static bool has_file(const struct dp_maps *maps, const struct dp_planned *p)
{
	return dp_code_file(maps, p->start) == (p->patch.file & ~DP_FILE_STAYS);
}

static int check_patch(struct dp_mem_look *look, const struct dp_patches *old, const struct dp_planned *p,
		       struct dp_error *err)
{
	u32 n = p->patch.len == 1 ? 1 : dp_window_reach(&p->win);
	char is[3 * 8], was[3 * 8];
	const u8 *now = dp_mem_look(look, p->start, n, err);
	u8 want[256];

	if (!now)
		return -EIO;
	memcpy(want, p->text->bytes + (p->win.start - p->text->lo), n);
	dp_patches_overlay(old, p->start, want, n);
	if (!memcmp(now, want, n))
		return 0;
	hex(is, now, DP_MIN(n, 8u));
	hex(was, want, DP_MIN(n, 8u));
	return dp_fail(err, E_SITE_FOREIGN, "at 0x%llx: %s there, %s in the file", (unsigned long long)p->start, is,
		       was);
}

/*
 * The code in memory must be the file's code, with those of our patches that are to go: somebody else's patch cannot be
 * combined with ours. And the file must be
 * the one that was looked at. The program may have unmapped it since, or between two of our looks: then the bytes say
 * nothing about anybody's patch.
 */
int dp_arm_check_bytes(struct arming *a, struct dp_error *err)
{
	struct dp_mem_look look = {.mem = &a->mem};

	for (u32 i = 0; i < a->plan->npatches; i++) {
		const struct dp_planned *p = &a->plan->patches[i];
		bool there = has_file(&a->now, p);
		int r = there ? check_patch(&look, &a->old, p, err) : -EAGAIN;

		if (i % DP_MANY_PATCHES == DP_MANY_PATCHES - 1)
			dp_process_rest(&a->s->proc, false);
		for (u32 k = 0; r && there && !(p->patch.file & DP_FILE_STAYS) && k < LOOKS; k++) {
			struct dp_maps maps;

			usleep(1000);
			r = dp_maps_read(&maps, a->s->pid, err);
			if (r)
				return r;
			there = has_file(&maps, p);
			dp_maps_free(&maps);
			look = (struct dp_mem_look){.mem = &a->mem}; /* what was seen before is old */
			r = check_patch(&look, &a->old, p, err);
		}
		if (!there)
			return dp_fail(err, E_ARM_MOVED, "at 0x%llx", (unsigned long long)p->start);
		if (r)
			return r;
	}
	return 0;
}
