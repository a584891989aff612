/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Does a known amount of what recipes look at: argv[1] says which. test_recipes.py has the same numbers. */
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>

#define NOINLINE __attribute__((noinline))

static void *kept[400];
static int nkept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile int turn, result;

static NOINLINE void leaky(void)
{
	kept[nkept++] = malloc(100);
}

static NOINLINE void tidy(void)
{
	void *volatile p = malloc(50);

	free(p);
}

static NOINLINE void large(void)
{
	void *volatile p = malloc(3 << 20);

	free(p);
}

static NOINLINE int answer(int i)
{
	return i % 3;
}

static void memory(void)
{
	volatile size_t huge = (size_t)1 << 62;

	for (int i = 0; i < 300; i++)
		leaky();
	for (int i = 0; i < 1000; i++)
		tidy();
	for (int i = 0; i < 4; i++)
		large();
	for (int i = 0; i < 2; i++)
		kept[399] = malloc(huge);
	for (int i = 0; i < 6; i++)
		result = answer(i);
	for (int i = 0; i < 5; i++)
		munmap(mmap(NULL, 12345, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 12345);
}

static NOINLINE void zeroed(void)
{
	kept[nkept++] = calloc(3, 20);
}

static NOINLINE void *small(void)
{
	void *volatile p = malloc(10);

	return p;
}

static NOINLINE void *of_nothing(void)
{
	void *volatile p = realloc(NULL, 500);

	return p;
}

static NOINLINE void grown(void)
{
	void *volatile p = small();

	kept[nkept++] = realloc(p, 1000);
}

static NOINLINE void shrunk(void)
{
	void *volatile p = of_nothing();

	kept[nkept++] = realloc(p, 7);
}

static NOINLINE void aligned(void)
{
	if (posix_memalign(&kept[nkept], 64, 128) == 0)
		nkept++;
}

static void *free_it(void *p)
{
	free(p);
	return NULL;
}

static NOINLINE void elsewhere(void)
{
	pthread_t t;

	pthread_create(&t, NULL, free_it, malloc(77));
	pthread_join(t, NULL);
}

static void blocks(void)
{
	for (int i = 0; i < 5; i++) {
		zeroed();
		grown();
		shrunk();
		aligned();
		elsewhere();
	}
	free(NULL);
}

static NOINLINE void locked(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

static void *other(void *arg)
{
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&gate);
		while (turn != 1)
			pthread_cond_wait(&changed, &gate);
		turn = 0;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&gate);
	}
	return arg;
}

static NOINLINE void wait_for_zero(void)
{
	while (turn != 0)
		pthread_cond_wait(&changed, &gate);
}

static void locks(void)
{
	pthread_t t;
	int word = 1;

	for (int i = 0; i < 500; i++)
		locked();
	for (int i = 0; i < 30; i++)
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	pthread_create(&t, NULL, other, NULL);
	for (int i = 0; i < 5; i++) {
		pthread_mutex_lock(&gate);
		turn = 1;
		pthread_cond_signal(&changed);
		wait_for_zero(); /* the other one has waited for the lock: it waits at least once */
		pthread_mutex_unlock(&gate);
	}
	pthread_join(t, NULL);
}

static void files(const char *dir)
{
	char data[100] = "x", path[4096], to[4096];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/one", dir);
	snprintf(to, sizeof(to), "%s/two", dir);
	for (int i = 0; i < 7; i++)
		open("/nonexistent/dp-known", O_RDONLY);
	for (int i = 0; i < 9; i++)
		close(open("/dev/null", O_RDONLY));
	fd = open(path, O_RDWR | O_CREAT, 0600);
	dup2(fd, 77);
	for (int i = 0; i < 20; i++)
		if (write(77, data, sizeof(data)) != sizeof(data))
			abort();
	fsync(77);
	fsync(77);
	fdatasync(77);
	lseek(77, 0, SEEK_SET);
	for (int i = 0; i < 25; i++)
		if (read(77, data, 40) != 40)
			abort();
	for (int i = 0; i < 6; i++)
		stat(path, &st);
	rename(path, to);
	unlink(to);
	mkdir(path, 0700);
	rmdir(path);
}

static void net(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct addrinfo *found, hints = {.ai_flags = AI_NUMERICHOST};
	int server = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(a);
	char data[50] = "x";

	if (bind(server, (struct sockaddr *)&a, sizeof(a)) || listen(server, 9) ||
	    getsockname(server, (struct sockaddr *)&a, &len))
		abort();
	for (int i = 0; i < 4; i++) {
		int to = socket(AF_INET, SOCK_STREAM, 0), from;

		if (connect(to, (struct sockaddr *)&a, sizeof(a)))
			abort();
		from = accept(server, NULL, NULL);
		for (int k = 0; k < 10; k++)
			if (send(to, data, 50, 0) != 50 || recv(from, data, 50, MSG_WAITALL) != 50)
				abort();
		close(to);
		close(from);
	}
	for (int i = 0; i < 5; i++)
		if (!getaddrinfo("127.0.0.9", "80", &hints, &found))
			freeaddrinfo(found);
}

static int by_size(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void *nothing(void *arg)
{
	return arg;
}

static void rest(void)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	int numbers[] = {3, 1, 2};
	struct pollfd none = {.fd = -1};
	pthread_t t;

	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	for (int i = 0; i < 6; i++)
		kill(getpid(), SIGUSR1);
	for (int i = 0; i < 9; i++)
		getenv("DP_KNOWN");
	for (int i = 0; i < 3; i++)
		nanosleep(&pause, NULL);
	for (int i = 0; i < 4; i++)
		poll(&none, 1, 20);
	for (int i = 0; i < 8; i++)
		qsort(numbers, 3, sizeof(*numbers), by_size);
	for (int i = 0; i < 2; i++)
		if (!fork())
			_exit(0);
		else
			wait(NULL);
	for (int i = 0; i < 3; i++)
		if (!pthread_create(&t, NULL, nothing, NULL))
			pthread_join(t, NULL);
	for (int i = 0; i < 2; i++)
		dlopen("libdp-known.so", RTLD_NOW);
	exit(7);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "blocks"))
		blocks();
	else if (!strcmp(what, "memory"))
		memory();
	else if (!strcmp(what, "locks"))
		locks();
	else if (!strcmp(what, "files"))
		files(argv[2]);
	else if (!strcmp(what, "net"))
		net();
	else if (!strcmp(what, "rest"))
		rest();
	return 0;
}
