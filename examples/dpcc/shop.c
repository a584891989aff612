/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A program to try the examples on: it takes orders from standard input, one a line ("CUSTOMER ITEM PRICE"). Compile with
 *	cc -O2 -g -o shop shop.c
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum state { NEW, PAID, REFUSED };

struct customer {
	char name[16];
	long credit;
	struct customer *next;
};

struct order {
	int number;
	enum state state;
	struct customer *customer;
	struct {
		char item[24];
		long price;
	} line;
};

static struct customer *customers;
static int last_number;

__attribute__((noinline)) static struct customer *find_customer(const char *name)
{
	struct customer *c;

	for (c = customers; c; c = c->next)
		if (!strcmp(c->name, name))
			return c;
	c = calloc(1, sizeof(*c));
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->credit = 100;
	c->next = customers;
	customers = c;
	return c;
}

__attribute__((noinline)) static int pay(struct order *o)
{
	if (o->customer->credit < o->line.price) {
		o->state = REFUSED;
		return -1;
	}
	o->customer->credit -= o->line.price;
	o->state = PAID;
	return 0;
}

int main(void)
{
	char text[100], name[16], item[24];
	long price;

	puts("ready");
	fflush(stdout);
	while (fgets(text, sizeof(text), stdin)) {
		struct order o = {.number = ++last_number};

		if (sscanf(text, "%15s %23s %ld", name, item, &price) != 3)
			continue;
		o.customer = find_customer(name);
		strcpy(o.line.item, item);
		o.line.price = price;
		puts(pay(&o) ? "refused" : "paid");
		fflush(stdout);
	}
	return 0;
}
