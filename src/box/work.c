/* SPDX-License-Identifier: Apache-2.0 */
#include "box/work.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * Each rank has threads of its own, so that a thousand removals do not stand in the way of one
 * creation. Four of the second rank, so that two that remove and one that parks leave one for what
 * is quick: measuring, results. Of the first some are left to others by each who asks, because what
 * one asks for may take minutes: the differences of a large tree, a checkpoint of a busy sandbox.
 * Of the third one owner has two, because a command inside decides how long a write takes. Of the
 * fourth one owner has one, because each takes some hundred MiB.
 */

#define THREADS_MAX	64
#define LATER_THREADS	4
#define WRITE_THREADS	8
#define COMPARE_THREADS 3
#define OWN_THREADS	(LATER_THREADS + WRITE_THREADS + COMPARE_THREADS) /* of other ranks */
#define LEFT_THREADS	2
#define WRITE_LEFT	6
#define COMPARE_LEFT	(COMPARE_THREADS - 1)

struct queue {
	struct work_item *first, **last;
	size_t n;
	size_t n_threads, n_begun;
	size_t n_left;			 /* threads that one owner leaves to others */
	const void *owners[THREADS_MAX]; /* of what is at work; NULL */
	pthread_cond_t has_some;
};

struct work {
	struct loop *loop;
	struct loop_watch watch; /* of an eventfd: something is done */
	pthread_mutex_t mutex;	 /* of all below */
	struct queue queues[WORK_RANKS];
	struct work_item *done, **done_last;
	bool is_closing;
	pthread_t threads[THREADS_MAX];
	size_t n_threads;
};

static void queue_put(struct queue *queue, struct work_item *item)
{
	item->next = NULL;
	*queue->last = item;
	queue->last = &item->next;
	queue->n++;
}

static bool may_begin(const struct queue *queue, const struct work_item *item)
{
	size_t n = 0;

	for (size_t i = 0; item->owner && i < queue->n_threads; i++)
		n += queue->owners[i] == item->owner;
	return n == 0 || n + queue->n_left < queue->n_threads;
}

/* The first that may begin; NULL: none. */
static struct work_item *queue_pop(struct queue *queue, bool is_closing)
{
	struct work_item **at = &queue->first, *item;
	const void *refused = NULL;

	while ((item = *at) && !is_closing) {
		if ((!refused || item->owner != refused) && may_begin(queue, item))
			break;
		refused = item->owner;
		at = &item->next;
	}
	if (!item)
		return NULL;
	*at = item->next;
	if (!item->next)
		queue->last = at;
	queue->n--;
	return item;
}

/* The mutex is held. */
static void put_done(struct work *work, struct work_item *item)
{
	item->next = NULL;
	*work->done_last = item;
	work->done_last = &item->next;
}

static void wake_loop(const struct work *work)
{
	const uint64_t one = 1;

	/* It only fails when it has been told so often that it need not be told again. */
	(void)!write(work->watch.fd, &one, sizeof one);
}

static void work_thread(struct work *work, struct queue *queue)
{
	const void **owner;

	pthread_mutex_lock(&work->mutex);
	owner = &queue->owners[queue->n_begun++];
	for (;;) {
		struct work_item *item = NULL;
		bool was_empty;

		while (!work->is_closing && !(item = queue_pop(queue, false)))
			pthread_cond_wait(&queue->has_some, &work->mutex);
		if (work->is_closing)
			break;
		*owner = item->owner;
		pthread_mutex_unlock(&work->mutex);
		item->run(item);
		pthread_mutex_lock(&work->mutex);
		*owner = NULL;
		was_empty = !work->done;
		put_done(work, item);
		if (was_empty)
			wake_loop(work);
	}
	pthread_mutex_unlock(&work->mutex);
}

static void *begin_now(void *data)
{
	work_thread(data, &((struct work *)data)->queues[WORK_NOW]);
	return NULL;
}

static void *begin_later(void *data)
{
	work_thread(data, &((struct work *)data)->queues[WORK_LATER]);
	return NULL;
}

static void *begin_write(void *data)
{
	work_thread(data, &((struct work *)data)->queues[WORK_WRITE]);
	return NULL;
}

static void *begin_compare(void *data)
{
	work_thread(data, &((struct work *)data)->queues[WORK_COMPARE]);
	return NULL;
}

static void call_done(struct work *work)
{
	struct work_item *item, *next;

	pthread_mutex_lock(&work->mutex);
	item = work->done;
	work->done = NULL;
	work->done_last = &work->done;
	pthread_mutex_unlock(&work->mutex);
	for (; item; item = next) {
		next = item->next;
		item->done(item);
	}
}

