/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A kprobe in C++: which files this program opens, seen at the entry of libc's open(), as long as an object lives.
 *
 *	c++ -std=c++17 kprobe-example.cc $(pkg-config --cflags --libs dprobes) && ./a.out
 */
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>

#include <dprobes/kprobes.h>

/* A kprobe whose handler belongs to an object. The probe goes with it. */
class Opens {
public:
	Opens()
	{
		probe.kp.symbol_name = "libc:open";
		probe.kp.pre_handler = hit;
		probe.owner = this;
		if (register_kprobe(&probe.kp))
			throw std::runtime_error(dp_kprobe_error());
	}

	~Opens()
	{
		unregister_kprobe(&probe.kp);
	}

	Opens(const Opens &) = delete;
	Opens &operator=(const Opens &) = delete;

	unsigned count() const
	{
		return n;
	}

	const char *last() const
	{
		return path;
	}

private:
	/* The kprobe is the first member, so that the handler finds the object by it. */
	struct probe {
		struct kprobe kp;
		Opens *owner;
	};

	/* Handlers throw nothing, allocate nothing, and call nothing that is probed. */
	static int hit(struct kprobe *p, struct pt_regs *regs) noexcept
	{
		Opens *o = reinterpret_cast<struct probe *>(p)->owner;

		std::strncpy(o->path, reinterpret_cast<const char *>(regs->di), sizeof(o->path) - 1);
		o->n++;
		return 0;
	}

	struct probe probe = {};
	unsigned n = 0;
	char path[256] = "";
};

int main()
{
	try {
		Opens opens;
		int fd = open("/dev/null", O_RDONLY);

		close(fd);
		std::printf("%u opened, the last one %s\n", opens.count(), opens.last());
	} catch (const std::exception &e) {
		std::fprintf(stderr, "kprobe-example: %s\n", e.what());
		return 1;
	}
	return 0;
}
