/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* C++ exceptions through probed functions: thrown below, caught above, rethrown, with destructors on the way. */
#include <stdexcept>
#include <string>

#include "dprobes/kprobes.h"
#include "tap.h"

static int destroyed, returned;

struct witness {
	~witness()
	{
		destroyed++;
	}
};

extern "C" PROBED int thrower(int n)
{
	if (n < 0)
		throw std::runtime_error("negative");
	return n + 1;
}

extern "C" PROBED int middle(int n)
{
	witness w;

	return thrower(n) + 1;
}

extern "C" PROBED int rethrows(int n)
{
	try {
		return middle(n) + 1;
	} catch (const std::runtime_error &) {
		witness w;

		throw;
	}
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	returned++;
	return 0;
}

int main()
{
	struct kretprobe probes[3] = {};
	struct kretprobe *all[] = {&probes[0], &probes[1], &probes[2]};
	const char *names[] = {"thrower", "middle", "rethrows"};
	int caught = 0, sum = 0;

	for (int i = 0; i < 3; i++) {
		probes[i].kp.symbol_name = names[i];
		probes[i].handler = on_return;
	}
	for (int optimised = 0; optimised < 2; optimised++) {
		dp_kprobes_optimization(optimised);
		ok(!register_kretprobes(all, 3), "register_kretprobes() %s", dp_kprobe_error());
		caught = sum = destroyed = returned = 0;
		for (int i = 0; i < 1000; i++) {
			try {
				sum += rethrows(i & 1 ? i : -i - 1);
			} catch (const std::exception &e) {
				caught += e.what() == std::string("negative");
			}
		}
		ok(caught == 500 && sum == 500 * 500 + 500 * 3, "every exception arrives (%d, %d)", caught, sum);
		ok(destroyed == 1500 && returned == 1500, "destructors ran (%d), normal returns were seen (%d)",
		   destroyed, returned);
		ok(!probes[0].nmissed && !probes[1].nmissed && !probes[2].nmissed, "no instance was lost");
		unregister_kretprobes(all, 3);
	}
	return tap_done();
}
