/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The trust border of the process host, from the inside: what is refused, and that what is sound passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/session-priv.h"

#define SIZE (4u << 20)
#define CONTROL (2u << 20)

struct world {
	u8 *region;
	struct dp_control *c;
	struct dp_patch *patches;
	struct dp_redirect *redirects;
	struct dp_range *areas;
	struct dp_point *points;
	struct dp_probe_rt *probes;
	struct dp_watch_rt *watches;
	struct dp_mem mem;
};

/* A block as the host writes it, in this process. */
static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct dp_control *c;
	u8 *at;

	w->region = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(w->region, MAP_FAILED);
	memcpy(w->region, dp_blob, dp_blob_size);
	w->c = c = (struct dp_control *)(w->region + CONTROL);
	at = w->region + CONTROL + 4096;
	*c = (struct dp_control){.magic = DP_CONTROL_MAGIC, .abi = DP_ABI, .self = (u64)c, .size = 8192, .nslots = 1, .state = DP_STATE_ARMED};
	c->region_lo = (u64)w->region;
	c->region_hi = c->region_lo + SIZE;
	c->slots = c->region_lo + (1u << 20);
	c->tids = c->region_lo + (3u << 20);
	c->npatches = c->nredirects = c->nhomes = c->nareas = 2;
	c->npoints = c->nprobes = c->nwatches = 1;
	w->patches = (struct dp_patch *)at;
	w->redirects = (struct dp_redirect *)(at + 256);
	w->areas = (struct dp_range *)(at + 512);
	w->points = (struct dp_point *)(at + 768);
	w->probes = (struct dp_probe_rt *)(at + 1024);
	w->watches = (struct dp_watch_rt *)(at + 2048);
	c->patches = (u64)w->patches;
	c->redirects = c->homes = (u64)w->redirects;
	c->areas = (u64)w->areas;
	c->points = (u64)w->points;
	c->probes = (u64)w->probes;
	c->watches = (u64)w->watches;
	w->patches[0] = (struct dp_patch){.addr = 0x5000, .len = 5};
	w->patches[1] = (struct dp_patch){.addr = 0x4000, .len = 1};
	w->redirects[0] = (struct dp_redirect){0x9000, 0x4000};
	w->redirects[1] = (struct dp_redirect){0x8000, 0x4000};
	w->areas[0] = (struct dp_range){0x10000, 0x12000};
	w->points[0] = (struct dp_point){.addr = 0x5000, .n = 1};
	w->watches[0] = (struct dp_watch_rt){.addr = 0x7000, .n = 1};
	assert_int_equal(dp_mem_open(&w->mem, getpid(), NULL), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	dp_mem_close(&w->mem);
	munmap(w->region, SIZE);
	free(w);
	return 0;
}

static enum dp_code refusal(struct world *w)
{
	struct dp_error err = {0};
	struct dp_block b;

	if (!dp_block_read(&b, &w->mem, (u64)w->c, &err))
		err.code = DP_OK;
	dp_block_free(&b);
	return err.code;
}

static void sound_blocks_pass(void **state)
{
	struct world *w = *state;
	struct dp_block b;

	assert_int_equal(dp_block_read(&b, &w->mem, (u64)w->c, NULL), 0);
	assert_int_equal(b.patches[0].addr, 0x4000); /* sorted */
	assert_int_equal(b.redirects[0].pc, 0x8000);
	assert_ptr_equal(dp_block_patch(&b, 0x5002), &b.patches[1]);
	assert_null(dp_block_patch(&b, 0x3fff));
	dp_block_free(&b);
	w->c->state = DP_STATE_EMPTY; /* its tables may not be there yet */
	w->c->patches = 8;
	assert_int_equal(refusal(w), DP_OK);
}

