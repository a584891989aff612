/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Run-time addresses to names, through the images of one process. */
#include <string.h>

#include "symbols/symbolize.h"

#define CACHED 1024 /* a power of two */

struct known {
	u64 addr;
	u64 offset;
	char *name; /* NULL: nothing is known about the address */
	bool used;
};

struct symbolizer {
	struct dp_process *process;
	struct known cache[CACHED];
};

struct symbolizer *dp_symbolizer_new(struct dp_process *process)
{
	struct symbolizer *s = dp_alloc(sizeof(*s));

	if (s)
		s->process = process;
	return s;
}

void dp_symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	for (u32 i = 0; i < CACHED; i++)
		dp_free(s->cache[i].name);
	dp_free(s);
}

static void look_up(struct symbolizer *s, struct known *k, u64 addr)
{
	struct dp_image *image = dp_process_image_at(s->process, addr);
	char text[DP_SHOWN_MAX];
	struct dp_symbol sym;
	const char *shown;

	dp_free(k->name);
	*k = (struct known){.addr = addr, .used = true};
	if (!image || !dp_module_symbol_at(image->mod, addr - image->bias, &sym) || !sym.name[0])
		return;
	shown = dp_symbol_shown(sym.name, false, text, sizeof(text));
	k->name = dp_alloc(strlen(shown) + 1);
	if (k->name)
		strcpy(k->name, shown);
	k->offset = addr - image->bias - sym.addr;
}

bool dp_symbolize(void *arg, u64 addr, char *buf, size_t size)
{
	struct symbolizer *s = arg;
	struct known *k;

	if (!s)
		return false;
	k = &s->cache[(addr ^ addr >> 12) % CACHED];
	if (!k->used || k->addr != addr)
		look_up(s, k, addr);
	if (!k->name)
		return false;
	dp_format(buf, size, "%s+0x%llx", k->name, (unsigned long long)k->offset);
	return true;
}
