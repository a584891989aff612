/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * vanish MODE... : threads call look() and look_again() with addresses in memory that others take away and bring back.
 * SIGSEGV is blocked, so whoever loads at the wrong moment ends the process. Modes: unmap, protect, move, shrink, raw
 * (by an instruction of its own), call (by syscall()), fork, signal (a handler takes memory away), load (a library,
 * when SIGUSR1 comes). At the end of input it prints how often look() was called.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 8
#define BLOCK 65536ul
#define READERS 3

/* Nobody touches the blocks but by hits. Others must not be mapped where one has just been: none of that size are. */
static char *block[BLOCKS], *away, *volatile top;
static atomic_ulong total;
static atomic_bool over, asked;
static pthread_barrier_t all;
static pthread_mutex_t shrinking = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline, noclone)) void look(const char *at)
{
	__asm__ volatile("nopl 0(%%rax, %%rax)" : : "r"(at) : "memory");
}

/* For programs that read in another way. */
__attribute__((noinline, noclone)) void look_again(const char *at)
{
	__asm__ volatile("nopw 0(%%rax, %%rax)" : : "r"(at) : "memory");
}

static uint64_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ul + 1442695040888963407ul;
	return *seed >> 33;
}

static long raw(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long result = nr;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static void renew(int i)
{
	mmap(block[i], BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void unmap(int i)
{
	munmap(block[i], BLOCK);
	renew(i);
}

static void protect(int i)
{
	mprotect(block[i], BLOCK, PROT_NONE);
	mprotect(block[i], BLOCK, PROT_READ | PROT_WRITE);
}

static void move(int i)
{
	mremap(block[i], BLOCK, BLOCK, MREMAP_MAYMOVE | MREMAP_FIXED, away);
	renew(i);
}

static void shrink(int i)
{
	(void)i;
	pthread_mutex_lock(&shrinking);
	sbrk(-(intptr_t)BLOCK);
	sbrk((intptr_t)BLOCK);
	pthread_mutex_unlock(&shrinking);
}

static void by_own_instruction(int i)
{
	raw(SYS_munmap, (long)block[i], BLOCK, 0, 0, 0, 0);
	raw(SYS_mmap, (long)block[i], BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void by_syscall(int i)
{
	syscall(SYS_munmap, block[i], BLOCK);
	syscall(SYS_mmap, block[i], BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void read_for_a_while(uint64_t *seed, int n)
{
	while (n--) {
		uint64_t v = next(seed);
		const char *at = v % 16 ? block[v / 16 % BLOCKS] + v % BLOCK / 8 * 8 : top - BLOCK + v % BLOCK / 8 * 8;

		look(at);
		look_again(at);
	}
}

static void by_fork(int i)
{
	uint64_t seed = (uint64_t)i + 1;
	pid_t pid = fork();

	if (pid == 0) {
		for (int k = 0; k < 20; k++) {
			munmap(block[i], BLOCK);
			read_for_a_while(&seed, 500);
			renew(i);
		}
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, &i, 0) < 0)
		;
	if (!WIFEXITED(i) || WEXITSTATUS(i)) {
		fprintf(stderr, "a child ended with status %x\n", i);
		abort();
	}
	usleep(1000);
}

/* Code that is not known comes, when that is asked for. */
static void load(int i)
{
	if (asked)
		dlopen("libm.so.6", RTLD_NOW);
	unmap(i);
}

static const struct {
	const char *name;
	void (*make)(int i);
} modes[] = {
    {"unmap", unmap},  {"protect", protect},        {"move", move},       {"shrink", shrink},
    {"fork", by_fork}, {"raw", by_own_instruction}, {"call", by_syscall}, {"load", load},
};

static int mode(const char *name)
{
	for (int i = 0; i < (int)(sizeof(modes) / sizeof(modes[0])); i++)
		if (!strcmp(name, modes[i].name))
			return i;
	return -1;
}

static unsigned changers(int argc, char **argv)
{
	unsigned n = 0;

	for (int k = 1; k < argc; k++)
		n += mode(argv[k]) >= 0;
	return n;
}

static void on_alarm(int sig)
{
	(void)sig;
	unmap(0);
}

static void on_request(int sig)
{
	(void)sig;
	asked = true;
}

static void *reader(void *arg)
{
	uint64_t seed = (uintptr_t)arg * 77 + 5;
	unsigned long n = 0;

	pthread_barrier_wait(&all);
	for (; !over; n += 1000)
		read_for_a_while(&seed, 1000);
	total += n;
	return NULL;
}

static void *changer(void *arg)
{
	void (*const make)(int) = modes[(uintptr_t)arg].make;
	uint64_t seed = (uintptr_t)arg;

	pthread_barrier_wait(&all);
	/* Each kind of change has blocks of its own, and pauses: in between they are there to be read. */
	for (unsigned n = 0; !over; n++) {
		make((int)(uintptr_t)arg % BLOCKS);
		if (next(&seed) % 64 == 0)
			usleep(n % 8 ? 2000 : 60000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static char buffer[256];
	pthread_t threads[READERS + 16];
	sigset_t segv;
	char c;
	int n = 0;

	sigemptyset(&segv);
	sigaddset(&segv, SIGSEGV);
	signal(SIGUSR1, on_request);
	sigprocmask(SIG_BLOCK, &segv, NULL);
	for (int i = 0; i <= BLOCKS; i++) {
		char *new = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		mprotect(new + BLOCK, BLOCK, PROT_NONE);
		*(i < BLOCKS ? &block[i] : &away) = new;
	}
	setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
	pthread_barrier_init(&all, NULL, READERS + 1 + changers(argc, argv));
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_create(&threads[n++], NULL, reader, (void *)i);
	for (int k = 1; k < argc; k++) {
		struct itimerval every = {{0, 700}, {0, 700}};

		if (mode(argv[k]) >= 0)
			pthread_create(&threads[n++], NULL, changer, (void *)(intptr_t)mode(argv[k]));
		else if (!strcmp(argv[k], "signal")) {
			sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm, .sa_flags = SA_RESTART}, NULL);
			setitimer(ITIMER_REAL, &every, NULL);
		}
	}
	/* From now on nobody allocates memory: its end is moved by others. */
	top = (char *)sbrk(2 * (intptr_t)BLOCK) + 2 * BLOCK;
	pthread_barrier_wait(&all);
	printf("ready\n");
	while (read(0, &c, 1) < 0)
		;
	over = true;
	while (n)
		pthread_join(threads[--n], NULL);
	printf("%lu\n", total);
	return 0;
}
