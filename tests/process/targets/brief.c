/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A program that is over in a moment: three calls of its own function, two of its library's. Status
 * 0: all results right. */
long plugin_work(long n);

__attribute__((noinline)) int brief_work(int i)
{
	__asm__ volatile("" : "+r"(i)::"memory");
	return i * 1000 + 7;
}

int main(void)
{
	int own = 0;

	for (int i = 0; i < 3; i++)
		own += brief_work(i);
	return own != 3021 || plugin_work(3) + plugin_work(4) != 9 + 24;
}
