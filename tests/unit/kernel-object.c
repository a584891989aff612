/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Compiled to an object that is not linked, as a module of the kernel is: each function in a section of its own. */
int first_of(int n);
int second_of(int n);
int elsewhere(int n);

int first_of(int n)
{
	return elsewhere(n) + 1; /* first */
}

int second_of(int n)
{
	return elsewhere(first_of(n)) + 2; /* second */
}
