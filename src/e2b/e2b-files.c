/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /files
 *
 * The guest opens the file inside, as the user, and sends the descriptor. The kernel sends a
 * regular file (sendfile), whole or a range. A file without a size, as in /proc, comes through a
 * pipe in pieces.
 */
#include "e2b/e2b-files.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/e2b-dataplane.h"
#include "httpd/httpd.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#define PIECE_MAX (32U << 10)

struct download {
	struct api_call *call; /* NULL: the exchange has ended */
	struct box *box;
	uint64_t gone;
	char *user;
	bool is_opening;
	struct loop_watch pipe; /* fd -1: none */
};

/* ---- end ---- */

static void free_download(struct download *download)
{
	free(download->user);
	free(download);
}

static void close_pipe(struct download *download)
{
	if (download->pipe.fd < 0)
		return;
	loop_unwatch(download->call->api->loop, &download->pipe);
	close(download->pipe.fd);
	download->pipe.fd = -1;
}

/* Frees the download, unless the guest has not called back yet; the callback frees it then. */
static void release(struct download *download)
{
	close_pipe(download);
	download->call = NULL;
	if (!download->is_opening)
		free_download(download);
}

static void on_over(struct api_call *call, bool is_broken)
{
	struct download *download = call->own;

	(void)is_broken;
	if (download->gone)
		box_forget_gone(download->box, download->gone);
	release(download);
}

static void box_gone(struct box *box, void *data)
{
	struct download *download = data;
	struct api_call *call = download->call;

	(void)box;
	release(download);
	call->box = NULL;
	call->own = NULL;
	call->over = NULL;
	exchange_cut(call->exchange);
}

/* ---- failures ---- */

void e2b_files_fail(struct api_call *call, const char *user, const struct atoll_error *err)
{
	switch (err->errnum) {
	case ESRCH:
		api_refuse(call, 401, "invalid username: '%s'", user ? user : "user");
		break;
	case ENOENT:
		api_refuse(call, 404, "%s", err->text);
		break;
	case EISDIR:
	case ENOTDIR:
	case EINVAL:
	case ELOOP:
	case ENAMETOOLONG:
		api_refuse(call, 400, "%s", err->text);
		break;
	case EACCES:
	case EPERM:
	case EROFS:
		api_refuse(call, 403, "%s", err->text);
		break;
	case ENOSPC:
	case EDQUOT:
		api_refuse(call, 507, "not enough disk space available");
		break;
	case ENOTCONN:
		e2b_refuse_unknown_box(call, call->box ? call->box->id : "");
		break;
	case EAGAIN:
		api_fail(call, err);
		break;
	default:
		api_refuse(call, 500, "%s", err->text);
	}
}

/* ---- files without a size ---- */

static void on_drained(struct exchange *exchange, void *own)
{
	struct download *download = own;

	(void)exchange;
	if (download->call && download->pipe.fd >= 0)
		loop_watch(download->call->api->loop, &download->pipe, EPOLLIN);
}

