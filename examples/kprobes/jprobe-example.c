/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A jprobe: a handler with the prototype of the probed function, called with its arguments.
 *
 *	cc jprobe-example.c $(pkg-config --cflags --libs dprobes) && ./a.out
 */
#include <dprobes/kprobes.h>
#include <stdio.h>

__attribute__((noinline, noipa)) double area(const char *what, double width, double height)
{
	return width * height;
}

static double jarea(const char *what, double width, double height)
{
	printf("area of %s: %g x %g\n", what, width, height);
	jprobe_return(); /* the end of every jprobe's handler */
	return 0;
}

static struct jprobe jp = {.kp.symbol_name = "area", .entry = JPROBE_ENTRY(jarea)};

int main(void)
{
	int err = register_jprobe(&jp);

	if (err) {
		fprintf(stderr, "register_jprobe: %d, %s\n", err, dp_kprobe_error());
		return 1;
	}
	printf("%g\n", area("the door", 0.9, 2));
	printf("%g\n", area("the window", 1.5, 1));
	unregister_jprobe(&jp);
	return 0;
}
