// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A program with static probes, for test_statics.py: each line of input is answered. "go N": N rounds of all probes.
 * "counts": the values of the semaphores. "fork": a child that answers from then on; the parent waits for it.
 */
#define _SDT_HAS_SEMAPHORES 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <unistd.h>

unsigned short shop_sale_semaphore __attribute__((section(".probes")));
unsigned short shop_twice_semaphore __attribute__((section(".probes")));
unsigned short shop_plain__name_semaphore __attribute__((section(".probes")));
unsigned short shop_operands_semaphore __attribute__((section(".probes")));

static struct item {
	const char *name;
	long price[8];
	short left;
	signed char grade;
} items[4] = {{"anvil", {1, 20, 300}, -7, -3}, {"bolt", {4, 50, 600}, 8, 4}};
long counter = 77;
static volatile int small = -5;
static unsigned long sales;

__attribute__((noinline)) static void sell(const struct item *it, int qty, unsigned char flags)
{
	if (shop_sale_semaphore) {
		sales++;
		STAP_PROBE3(shop, sale, it->name, qty, flags);
	}
	sales += 2;
	STAP_PROBE1(shop, plain__name, qty * 2);
	sales -= 2;
}

__attribute__((noinline)) static void twice(int which)
{
	if (which)
		STAP_PROBE1(shop, twice, "first");
	else /* another place of the same name, with other arguments */
		STAP_PROBE2(shop, twice, "second", which - 1);
	sales += 0x1000;
}

/* Operands in the forms that compilers choose, and some that they rarely do. */
__attribute__((noinline)) static void operands(const struct item *v, unsigned long i)
{
	__asm__ volatile(
	    "990: nop\n"
	    ".pushsection .note.stapsdt,\"\",\"note\"\n"
	    ".balign 4\n"
	    ".4byte 992f-991f, 994f-993f, 3\n"
	    "991: .asciz \"stapsdt\"\n"
	    "992: .balign 4\n"
	    "993: .8byte 990b\n"
	    ".8byte _.stapsdt.base\n"
	    ".8byte shop_operands_semaphore\n"
	    ".asciz \"shop\"\n"
	    ".asciz \"operands\"\n"
	    ".asciz \"8@8(%%rdi,%%rsi,8) -2@72(%%rdi) -1@%%dl 1@%%dh -4@$-9 8@counter(%%rip) -4@small(%%rip) "
	    "8@$counter 2@%%r8w (%%rdi) 8@counter+0(%%rip) 4@%%r9d -4@%%r9d\"\n"
	    "994: .balign 4\n"
	    ".popsection\n"
	    :
	    : "D"(v), "S"(i), "d"(0xfe02l + v->grade * 0)
	    : "memory");
	sales -= 0x1000;
}

static void round_of_all(int i)
{
	register long r8 __asm__("r8") = 0x12345, r9 __asm__("r9") = 0xffff0000fffffffel;

	sell(&items[i % 2], i - 1, 200);
	twice(i % 2);
	__asm__ volatile("" : : "r"(r8), "r"(r9));
	operands(&items[i % 2], 2);
}

int main(int argc, char **argv)
{
	char line[64];
	int times;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1) {
		for (int i = 0; i < atoi(argv[1]); i++)
			round_of_all(i);
		return 0;
	}
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "go %d", &times) == 1) {
			for (int i = 0; i < times; i++)
				round_of_all(i);
			printf("%lu\n", sales);
		} else if (!strncmp(line, "fork", 4)) {
			pid_t pid = fork();

			if (pid) {
				waitpid(pid, NULL, 0);
				_exit(0);
			}
			printf("%d\n", getpid());
		} else {
			printf("%d %d %d %d %d %ld\n", shop_sale_semaphore, shop_twice_semaphore,
			       shop_plain__name_semaphore, shop_operands_semaphore, small, counter);
		}
	}
	return 0;
}
