/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that a client writes: see put.h
 *
 * Called by e2b-upload.c, v1-file.c, e2b-template-files.c and e2b-volume-content.c. The order:
 * put_new(), then put_write() and its `done` for each piece, then put_end(); or put_drop() at any
 * moment.
 */
#include "httpd/put.h"

#include "base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct put {
	struct work_item item;
	struct daemon *daemon;
	struct tenant *tenant;
	int fd;
	char *bytes; /* of the present piece; NULL: none */
	size_t size;
	struct held held;
	bool is_busy;	 /* a thread writes or closes */
	bool is_ending;	 /* put_end() was called */
	bool is_dropped; /* put_drop() was called */
	int code;
	put_done *done;
	void *data;
};

static void begin(struct put *put);

struct put *put_new(struct daemon *daemon, struct tenant *tenant, int fd, void *data)
{
	struct put *put = calloc(1, sizeof *put);

	if (!put) {
		close(fd);
		return NULL;
	}
	put->daemon = daemon;
	put->tenant = tenant;
	put->fd = fd;
	put->data = data;
	return put;
}

/* ---- on a thread ---- */

static void run_put(struct work_item *item)
{
	struct put *put = (struct put *)item;

	put->code = put->bytes ? fd_write_all(put->fd, put->bytes, put->size) : 0;
	if (!put->is_ending)
		return;
	if (close(put->fd) < 0 && put->code == 0)
		put->code = -errno;
	put->fd = -1;
}

/* ---- on the event loop ---- */

static void free_put(struct put *put)
{
	if (put->fd >= 0)
		close(put->fd);
	free(put->bytes);
	held_drop(&put->held);
	free(put);
}

static void on_ran(struct work_item *item)
{
	struct put *put = (struct put *)item;
	bool has_ended = put->is_ending;
	put_done *done = put->done;
	void *data = put->data;
	int code = put->code;

	put->is_busy = false;
	put->done = NULL;
	free(put->bytes);
	put->bytes = NULL;
	held_drop(&put->held);
	if (put->is_dropped && !has_ended && !work_is_closing(daemon_work(put->daemon))) {
		put->is_ending = true;
		begin(put);
		return;
	}
	if (has_ended || put->is_dropped)
		free_put(put);
	if (done)
		done(code, data);
}

static void begin(struct put *put)
{
	put->is_busy = true;
	put->code = -ECANCELED; /* the result if the daemon stops before a thread runs */
	put->item = (struct work_item){.run = run_put, .done = on_ran, .owner = put->tenant};
	work_submit(daemon_work(put->daemon), &put->item, WORK_WRITE);
}

int put_write(struct put *put, const void *bytes, size_t size, put_done *done)
{
	if (!held_set(&put->held, put->tenant, size))
		return -EAGAIN;
	put->bytes = malloc(size);
	if (!put->bytes) {
		held_drop(&put->held);
		return -ENOMEM;
	}
	memcpy(put->bytes, bytes, size);
	put->size = size;
	put->done = done;
	begin(put);
	return 0;
}

void put_end(struct put *put, put_done *done)
{
	put->is_ending = true;
	put->done = done;
	begin(put);
}

void put_drop(struct put *put)
{
	if (!put)
		return;
	put->is_dropped = true;
	put->done = NULL;
	if (put->is_busy)
		return;
	put->is_ending = true;
	begin(put);
}

bool put_is_busy(const struct put *put)
{
	return put->is_busy;
}

int put_fd(const struct put *put)
{
	return put->fd;
}
