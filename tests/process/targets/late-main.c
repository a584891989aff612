/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
int late_work(int i);

__attribute__((noinline)) int main_work(int i)
{
	__asm__ volatile("" : "+r"(i)::"memory");
	return late_work(i);
}

int main(void)
{
	return main_work(6) != 7;
}
