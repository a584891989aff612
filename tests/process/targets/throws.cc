// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Throws through frames of functions that the tests probe. Usage: throws [ROUNDS]; 0: until SIGTERM.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <unistd.h>

static volatile sig_atomic_t stop;

struct Guard {
	int &n;
	explicit Guard(int &c) : n(c) { n++; }
	~Guard() { n--; }
};

__attribute__((noinline)) static int deep(int n, int &depth)
{
	Guard g(depth);
	if (n == 0)
		throw std::runtime_error("bottom " + std::to_string(depth));
	return deep(n - 1, depth) + 1;
}

__attribute__((noinline)) static int attempt(int n)
{
	int depth = 0;
	try {
		return deep(n, depth);
	} catch (const std::runtime_error &e) {
		return depth == 0 && std::string(e.what()) == "bottom " + std::to_string(n + 1) ? n : -1;
	}
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 0, good = 0, bad = 0;
	std::map<int, long> seen;
	signal(SIGTERM, [](int) { stop = 1; });
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (long i = 0; rounds ? i < rounds : !stop; i++) {
		int n = (int)(i % 17);
		(attempt(n) == n ? good : bad)++;
		seen[n]++;
		if (!rounds && i % 64 == 0)
			usleep(500);
	}
	printf("good %ld bad %ld\n", good, bad);
	return bad != 0;
}
