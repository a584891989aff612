/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * See core-text.h. The place is worked out from what the kernel was told (core(5)): of the names' parts only the id of
 * the process that had the core is known here; the others stay as they are in the pattern.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log/core-text.h"

static void read_line(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(text, (int)size, f))
		text[0] = '\0';
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = '\0';
}

/* %p and its like by the id; whether there was one. */
static bool with_id(const char *pattern, u32 pid, char *to, size_t size)
{
	size_t len = 0;
	bool has = false;

	for (const char *p = pattern; *p && len + 12 < size; p++) {
		if (p[0] == '%' && p[1] && strchr("pPiI", p[1])) {
			len += (size_t)snprintf(to + len, size - len, "%u", pid);
			has |= *++p == 'p';
		} else {
			to[len++] = *p;
		}
	}
	to[len] = '\0';
	return has;
}

static void tell_place(u32 process, u32 pid, char *text, size_t size)
{
	char pattern[160], uses[16], name[192], dir[256], link[64];
	ssize_t n;

	read_line("/proc/sys/kernel/core_pattern", pattern, sizeof(pattern));
	read_line("/proc/sys/kernel/core_uses_pid", uses, sizeof(uses));
	if (pattern[0] == '|') {
		pattern[1 + strcspn(pattern + 1, " ")] = '\0';
		snprintf(text, size, "the core of its copy %u went to %s", pid, pattern + 1);
		return;
	}
	if (!with_id(pattern, pid, name, sizeof(name) - 16) && uses[0] == '1')
		snprintf(name + strlen(name), 16, ".%u", pid);
	snprintf(link, sizeof(link), "/proc/%u/cwd", process);
	n = name[0] == '/' ? 0 : readlink(link, dir, sizeof(dir) - 2);
	dir[n > 0 ? n : 0] = '\0';
	snprintf(text, size, "core dumped: %s%s%s", dir, n > 0 ? "/" : "", name);
}

bool dp_core_text(const struct dp_rpn_head *head, char *text, size_t size)
{
	if (head->pad & DP_CORE_MADE)
		tell_place(head->pid, DP_CORE_PID(head->pad), text, size);
	else if (head->pad & DP_CORE_LIMITED)
		snprintf(text, size, "no core: its limit (ulimit -c) is 0; `exit 4` makes one all the same");
	else if (head->pad & DP_CORE_FAILED)
		snprintf(text, size, "no core was written");
	else
		return false;
	return true;
}
