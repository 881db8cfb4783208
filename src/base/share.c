/* SPDX-License-Identifier: Apache-2.0 */
#include "base/share.h"

#include <pthread.h>
#include <signal.h>

/* Of the second thread: what it calls reads into a buffer of 64 KiB. */
#define STACK_SIZE ((size_t)256 << 10)

struct share {
	size_t n, next; /* the next number that nobody has taken */
	void (*one)(size_t i, void *data);
	void *data;
};

static void *take_part(void *data)
{
	struct share *share = data;
	size_t i;

	while ((i = __atomic_fetch_add(&share->next, 1, __ATOMIC_RELAXED)) < share->n)
		share->one(i, share->data);
	return NULL;
}

static int start(struct share *share, pthread_t *ret)
{
	pthread_attr_t attributes;
	sigset_t all, old;
	int r;

	if (pthread_attr_init(&attributes) != 0)
		return -1;
	pthread_attr_setstacksize(&attributes, STACK_SIZE);
	/* Signals are the others' business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, &attributes, take_part, share);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attributes);
	return r == 0 ? 0 : -1;
}

void share_work(size_t n, void (*one)(size_t i, void *data), void *data)
{
	struct share share = {.n = n, .one = one, .data = data};
	pthread_t second;
	int r = n > 1 ? start(&share, &second) : -1;

	take_part(&share);
	if (r == 0)
		pthread_join(second, NULL);
}
