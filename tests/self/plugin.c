/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A library that test-world opens and closes. Its constructor calls the function too. */
int plugin_calls;

__attribute__((noinline)) int plugin_work(int a)
{
	plugin_calls++;
	__asm__ volatile("" ::: "memory");
	return a * 3;
}

__attribute__((constructor)) static void begin(void)
{
	plugin_work(1);
}
