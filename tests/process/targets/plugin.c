/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A library that the churn target loads and unloads. */
long plugin_work(long n);
long plugin_work(long n)
{
	long r = 0;

	for (long i = 0; i < (n & 15); i++)
		r += i * n;
	return r;
}
