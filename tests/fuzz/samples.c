/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include "samples.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCH 100
#define LONGEST 20 /* seconds of a processor for one input */

static const char source[] =
    "#include <stdarg.h>\n#include <stdio.h>\n"
    "enum kind { RED, GREEN = 5, BLUE = -1 };\n"
    "struct node { int a; struct node *next; enum kind kind; unsigned bits : 5, more : 11; "
    "float f; double d; char text[12]; union { int i; short s[2]; } u; };\n"
    "static __thread int own = 3;\nlong total = 7; "
    "static struct node head = {1, &head, GREEN, 3, 4, 1.5f, 2.5, \"text\", {9}};\n"
    "static inline __attribute__((always_inline)) int twice(int x) "
    "{ int y = x * 2; __asm__ volatile(\"\" : \"+r\"(y)); return y; }\n"
    "__attribute__((noinline)) int work(struct node *p, int n, double d)\n{\n"
    "\tint sum = twice(n);\n\tfor (int i = 0; i < n; i++) {\n"
    "\t\tsum += p->a + twice(i);\n\t\tp = p->next;\n\t}\n\ttotal += sum + (long)d;\n\treturn sum + own;\n}\n"
    "__attribute__((noinline)) int choose(int k, ...)\n{\n"
    "\tva_list ap;\n\tint r = 0;\n\tva_start(ap, k);\n\tswitch (k) {\n"
    "\tcase 0: r = 4; break; case 1: r = va_arg(ap, int); break; case 2: r = 77; break; "
    "case 3: r = printf(\"x\"); break;\n"
    "\tcase 4: r = 8; break; case 5: r = -4; break; case 9: r = 1; break; }\n\tva_end(ap);\n\treturn r;\n}\n"
    "static double half(double x) { return x / 2; }\n"
    "double (*volatile pointer)(double) = half;\n"
    "int main(int argc, char **argv) { struct node here = head; "
    "__asm__ volatile(\"990: nop\\n.pushsection .note.stapsdt,\\\"\\\",\\\"note\\\"\\n.balign 4\\n\"\n"
    "\".4byte 8, 992f-991f, 3\\n.asciz \\\"stapsdt\\\"\\n991: .8byte 990b, 0, total\\n\"\n"
    "\".asciz \\\"shop\\\"\\n.asciz \\\"sale\\\"\\n\"\n"
    "\".asciz \\\"8@%%rdi -4@-20(%%rbp,%%rbx,8) 2@$77 8@total(%%rip)\\\"\\n\"\n"
    "\"992: .balign 4\\n.popsection\" ::);\n"
    "return work(&here, argc, pointer(argc)) + choose(argc, 3); }\n";

static char dir[] = "/tmp/dp-fuzz-XXXXXX";
u64 *fuzz_counts;

bool sample_read(struct sample *s, const char *path)
{
	FILE *f = fopen(path, "re");
	long n = -1;

	if (f && !fseek(f, 0, SEEK_END))
		n = ftell(f);
	*s = (struct sample){.n = n > 0 ? (size_t)n : 0};
	snprintf(s->path, sizeof(s->path), "%s", path);
	if (f)
		rewind(f);
	s->bytes = n > 0 ? malloc(s->n) : NULL;
	n = s->bytes && fread(s->bytes, 1, s->n, f) == s->n;
	if (f)
		fclose(f);
	return n;
}

const char *samples_dir(void)
{
	return dir;
}

u32 samples_make(struct sample *v, u32 max)
{
	static const char *const flags[] = {"-O1 -g -rdynamic",
					    "-O2 -g -gdwarf-4",
					    "-O2 -g -gsplit-dwarf",
					    "-O0 -g -gz",
					    "-O2 -g -fPIC -shared -gdwarf-4 -gsplit-dwarf",
					    "-O2 -s",
					    "-O1 -g -fno-pie -no-pie -fdebug-types-section"};
	char command[700], path[200];
	u32 n = 0;
	FILE *f;

	if (!mkdtemp(dir))
		return 0;
	snprintf(path, sizeof(path), "%s/sample.c", dir);
	f = fopen(path, "we");
	if (!f || fputs(source, f) < 0 || fclose(f))
		return 0;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags) && n + 1 < max; i++) {
		bool split = strstr(flags[i], "split");

		snprintf(command, sizeof(command), "cd %s && cc %s -dumpdir d%zu -o s%zu sample.c 2>/dev/null", dir,
			 flags[i], i, i);
		if (system(command))
			continue;
		snprintf(path, sizeof(path), "%s/s%zu", dir, i);
		n += sample_read(&v[n], path);
		snprintf(path, sizeof(path), "%s/d%zusample.dwo", dir, i);
		if (split)
			n += sample_read(&v[n], path);
	}
	return n;
}

void samples_end(void)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command))
		puts("# the files stay");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void batch(void (*one)(u64 i), u64 from, u64 n)
{
	struct itimerval longest = {.it_value.tv_sec = LONGEST};

	for (u64 i = from; i < from + n; i++) {
		fuzz_counts[0] = i;
		setitimer(ITIMER_PROF, &longest, NULL);
		one(i);
		fuzz_counts[1]++;
	}
	fflush(NULL);
	_exit(0);
}

bool fuzz_run(void (*one)(u64 i), u64 first, double seconds, u64 times, u64 *at)
{
	double end = now() + seconds;
	int status;

	fuzz_counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (u64 i = first; (!times || i < first + times) && (seconds <= 0 || now() < end); i += BATCH) {
		u64 n = times ? DP_MIN((u64)BATCH, first + times - i) : BATCH;
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (!pid)
			batch(one, i, n);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			*at = fuzz_counts[0];
			if (pid > 0)
				printf("# at %llu: %s %d\n", (unsigned long long)*at,
				       WIFSIGNALED(status) ? "signal" : "status",
				       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			return false;
		}
	}
	return true;
}
