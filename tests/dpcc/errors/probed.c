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
__attribute__((noipa)) long work(int n, struct pair p, char *text, void *v, struct small s)
{
	out = text[n];
	return n + p.a + p.b + (v != 0) + s.c[1];
}
__attribute__((noipa)) void nothing(void) { out = 2; }
int main(int argc, char **argv)
{
	struct pair p = {argc, 2};

	pairs[0] = p;
	bits.low = argc;
	if (argc > 100)
		never();
	nothing();
	return (int)work(argc, p, argv[0], far, (struct small){{1}}) + (int)wide + (int)real + number;
}
