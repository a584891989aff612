/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See user-stacks.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "abi/abi-device.h"
#include "abi/abi-unwind.h"
#include "host/kernel/user-stacks.h"
#include "symbols/sym-unwind.h"
#include "symbols/symbolize.h"

#define MOST 64 /* that the module takes */

static int by_start(const void *a, const void *b)
{
	const struct dp_unwind_module *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* A module that cannot be read ends the chains that reach it. */
static u32 tables_of(const struct dp_process *p, struct dp_unwind_module *v)
{
	u32 n = 0;

	for (size_t i = 0; i < p->nimages; i++) {
		const struct dp_image *im = &p->images[i];
		struct dp_unwind_row *rows;
		u32 nrows;

		if (dp_module_unwind(im->mod, &rows, &nrows, NULL))
			continue;
		if (!nrows) {
			free(rows);
			continue;
		}
		v[n] = (struct dp_unwind_module){
		    .lo = im->bias + dp_module_lowest(im->mod), .rows = (u64)rows, .n = nrows};
		v[n].hi = DP_MIN(im->hi, v[n].lo + 0xffffffffull);
		n++;
	}
	qsort(v, n, sizeof(*v), by_start);
	return n;
}

static int send_one(const struct dp_process *p, int fd, struct dp_error *err)
{
	struct dp_unwind_module *v = calloc(p->nimages + 1, sizeof(*v));
	struct dp_dev_unwind d = {.pid = p->pid, .modules = (u64)v};
	int r = 0;

	if (!v)
		return dp_fail(err, E_ARM_NOMEM, "unwind tables");
	d.nmodules = tables_of(p, v);
	if (d.nmodules && ioctl(fd, DP_DEV_UNWIND, &d))
		r = errno == ENOMEM ? dp_fail(err, E_ARM_NOMEM, "unwind tables")
				    : dp_fail(err, E_KERNEL_DEVICE, "unwind tables: %s", strerror(errno));
	for (u32 i = 0; i < d.nmodules; i++)
		free((void *)v[i].rows);
	free(v);
	return r;
}

int dp_user_stacks_send(struct dp_user_stacks *s, int fd, const s32 *pids, u32 npids, struct dp_error *err)
{
	int r = 0;

	npids = DP_MIN(npids, (u32)MOST);
	s->processes = calloc(npids + 1, sizeof(*s->processes));
	s->names = calloc(npids + 1, sizeof(struct symbolizer *));
	if (!s->processes || !s->names)
		return dp_fail(err, E_ARM_NOMEM, "unwind tables");
	for (u32 i = 0; i < npids && !r; i++) {
		struct dp_process *p = &s->processes[s->n];

		if (dp_process_read(p, pids[i], NULL)) /* it has ended, say */
			continue;
		s->n++;
		r = send_one(p, fd, err);
	}
	return r;
}

bool dp_user_stacks_name(struct dp_user_stacks *s, u64 addr, char *buf, size_t size)
{
	for (u32 i = 0; i < s->n; i++) {
		if (!dp_process_image_at(&s->processes[i], addr))
			continue;
		if (!s->names[i])
			s->names[i] = dp_symbolizer_new(&s->processes[i]);
		if (s->names[i] && dp_symbolize(s->names[i], addr, buf, size))
			return true;
	}
	return false;
}

void dp_user_stacks_free(struct dp_user_stacks *s)
{
	for (u32 i = 0; i < s->n; i++) {
		dp_symbolizer_free(s->names[i]);
		dp_process_free(&s->processes[i]);
	}
	free(s->names);
	free(s->processes);
	*s = (struct dp_user_stacks){0};
}
