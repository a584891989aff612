/* What the cases with "module probed" are compiled against: gcc -g -O2. */
struct pair { int a, b; };
struct small { char c[8]; };
struct bits { unsigned low : 3; long rest; };
struct unknown;
struct pair pairs[3];
struct bits bits;
struct unknown *far;
__int128 wide = 5;
double real = 1.5;
int number;
volatile char out;
__attribute__((noinline, noreturn)) void never(void) { for (;;) out = 1; }
struct extended {
	long double v;
};
__attribute__((noipa)) struct extended gives_extended(int n)
{
	return (struct extended){n};
}
int (*volatile chosen)(int);
__attribute__((noipa)) int jumps(int n) { return chosen(n + 1); }
__attribute__((noipa)) long work(int n, struct pair p, char *text, void *v, struct small s)
{
	out = text[n];
	return n + p.a + p.b + (v != 0) + s.c[1];
}
__attribute__((noipa)) void nothing(void) { out = 2; }
struct big { long v[5]; int last; };
__attribute__((noipa)) double gives_double(int n) { return n + 0.5; }
__attribute__((noipa)) float gives_float(int n) { return (float)n + 0.5f; }
__attribute__((noipa)) struct pair gives_pair(int n) { return (struct pair){n, 7}; }
__attribute__((noipa)) struct big gives_big(int n) { return (struct big){{n, 2, 3, 4, 5}, 77}; }
__attribute__((noipa)) __int128 gives_wide(int n) { return (__int128)n << 70; }
__attribute__((noipa)) long double gives_long_double(int n) { return n; }
__attribute__((noipa)) int many(int a, int b, int c, int d, int e, int f, int g, int i, int j, int k, int l, int m,
				int n, int o, int p, int q)
{
	return a + b + c + d + e + f + g + i + j + k + l + m + n + o + p + q;
}
/* What STAP_PROBE2(shop, sold, real, number) of <sys/sdt.h> makes, with operands that stand. */
__asm__(".pushsection .text\nsold_here: nop\nret\n.popsection\n"
	".pushsection .note.stapsdt, \"\", \"note\"\n.balign 4\n.4byte 2f-1f, 4f-3f, 3\n1: .asciz \"stapsdt\"\n"
	"2: .balign 4\n3: .8byte sold_here, 0, 0\n.asciz \"shop\"\n.asciz \"sold\"\n"
	".asciz \"8@%xmm0 -4@%edi\"\n4: .balign 4\n.popsection");
/* Too short for a jump. */
__asm__(".pushsection .text\n.type brief_one, @function\n.type brief_other, @function\nbrief_one: ret\n"
	"brief_other: ret\n.size brief_one, 1\n.size brief_other, 1\n.popsection");
__attribute__((noipa)) long calls_system(long number_of_call)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number_of_call) : "rcx", "r11", "memory");
	return result + 100000;
}
int main(int argc, char **argv)
{
	struct pair p = {argc, 2};

	pairs[0] = p;
	bits.low = argc;
	if (argc > 100)
		number += jumps(argc) + (int)gives_extended(argc).v, never();
	number += argc > 50 ? (int)calls_system(39) : 0;
	nothing();
	real += gives_double(argc) + gives_float(argc);
	number += gives_pair(argc).b + gives_big(argc).last;
	wide += gives_wide(argc) + (int)gives_long_double(argc);
	number += many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, argc);
	return (int)work(argc, p, argv[0], far, (struct small){{1}}) + (int)wide + (int)real + number;
}
