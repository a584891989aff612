/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A small order server for the tutorial (doc/tutorial.md): four workers take orders from a queue, about 200 a second,
 * until the program is ended, or for the number of seconds given as its argument. It has the faults that servers have: some
 * orders take long, one lock is held too long, memory is not freed, and an error is not looked at.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 4
#define QUEUE 64
#define BURST 8 /* orders that come at once */

struct customer {
	const char *name;
	long credit;
};

struct order {
	int id;
	int qty;
	const char *item;
	double total;
	struct customer *customer;
};

static struct customer customers[] = {{"smith", 5000}, {"jones", 900}, {"miller", 20}, {"wright", 70000}};
static const struct {
	const char *item;
	double price;
} goods[] = {{"anvil", 99.5}, {"bolt", 0.25}, {"cable", 12}, {"drill", 240}};

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER, stock_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static struct order *queue[QUEUE];
static unsigned int first, last;
long sold;

static void wait_us(long us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

/* Only large orders are worth a question to the bank, which takes its time. */
int check_credit(struct customer *c, int qty, double total)
{
	if (qty >= 100)
		wait_us(30000);
	return total <= (double)c->credit ? 0 : -1;
}

/* The lock is held while the stock is written, which is longer than it has to be. */
int reserve(const char *item, int qty)
{
	pthread_mutex_lock(&stock_lock);
	sold += qty;
	wait_us(item[0] == 'a' ? 2000 : 200);
	pthread_mutex_unlock(&stock_lock);
	return qty;
}

/* The directory does not exist, and nobody looks at what is returned. */
int write_receipt(const struct order *o)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "receipts/%d.txt", o->id);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		return -1;
	dprintf(fd, "%d %s: %.2f\n", o->qty, o->item, o->total);
	return close(fd);
}

/* The label is not freed. */
void print_label(const struct order *o)
{
	char *label = malloc(48);

	if (label)
		snprintf(label, 48, "%s: %d x %s", o->customer->name, o->qty, o->item);
}

int handle_order(struct order *o)
{
	int refused = check_credit(o->customer, o->qty, o->total);

	if (!refused) {
		reserve(o->item, o->qty);
		write_receipt(o);
		print_label(o);
	}
	return refused;
}

static struct order *next_order(void)
{
	struct order *o;

	pthread_mutex_lock(&queue_lock);
	while (first == last)
		pthread_cond_wait(&not_empty, &queue_lock);
	o = queue[first++ % QUEUE];
	pthread_mutex_unlock(&queue_lock);
	return o;
}

static void *worker(void *arg)
{
	for (;;) {
		struct order *o = next_order();

		handle_order(o);
		free(o);
	}
	return arg;
}

struct order *new_order(int id)
{
	struct order *o = malloc(sizeof(*o));

	if (!o)
		return NULL;
	o->id = id;
	o->customer = &customers[id / 3 % 4];
	o->item = goods[id % 4].item;
	o->qty = id % 19 ? 1 + id * 3 % 7 : 100; /* now and then a large one */
	o->total = goods[id % 4].price * o->qty;
	return o;
}

/* An order that finds no room is lost. */
static void take_in(struct order *o)
{
	pthread_mutex_lock(&queue_lock);
	if (o && last - first < QUEUE)
		queue[last++ % QUEUE] = o;
	else
		free(o);
	pthread_cond_signal(&not_empty);
	pthread_mutex_unlock(&queue_lock);
}

int main(int argc, char **argv)
{
	int orders = argc > 1 ? atoi(argv[1]) * 200 : -1;
	pthread_t t;

	for (int i = 1; i <= WORKERS; i++) {
		char name[16];

		if (pthread_create(&t, NULL, worker, NULL))
			return 1;
		snprintf(name, sizeof(name), "worker-%d", i);
		pthread_setname_np(t, name);
	}
	for (int id = 1; id != orders; id++) {
		take_in(new_order(id));
		if (id % BURST == 0)
			wait_us(BURST * 5000L);
	}
	return 0;
}
