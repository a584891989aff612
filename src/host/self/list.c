/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The list of registered probes, in the form that the kernel shows in debugfs. */
#include "host/self/registry.h"
#include "host/self/self-priv.h"

/* For whoever looks from outside (src/cmd/list.c). */
__attribute__((visibility("default"))) const struct self_registry dp_self_registry = {
    SELF_REGISTRY_MAGIC, SELF_REGISTRY_VERSION, 0, (u64)&self_probes};

struct out {
	char *buf;
	size_t size, len;
};

static void put(struct out *o, const char *text)
{
	for (; *text; text++, o->len++)
		if (o->len + 1 < o->size)
			o->buf[o->len] = *text;
}

static void put_line(struct out *o, const struct self_probe *s)
{
	const struct dp_kpoint *p = s->k.point;
	const struct kprobe *kp = s->kp;
	char place[200], line[320];

	if (s->pending)
		dp_format(place, sizeof(place), "%s+0x%x", kp->symbol_name, kp->offset);
	else if (p->gone && kp->symbol_name)
		dp_format(place, sizeof(place), "%s+0x%x", kp->symbol_name, kp->offset);
	else
		self_describe(p->addr, place, sizeof(place));
	dp_format(line, sizeof(line), "%016llx  %c  %s%s%s%s%s%s\n",
		  (unsigned long long)(s->pending ? 0 : p->addr), s->type, place,
		  !s->pending && p->gone ? "  [GONE]" : "",
		  kp->flags & KPROBE_FLAG_DISABLED ? "  [DISABLED]" : "",
		  kp->flags & KPROBE_FLAG_OPTIMIZED ? "  [OPTIMIZED]" : "",
		  s->pending ? "  [PENDING]" : "",
		  kp->flags & KPROBE_FLAG_RET_EXITS     ? "  [EXITS]"
		  : kp->flags & KPROBE_FLAG_RET_CLASSIC ? "  [CLASSIC]"
							: "");
	put(o, line);
}

static void put_reversed(struct out *o, const struct self_probe *s)
{
	const struct self_probe *last = NULL;

	while (last != s) { /* oldest first; the list is kept newest first */
		const struct self_probe *t = s;

		while (t->next != last)
			t = t->next;
		put_line(o, t);
		last = t;
	}
}

__attribute__((visibility("default"))) int dp_kprobes_list(char *buf, size_t size)
{
	struct out o = {buf, size, 0};

	if (self_lock())
		return 0;
	put_reversed(&o, self_probes);
	if (size)
		buf[DP_MIN(o.len, size - 1)] = '\0';
	self_unlock();
	return (int)o.len;
}
