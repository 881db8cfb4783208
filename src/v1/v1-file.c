/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-file.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "httpd/httpd.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-state.h"
#include "v1/v1-view.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define PIECE_MAX (32U << 10)

/*
 * Files of a sandbox: get, put, delete, stat, list, move, mkdir
 *
 * The guest works inside, as the user (box/guest.h), and calls back; the callback answers.
 */

static void fail(struct api_call *call, const struct atoll_error *err)
{
	switch (err->errnum) {
	case ENOTDIR:
	case EISDIR:
	case ENOTEMPTY:
		v1_refuse(call, 409, "conflict", "%s", err->text);
		break;
	case EACCES:
	case EPERM:
	case EROFS:
		v1_refuse(call, 403, "policy", "%s", err->text);
		break;
	case ESRCH:
	case EINVAL:
	case ELOOP:
	case ENAMETOOLONG:
		v1_refuse(call, 400, "request", "%s", err->text);
		break;
	case EDQUOT: /* the quota of the sandbox's disk, not of the tenant */
	case ENOSPC:
		v1_refuse(call, 507, "disk", "%s", err->text);
		break;
	case ENOTCONN:
		v1_refuse(call, 503, "host", "%s", err->text);
		break;
	default:
		v1_fail(call, err);
	}
}

static void write_entry(struct json *json, const struct guest_entry *entry)
{
	uint32_t bits = entry->mode;
	char mode[5] = {(char)('0' + (bits >> 9 & 7)), (char)('0' + (bits >> 6 & 7)),
			(char)('0' + (bits >> 3 & 7)), (char)('0' + (bits & 7)), '\0'};

	json_open(json, NULL, '{');
	json_str(json, "path", entry->path);
	json_str(json, "name", entry->name);
	json_str(json, "type",
		 entry->is_link	      ? "link"
		 : entry->type == 'f' ? "file"
		 : entry->type == 'd' ? "directory"
				      : "other");
	json_str(json, "target", entry->target);
	json_uint(json, "size", entry->size);
	json_str(json, "mode", mode);
	json_str(json, "owner", entry->owner);
	json_str(json, "group", entry->group);
	v1_write_time(json, "modifiedAt", entry->mtime_ns / 1000000);
	json_close(json, '}');
}

/* Reads path and user of the query, and finds the box, which has to run. NULL: the call was
 * answered. */
static struct box *start(struct api_call *call, const char **ret_user, const char **ret_path)
{
	*ret_user = exchange_query(call->exchange, "user");
	*ret_path = exchange_query(call->exchange, "path");
	if (!*ret_path) {
		v1_refuse(call, 400, "request", "'path' is missing");
		return NULL;
	}
	return v1_running_box(call);
}

/* ---- stat, list, remove, move, make ---- */

/* The call that is to be answered. NULL: the client has gone, or the error was answered. */
static struct api_call *end_call(void *data, const struct atoll_error *err)
{
	struct v1_wait *wait = data;
	struct api_call *call = v1_wait_end(wait);

	free(wait);
	if (!call || err->fault == ATOLL_FAULT_NONE)
		return call;
	fail(call, err);
	return NULL;
}

static void answer_entry(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
			 void *data)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	struct json json = {.out = &out};
	struct api_call *call = end_call(data, err);

	if (!call)
		return;
	if (n == 0) {
		v1_done(call);
		return;
	}
	write_entry(&json, &entries[0]);
	api_answer(call, 200, &out);
}

static void answer_nothing(const struct guest_entry *entries, size_t n,
			   const struct atoll_error *err, void *data)
{
	struct api_call *call = end_call(data, err);

	(void)entries;
	(void)n;
	if (call)
		v1_done(call);
}

static void listing_over(struct api_call *call, bool is_broken)
{
	(void)is_broken;
	listing_free(call->own);
}

