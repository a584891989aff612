/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A target whose probed instructions fault when it is told so:
 *	load		load_word() of good memory: the value
 *	bad		of none; the handler leaves by siglongjmp: "fault"
 *	mend		of a page that the handler makes readable: the value; the handler calls load_word() for good memory
 *	wait		the same, but the handler calls nothing: it says "waits", and goes on with the next line
 *	div A B		the quotient, or "fault"
 *	add A B		the sum; nothing can fault
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

long load_word(const long *p);
long divide(long a, long b);
long add_numbers(long a, long b);

/* The instructions that are probed are the first ones, and the second of divide_it. */
__asm__(".text\n"
	".globl load_word\n.type load_word, @function\nload_word:\n"
	"	mov (%rdi), %rax\n	nopl 0(%rax)\n	ret\n.size load_word, . - load_word\n"
	".globl divide\n.type divide, @function\ndivide:\n"
	"	mov %rdi, %rax\n	cqto\n	idiv %rsi\n	nopl 0(%rax)\n	ret\n.size divide, . - divide\n"
	".globl add_numbers\n.type add_numbers, @function\nadd_numbers:\n"
	"	lea (%rdi,%rsi), %rax\n	nopl 0(%rax)\n	ret\n.size add_numbers, . - add_numbers\n");

static sigjmp_buf back;
static long good = 7, *page;
static volatile long seen;
static volatile int waits;

static void handler(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	if (sig == SIGSEGV && info->si_addr == page) {
		char line[64];

		if (!waits) {
			seen = load_word(&good);
		} else {
			printf("waits\n");
			waits = !fgets(line, sizeof(line), stdin);
		}
		mprotect(page, 4096, PROT_READ);
		return;
	}
	siglongjmp(back, 1);
}

static void mended(void)
{
	long word;

	seen = 0;
	word = load_word(page);
	printf("%ld %ld\n", word, seen);
}

int main(void)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	char line[64];
	long a, b;

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGFPE, &sa, NULL);
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (sigsetjmp(back, 1))
			printf("fault\n");
		else if (line[0] == 'l')
			printf("%ld\n", load_word(&good));
		else if (line[0] == 'b')
			printf("%ld\n", load_word(NULL));
		else if ((waits = line[0] == 'w') || line[0] == 'm')
			mended();
		else if (sscanf(line, "div %ld %ld", &a, &b) == 2)
			printf("%ld\n", divide(a, b));
		else if (sscanf(line, "add %ld %ld", &a, &b) == 2)
			printf("%ld\n", add_numbers(a, b));
		mprotect(page, 4096, PROT_NONE);
	}
	return 0;
}
