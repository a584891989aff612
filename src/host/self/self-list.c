/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The list of registered probes, in the form that the kernel shows in debugfs. */
#include "abi/abi-registry.h"
#include "host/self/self-priv.h"

/* For whoever looks from outside (src/cmd/cmd-list.c). */
__attribute__((visibility("default"))) const struct self_registry dp_self_registry = {
    SELF_REGISTRY_MAGIC, SELF_REGISTRY_VERSION, 0, (u64)&dp_self_kprobes.last};

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

static void put_line(struct out *o, const struct dp_registered *s)
{
	const struct dp_kpoint *p = s->k.point;
	const struct kprobe *kp = s->kp;
	char place[200], line[320];

	if (s->pending)
		dp_format(place, sizeof(place), "%s+0x%x", kp->symbol_name, kp->offset);
	else if (p->gone && kp->symbol_name)
		dp_format(place, sizeof(place), "%s+0x%x", kp->symbol_name, kp->offset);
	else
		dp_self_describe(p->addr, place, sizeof(place));
	dp_format(line, sizeof(line), "%016llx  %c  %s%s%s%s%s%s\n", (unsigned long long)(s->pending ? 0 : p->addr),
		  s->type, place, !s->pending && p->gone ? "  [GONE]" : "",
		  kp->flags & KPROBE_FLAG_DISABLED ? "  [DISABLED]" : "",
		  kp->flags & KPROBE_FLAG_OPTIMIZED ? "  [OPTIMIZED]" : "", s->pending ? "  [PENDING]" : "",
		  kp->flags & KPROBE_FLAG_RET_EXITS     ? "  [EXITS]"
		  : kp->flags & KPROBE_FLAG_RET_CLASSIC ? "  [CLASSIC]"
							: "");
	put(o, line);
}

__attribute__((visibility("default"))) int dp_kprobes_list(char *buf, size_t size)
{
	struct out o = {buf, size, 0};

	if (dp_self_lock())
		return 0;
	for (const struct dp_registered *s = dp_self_kprobes.first; s; s = s->next)
		put_line(&o, s);
	if (size)
		buf[DP_MIN(o.len, size - 1)] = '\0';
	dp_self_unlock();
	return (int)o.len;
}