static void answer_list(struct guest_list *list, const struct atoll_error *err, void *data)
{
	struct api_call *call = end_call(data, err);

	if (!call) {
		guest_list_free(list);
		return;
	}
	call->own = listing_answer(call, call->tenant, list, "{\"items\":[", "],\"next\":null}",
				   write_entry);
	if (call->own)
		call->over = listing_over;
}

void v1_file_stat(struct api_call *call)
{
	const char *user, *path;
	struct box *box = start(call, &user, &path);
	struct v1_wait *wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;

	if (wait)
		guest_stat(box, user, path, answer_entry, wait);
}

void v1_file_list(struct api_call *call)
{
	const char *user, *path;
	struct v1_wait *wait;
	struct box *box;
	uint64_t depth;

	if (!v1_query_uint(call, "depth", 1, 100, &depth))
		return;
	box = start(call, &user, &path);
	wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;
	if (wait)
		guest_list(box, user, path, depth ? (uint32_t)depth : 1, answer_list, wait);
}

void v1_file_delete(struct api_call *call)
{
	const char *user, *path;
	struct box *box = start(call, &user, &path);
	struct v1_wait *wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;

	if (wait)
		guest_remove(box, user, path, answer_nothing, wait);
}

static void read_move(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"from", "to", "user", NULL};
	struct form form = {.call = call, .body = body};
	const char *from = form_str(&form, "from", NULL), *to = form_str(&form, "to", NULL),
		   *user = form_str(&form, "user", NULL);
	struct v1_wait *wait;
	struct box *box;

	form_known(&form, keys);
	if (!from || !to)
		form_bad(&form, "'from' and 'to' have to be paths");
	if (form_fails(&form))
		return;
	box = v1_running_box(call);
	wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;
	if (wait)
		guest_move(box, user, from, to, answer_entry, wait);
}

void v1_file_move(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_move);
}

static void read_mkdir(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"path", "user", NULL};
	struct form form = {.call = call, .body = body};
	const char *path = form_str(&form, "path", NULL), *user = form_str(&form, "user", NULL);
	struct v1_wait *wait;
	struct box *box;

	form_known(&form, keys);
	if (!path)
		form_bad(&form, "'path' is missing");
	if (form_fails(&form))
		return;
	box = v1_running_box(call);
	wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;
	if (wait)
		guest_make_dir(box, user, path, answer_entry, wait);
}

void v1_file_mkdir(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_mkdir);
}

/* ---- reading ---- */

/* A file without a size, as in /proc, comes through a pipe in pieces. */
struct passing {
	struct api_call *call;
	struct loop_watch watch;
};

static void passing_over(struct api_call *call, bool is_broken)
{
	struct passing *passing = call->own;

	(void)is_broken;
	loop_unwatch(call->api->loop, &passing->watch);
	close(passing->watch.fd);
	free(passing);
}

static void on_drained(struct exchange *exchange, void *own)
{
	struct passing *passing = own;

	(void)exchange;
	loop_watch(passing->call->api->loop, &passing->watch, EPOLLIN);
}

static void on_pipe(struct loop_watch *watch, uint32_t events)
{
	struct passing *passing =
		(struct passing *)((char *)watch - offsetof(struct passing, watch));
	struct exchange *exchange = passing->call->exchange;
	size_t room = stream_room(passing->call);
	char data[PIECE_MAX];
	struct iovec piece = {data, room < sizeof data ? room : sizeof data};
	/* The guest shares the open file and may clear O_NONBLOCK: RWF_NOWAIT never blocks. */
	ssize_t n = preadv2(watch->fd, &piece, 1, -1, RWF_NOWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		exchange_send(exchange, data, (size_t)n);
		if (stream_room(passing->call) == 0) {
			loop_unwatch(passing->call->api->loop, watch);
			exchange_on_drained(exchange, on_drained, passing);
		}
		return;
	}
	loop_unwatch(passing->call->api->loop, watch);
	if (n == 0)
		exchange_end(exchange);
	else
		exchange_cut(exchange);
}

