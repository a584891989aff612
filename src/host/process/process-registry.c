/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What libdprobes keeps in a process for others to find: a structure of known name. Only looks. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "host/process/process.h"

bool dp_process_peek(pid_t pid, u64 addr, void *buf, size_t n)
{
	struct iovec to = {buf, n}, from = {(void *)addr, n};

	return process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)n;
}

/* A name may end close to memory that is not there. */
void dp_process_peek_name(pid_t pid, u64 addr, char *buf, size_t size)
{
	size_t n = 0;

	/* Not beyond a page at a time: the next one may be missing. */
	while (addr && n + 1 < size) {
		size_t more = DP_MIN(size - 1 - n, (size_t)(4096 - ((addr + n) & 4095)));

		if (!dp_process_peek(pid, addr + n, buf + n, more))
			break;
		if (memchr(buf + n, '\0', more))
			return;
		n += more;
	}
	buf[n] = '\0';
}

int dp_process_registry(struct dp_process *proc, const char *name, u64 magic, u32 version, void *buf, size_t size,
			bool *found, struct dp_error *err)
{
	struct dp_symbol sym;
	u64 is_magic;
	u32 is_version;

	*found = false;
	for (size_t i = 0; i < proc->nimages; i++) {
		struct dp_image *im = &proc->images[i];

		if (dp_module_symbol(im->mod, name, &sym, NULL))
			continue;
		if (!dp_process_peek(proc->pid, sym.addr + im->bias, buf, size))
			return dp_fail(err, E_TARGET_PERM, "%d: %s", (int)proc->pid, strerror(errno));
		memcpy(&is_magic, buf, sizeof(is_magic));
		memcpy(&is_version, (char *)buf + sizeof(is_magic), sizeof(is_version));
		if (is_magic != magic || is_version != version)
			return dp_fail(err, E_CMD_LIST, "%s", dp_module_path(im->mod));
		*found = true;
	}
	return 0;
}