/* The other end of the pipe is in the box: reads must never block. */
static void on_pipe(struct loop_watch *watch, uint32_t events)
{
	struct download *download = container_of(watch, struct download, pipe);
	struct exchange *exchange = download->call->exchange;
	size_t room = stream_room(download->call);
	char data[PIECE_MAX];
	struct iovec piece = {data, room < sizeof data ? room : sizeof data};
	ssize_t n = preadv2(watch->fd, &piece, 1, -1, RWF_NOWAIT);

	(void)events;
	if (n > 0) {
		exchange_send(exchange, data, (size_t)n);
		if (stream_room(download->call) == 0) {
			loop_watch(download->call->api->loop, watch, 0);
			exchange_on_drained(exchange, on_drained, download);
		}
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	close_pipe(download);
	if (n == 0)
		exchange_end(exchange);
	else
		exchange_cut(exchange);
}

static void send_pipe(struct download *download, int fd, bool is_head)
{
	struct api_call *call = download->call;

	if (!stream_open(call)) {
		close(fd);
		exchange_add(call->exchange, "Retry-After", "5");
		api_refuse(call, 429, "this tenant has as many streams as it may have");
		return;
	}
	call->status = 200;
	exchange_begin(call->exchange, 200, "application/octet-stream", UINT64_MAX);
	if (is_head) {
		close(fd);
		exchange_end(call->exchange);
		return;
	}
	download->pipe = (struct loop_watch){.fd = fd, .ready = on_pipe};
	if (loop_watch(call->api->loop, &download->pipe, EPOLLIN) < 0)
		exchange_cut(call->exchange);
}

/* ---- regular files ---- */

static void http_time(int64_t s, char ret[32])
{
	time_t time = (time_t)s;
	struct tm tm;

	if (!gmtime_r(&time, &tm) || strftime(ret, 32, "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0)
		ret[0] = '\0';
}

enum range {
	RANGE_WHOLE,
	RANGE_PART,
	RANGE_OUTSIDE,
};

static bool read_number(const char **text, uint64_t *ret)
{
	const char *at = *text;
	uint64_t value = 0;

	while (*at >= '0' && *at <= '9' && value < UINT64_MAX / 20)
		value = value * 10 + (uint64_t)(*at++ - '0');
	if (at == *text || (*at >= '0' && *at <= '9'))
		return false;
	*text = at;
	*ret = value;
	return true;
}

/* One range. An invalid one and a list of ranges are answered by the whole file, which RFC 9110
 * allows. */
static enum range read_range(const char *text, uint64_t size, uint64_t *from, uint64_t *length)
{
	uint64_t first, last;

	if (!text || strncasecmp(text, "bytes=", 6) != 0)
		return RANGE_WHOLE;
	text += 6;
	if (*text == '-') {
		text++;
		if (!read_number(&text, &last) || *text)
			return RANGE_WHOLE;
		*length = last < size ? last : size;
		*from = size - *length;
		return *length > 0 ? RANGE_PART : RANGE_OUTSIDE;
	}
	if (!read_number(&text, &first) || *text++ != '-')
		return RANGE_WHOLE;
	last = UINT64_MAX;
	if (*text && (!read_number(&text, &last) || *text || last < first))
		return RANGE_WHOLE;
	if (first >= size)
		return RANGE_OUTSIDE;
	*from = first;
	*length = (last < size ? last + 1 : size) - first;
	return RANGE_PART;
}

static void answer_outside(struct api_call *call, uint64_t size)
{
	char text[64];

	snprintf(text, sizeof text, "bytes */%" PRIu64, size);
	exchange_add(call->exchange, "Content-Range", text);
	api_refuse(call, 416, "the range lies behind the end of the file");
}

static void send_part(struct api_call *call, int fd, const struct stat *st, bool is_head)
{
	uint64_t size = (uint64_t)st->st_size, from = 0, length = size;
	const char *wanted = exchange_field(call->exchange, "range");
	const char *unless = exchange_field(call->exchange, "if-range");
	enum range range;
	char text[96];

	http_time(st->st_mtim.tv_sec, text);
	range = unless && !streq(unless, text) ? RANGE_WHOLE
					       : read_range(wanted, size, &from, &length);
	if (range == RANGE_OUTSIDE) {
		close(fd);
		answer_outside(call, size);
		return;
	}
	if (range == RANGE_PART) {
		snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from,
			 from + length - 1, size);
		exchange_add(call->exchange, "Content-Range", text);
	}
	call->status = range == RANGE_PART ? 206 : 200;
	exchange_begin(call->exchange, call->status, "application/octet-stream", length);
	if (!is_head) {
		exchange_send_file(call->exchange, fd, from, length);
		return;
	}
	close(fd);
	exchange_end(call->exchange);
}

static void send_file(struct api_call *call, int fd, const struct stat *st, bool is_head)
{
	const char *since = exchange_field(call->exchange, "if-modified-since");
	char text[32];

	http_time(st->st_mtim.tv_sec, text);
	if (text[0])
		exchange_add(call->exchange, "Last-Modified", text);
	exchange_add(call->exchange, "Accept-Ranges", "bytes");
	if (since && text[0] && streq(since, text)) {
		close(fd);
		api_answer_empty(call, 304);
		return;
	}
	send_part(call, fd, st, is_head);
}

/* ---- entry ---- */

/* A file name may contain any byte but NUL and '/': RFC 8187 encodes all of them. */
static void add_disposition(struct exchange *exchange, const char *name)
{
	cleanup_buf struct buf out = BUF_INIT(4096);

	buf_add_str(&out, "inline; filename*=utf-8''");
	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		    (*c >= '0' && *c <= '9') || strchr("-._~", *c))
			buf_add_char(&out, (char)*c);
		else
			buf_addf(&out, "%%%02X", *c);
	}
	if (buf_error(&out) == 0)
		exchange_add(exchange, "Content-Disposition", out.data);
}

static void send_opened(struct download *download, int fd, const struct guest_entry *entry)
{
	struct api_call *call = download->call;
	bool is_head = http_slice_is(exchange_head(call->exchange)->method, "HEAD");
	struct stat st;

	if (fstat(fd, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))) {
		close(fd);
		api_refuse(call, 500, "the guest has opened something else");
		return;
	}
	add_disposition(call->exchange, entry ? entry->name : "file");
	exchange_add(call->exchange, "Vary", "Accept-Encoding");
	if (S_ISFIFO(st.st_mode))
		send_pipe(download, fd, is_head);
	else
		send_file(call, fd, &st, is_head);
}

static void on_opened(int fd, const struct guest_entry *entry, const struct atoll_error *err,
		      void *data)
{
	struct download *download = data;

	download->is_opening = false;
	if (!download->call) {
		if (fd >= 0)
			close(fd);
		free_download(download);
	} else if (fd < 0) {
		e2b_files_fail(download->call, download->user, err);
	} else {
		send_opened(download, fd, entry);
	}
}

/* The server sends no encoding: a client that excludes "identity" is refused. */
static bool accepts_identity(const char *field)
{
	return !field ||
	       (!strstr(field, "identity;q=0") && !strstr(field, "identity; q=0") &&
		!strstr(field, "*;q=0")) ||
	       strstr(field, "q=0.");
}

void e2b_files(struct api_call *call, struct box *box)
{
	const char *path = exchange_query(call->exchange, "path");
	const char *user = exchange_query(call->exchange, "username");
	struct download *download;

	if (!accepts_identity(exchange_field(call->exchange, "accept-encoding"))) {
		api_refuse(call, 406, "no acceptable encoding");
		return;
	}
	download = calloc(1, sizeof *download);
	if (!download) {
		api_refuse(call, 500, "no memory");
		return;
	}
	download->call = call;
	download->box = box;
	download->pipe.fd = -1;
	download->user = user && user[0] ? strdup(user) : NULL;
	download->is_opening = true;
	download->gone = box_on_gone(box, box_gone, download);
	call->own = download;
	call->over = on_over;
	guest_open(box, download->user, path ? path : "", on_opened, download);
}