static void false_ones_are_refused(void **state)
{
	struct world *w = *state;
	struct dp_control good = *w->c;
	struct dp_patch patch = w->patches[1];
	struct dp_blob_head *head = (struct dp_blob_head *)w->region, head_good = *head;

#define REFUSED(change, code)                               \
	do {                                                \
		w->c->change;                               \
		assert_int_equal(refusal(w), code);         \
		*w->c = good;                               \
	} while (0)
	REFUSED(magic++, E_ARM_EXEC);
	REFUSED(self += 8, E_ARM_EXEC);
	REFUSED(abi++, E_ARM_EXEC);
	REFUSED(region_lo = 0, E_TARGET_MEM);
	REFUSED(region_lo += 4096, E_TARGET_DAMAGED);
	REFUSED(region_hi = ~0ull, E_TARGET_DAMAGED);
	REFUSED(region_hi = good.region_lo, E_TARGET_DAMAGED);
	REFUSED(nslots = 3, E_TARGET_DAMAGED);
	REFUSED(nslots = 1u << 31, E_TARGET_DAMAGED);
	REFUSED(slots = good.region_hi, E_TARGET_DAMAGED);
	REFUSED(tids = 1, E_TARGET_DAMAGED);
	REFUSED(jit_hi = ~0ull, E_TARGET_DAMAGED);
	REFUSED(copies_lo = 4096, E_TARGET_DAMAGED);
	REFUSED(rings = 4096, E_TARGET_DAMAGED);
	REFUSED(rings_hi = 4096, E_TARGET_DAMAGED);
	REFUSED(state = 3, E_TARGET_DAMAGED);
	REFUSED(owner_pid = ~0u, E_TARGET_DAMAGED);
	REFUSED(nwatches = ~0u, E_TARGET_DAMAGED);
	REFUSED(npages = 65, E_TARGET_DAMAGED);
	REFUSED(npatches = ~0u, E_TARGET_DAMAGED);
	REFUSED(nredirects = 1u << 24, E_TARGET_DAMAGED);
	REFUSED(patches = 4096, E_TARGET_DAMAGED);
	REFUSED(areas = good.region_hi - 16, E_TARGET_DAMAGED);
	REFUSED(nprobes = 0, E_TARGET_DAMAGED);
#undef REFUSED
#define REFUSED(what, good)                                 \
	do {                                                \
		what;                                       \
		assert_int_equal(refusal(w), E_TARGET_DAMAGED); \
		good;                                       \
		assert_int_equal(refusal(w), DP_OK);        \
	} while (0)
	REFUSED(w->patches[1].len = 0, w->patches[1] = patch);
	REFUSED(w->patches[1].len = 2, w->patches[1] = patch);
	REFUSED(w->patches[1].len = 255, w->patches[1] = patch);
	REFUSED(w->patches[1].bounds = 0x20, w->patches[1] = patch);
	REFUSED(w->patches[1].addr = 1ull << 63, w->patches[1] = patch);
	REFUSED(w->redirects[0].to = 1ull << 47, w->redirects[0].to = 0x4000);
	REFUSED(w->areas[0].hi = 0x10800, w->areas[0].hi = 0x12000);
	REFUSED(w->areas[0].lo = 0x13000, w->areas[0].lo = 0x10000);
	REFUSED(w->points[0].first = ~0u, w->points[0].first = 0);
	REFUSED(w->points[0].n = 2, w->points[0].n = 1);
	REFUSED(w->watches[0].n = ~0u, w->watches[0].n = 1);
	REFUSED(head->end = ~0u, *head = head_good);
	REFUSED(head->service_end = 0, *head = head_good);
#undef REFUSED
}

static void lists_end(void **state)
{
	u32 left = DP_WALK_STEPS, n = 0;
	struct dp_walk a, b;

	(void)state;
	dp_walk_begin(&a, &left);
	for (u64 at = 1; dp_walk_to(&a, at); at = at == 7 ? 3 : at + 1) /* a circle that does not begin at the beginning */
		n++;
	assert_in_range(n, 7, 30);
	n = 0;
	dp_walk_begin(&a, &left);
	for (u64 i = 1; dp_walk_to(&a, i); i++) { /* each with a long list of its own */
		dp_walk_begin(&b, &left);
		for (u64 k = 1; k < 1000 && dp_walk_to(&b, k); k++)
			n++;
	}
	assert_true(n < DP_WALK_STEPS);
	assert_int_equal(left, 0);
}

static void threads_are_the_process_s_own(void **state)
{
	pid_t child = fork();

	(void)state;
	if (!child) {
		pause();
		_exit(0);
	}
	assert_int_equal(dp_thread_of(getpid(), (u32)getpid()), getpid());
	assert_int_equal(dp_thread_of(child, (u32)child), child);
	assert_int_equal(dp_thread_of(child, (u32)getpid()), 0);
	assert_int_equal(dp_thread_of(child, 1), 0);
	assert_int_equal(dp_thread_of(child, ~0u), 0);
	assert_int_equal(dp_thread_of(child, 0), 0);
	assert_false(dp_thread_is_of(child, getpid()));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static int open_mapping(int fd, u64 size)
{
	void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	struct stat st;
	int got;

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(fstat(fd, &st), 0);
	got = dp_open_rings(getpid(), (u64)p, (u64)p + size, st.st_dev, st.st_ino);
	munmap(p, size);
	if (got >= 0)
		close(got);
	return got;
}

/* What a process has mapped need not be what we take it for. */
static void other_files_are_no_rings(void **state)
{
	int memory = dp_memory_file(65536, NULL), open_end = memfd_create("dprobes-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING), fd;
	char name[] = "/tmp/dp-untrusted-XXXXXX";
	u64 before;
	struct stat st;

	(void)state;
	if (access("/proc/self/map_files", X_OK) || geteuid()) {
		print_message("# following map_files takes root\n");
		skip();
	}
	assert_true(memory >= 0);
	assert_true(open_mapping(memory, 65536) >= 0);
	assert_int_equal(ftruncate(open_end, 65536), 0);
	assert_int_equal(open_mapping(open_end, 65536), -1); /* anybody can make it shorter */
	close(open_end);
	assert_int_equal(open_mapping(memory, 65536 * 2), -1); /* shorter than what is mapped */
	fd = mkstemp(name);
	unlink(name);
	assert_int_equal(ftruncate(fd, 65536), 0);
	assert_int_equal(fstat(fd, &st), 0);
	before = (u64)st.st_size;
	assert_int_equal(open_mapping(fd, 65536), -1); /* a file of the disk */
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, before);
	close(fd);
	fd = open("/dev/zero", O_RDWR | O_CLOEXEC); /* a device */
	assert_int_equal(open_mapping(fd, 65536), -1);
	close(fd);
	assert_int_equal(dp_open_rings(getpid(), 4096, 8192, 0, 0), -1);
	close(memory);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(sound_blocks_pass),
	    TEST(false_ones_are_refused),
	    cmocka_unit_test(lists_end),
	    cmocka_unit_test(threads_are_the_process_s_own),
	    cmocka_unit_test(other_files_are_no_rings),
	};

	return cmocka_run_group_tests_name("untrusted", tests, NULL, NULL);
}
