/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The format ctf: what writes it (part-ctf.c) is a part of its own, since babeltrace2 brings other libraries along. */
#include "base/part.h"
#include "log/format.h"
#include "log/sinks.h"
#include "log/sinks/ctf.h"

static const struct dp_ctf_part *load(const char **why)
{
	return dp_part_load("ctf", "log", why);
}

static const char *missing(void)
{
	const char *why;

	return load(&why) ? NULL : why;
}

const char *dp_format_ctf_writer(void)
{
	const char *why;
	const struct dp_ctf_part *part = load(&why);

	return part ? part->version() : NULL;
}

/* From here on the sink is the part's; who opens it has asked whether it is missing. */
static bool open(struct dp_sink *s, const struct dp_format_env *env)
{
	const char *why;
	const struct dp_ctf_part *part = load(&why);

	if (!part)
		return false;
	s->ops = part->ops;
	return s->ops->open(s, env);
}

const struct dp_sink_ops dp_sink_ctf = {
    .open = open,
    .is_directory = true,
    .missing = missing,
};