static void pass_pipe(struct api_call *call, int fd)
{
	struct passing *passing;

	if (!stream_open(call)) {
		close(fd);
		v1_refuse(call, 429, "quota", "this tenant has as many streams as it may have");
		return;
	}
	passing = calloc(1, sizeof *passing);
	if (!passing) {
		close(fd);
		v1_refuse(call, 503, "host", "out of memory");
		return;
	}
	passing->call = call;
	passing->watch.fd = fd;
	passing->watch.ready = on_pipe;
	call->own = passing;
	call->over = passing_over;
	call->status = 200;
	exchange_begin(call->exchange, 200, "application/octet-stream", UINT64_MAX);
	loop_watch(call->api->loop, &passing->watch, EPOLLIN);
}

static void on_opened(int fd, const struct guest_entry *entry, const struct atoll_error *err,
		      void *data)
{
	struct v1_wait *wait = data;
	struct api_call *call = v1_wait_end(wait);
	struct stat st;

	(void)entry;
	free(wait);
	if (!call) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (fd < 0)
		fail(call, err);
	else if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		v1_answer_file(call, "application/octet-stream", fd);
	else
		pass_pipe(call, fd);
}

void v1_file_get(struct api_call *call)
{
	const char *user, *path;
	struct box *box = start(call, &user, &path);
	struct v1_wait *wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;

	if (wait)
		guest_open(box, user, path, on_opened, wait);
}

/* ---- writing ---- */

struct upload {
	struct v1_wait wait;
	struct put *put;
	uint64_t size;
};

static void upload_over(struct api_call *call, bool is_broken)
{
	struct upload *upload = call->own;

	(void)is_broken;
	put_drop(upload->put);
	free(upload);
}

static void fail_write(struct upload *upload, int r)
{
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_HOST, -r, "write the file");
	fail(upload->wait.call, &err);
}

static void on_written(int r, void *data)
{
	struct upload *upload = data;

	if (r < 0)
		fail_write(upload, r);
	else
		exchange_resume(upload->wait.call->exchange);
}

static void on_closed(int r, void *data)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};
	struct upload *upload = data;

	upload->put = NULL;
	if (r < 0) {
		fail_write(upload, r);
		return;
	}
	json_open(&json, NULL, '{');
	json_uint(&json, "size", upload->size);
	json_close(&json, '}');
	api_answer(upload->wait.call, 200, &out);
}

static void on_piece(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct upload *upload = own;
	int r;

	if (size == 0) {
		put_end(upload->put, on_closed);
		return;
	}
	upload->size += size;
	r = put_write(upload->put, data, size, on_written);
	if (r < 0)
		fail_write(upload, r);
	else
		exchange_pause(exchange);
}

static void on_writable(int fd, const struct guest_entry *entry, const struct atoll_error *err,
			void *data)
{
	struct upload *upload = data;
	struct api_call *call = upload->wait.call;
	struct stat st;

	(void)entry;
	if (!call || fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		v1_wait_end(&upload->wait);
		if (call && fd < 0)
			fail(call, err);
		else if (call)
			v1_refuse(call, 409, "conflict", "it is no plain file");
		if (fd >= 0)
			close(fd);
		free(upload);
		return;
	}
	upload->put = put_new(call->api->daemon, call->tenant, fd, upload);
	if (!upload->put) {
		v1_wait_end(&upload->wait);
		v1_refuse(call, 503, "host", "out of memory");
		free(upload);
		return;
	}
	call->over = upload_over;
	exchange_read_bulk(call->exchange, on_piece, upload);
}

void v1_file_put(struct api_call *call)
{
	const char *user, *path;
	struct box *box = start(call, &user, &path);
	struct upload *upload = box ? v1_wait_new(call, sizeof *upload, box) : NULL;

	if (upload)
		guest_write(box, user, path, NULL, on_writable, upload);
}
