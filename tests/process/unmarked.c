/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Leave a process as a dprobes leaves it that is killed when a thread has just mapped a region for it: the code of the
 * call stands in the bytes that are borrowed for it, and behind it what was mapped. Usage: unmarked PID ADDRESS
 */
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "host/process/process-priv.h"

int main(int argc, char **argv)
{
	pid_t pid = argc > 2 ? atoi(argv[1]) : 0;
	u64 page = argc > 2 ? strtoull(argv[2], NULL, 16) / 4096 : 0, stub;
	u8 code[DP_STUB_CALL + 5];
	struct dp_maps maps;
	struct dp_mem mem;

	if (dp_maps_read(&maps, pid, NULL) || dp_mem_open(&mem, pid, NULL))
		return 1;
	stub = dp_find_slack(&maps, &mem);
	memcpy(code, dp_stub_call, DP_STUB_CALL);
	memcpy(code + DP_STUB_CALL, &page, 5);
	return !stub || dp_mem_write(&mem, stub, code, sizeof(code), NULL);
}