static void something_done(struct loop_watch *watch, uint32_t events)
{
	struct work *work = (struct work *)((char *)watch - offsetof(struct work, watch));
	uint64_t count;

	(void)events;
	(void)!read(watch->fd, &count, sizeof count);
	call_done(work);
}

/* Signals are the loop's. */
static int start_threads(struct work *work, unsigned n_now)
{
	sigset_t all, before;
	int r = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; r == 0 && i < n_now + OWN_THREADS; i++) {
		r = -pthread_create(&work->threads[work->n_threads], NULL,
				    i < n_now					? begin_now
				    : i < n_now + LATER_THREADS			? begin_later
				    : i < n_now + LATER_THREADS + WRITE_THREADS ? begin_write
										: begin_compare,
				    work);
		if (r == 0)
			work->n_threads++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int work_open(struct loop *loop, unsigned n_threads, struct work **ret, struct atoll_error *err)
{
	struct work *work = calloc(1, sizeof *work);
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int r;

	if (!work)
		return error_oom(err);
	work->loop = loop;
	work->done_last = &work->done;
	pthread_mutex_init(&work->mutex, NULL);
	for (size_t i = 0; i < WORK_RANKS; i++) {
		work->queues[i].last = &work->queues[i].first;
		work->queues[i].n_left = LEFT_THREADS;
		pthread_cond_init(&work->queues[i].has_some, NULL);
	}
	/* They mostly wait for other processes, so there may be more of them than processors. */
	if (!n_threads)
		n_threads = LEFT_THREADS + (n_cpus < 4	  ? 8
					    : n_cpus > 16 ? 32
							  : (unsigned)n_cpus * 2);
	if (n_threads > THREADS_MAX - OWN_THREADS)
		n_threads = THREADS_MAX - OWN_THREADS;
	work->queues[WORK_NOW].n_threads = n_threads;
	work->queues[WORK_LATER].n_threads = LATER_THREADS;
	work->queues[WORK_WRITE].n_threads = WRITE_THREADS;
	work->queues[WORK_WRITE].n_left = WRITE_LEFT;
	work->queues[WORK_COMPARE].n_threads = COMPARE_THREADS;
	work->queues[WORK_COMPARE].n_left = COMPARE_LEFT;
	work->watch = (struct loop_watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
					  .ready = something_done};
	r = work->watch.fd < 0 ? -errno : loop_watch(loop, &work->watch, EPOLLIN);
	if (r == 0)
		r = start_threads(work, n_threads);
	if (r < 0) {
		work_close(work);
		return error_set(err, ATOLL_FAULT_HOST, -r, "start threads for what blocks");
	}
	*ret = work;
	return 0;
}

void work_close(struct work *work)
{
	if (!work)
		return;
	pthread_mutex_lock(&work->mutex);
	work->is_closing = true;
	for (size_t i = 0; i < WORK_RANKS; i++)
		pthread_cond_broadcast(&work->queues[i].has_some);
	pthread_mutex_unlock(&work->mutex);
	for (size_t i = 0; i < work->n_threads; i++)
		pthread_join(work->threads[i], NULL);
	for (size_t i = 0; i < WORK_RANKS; i++) {
		while (work->queues[i].first)
			put_done(work, queue_pop(&work->queues[i], true));
		pthread_cond_destroy(&work->queues[i].has_some);
	}
	/* What is done may hand in more, which is done at once: see work_submit(). */
	while (work->done)
		call_done(work);
	if (work->watch.fd >= 0) {
		loop_unwatch(work->loop, &work->watch);
		close(work->watch.fd);
	}
	pthread_mutex_destroy(&work->mutex);
	free(work);
}

void work_submit(struct work *work, struct work_item *item, enum work_rank rank)
{
	pthread_mutex_lock(&work->mutex);
	if (work->is_closing) {
		put_done(work, item);
	} else {
		queue_put(&work->queues[rank], item);
		pthread_cond_signal(&work->queues[rank].has_some);
	}
	pthread_mutex_unlock(&work->mutex);
}

size_t work_waiting(const struct work *work, enum work_rank rank)
{
	struct work *mine = (struct work *)work;
	size_t n;

	pthread_mutex_lock(&mine->mutex);
	n = work->queues[rank].n;
	pthread_mutex_unlock(&mine->mutex);
	return n;
}

bool work_is_closing(const struct work *work)
{
	return work->is_closing;
}
