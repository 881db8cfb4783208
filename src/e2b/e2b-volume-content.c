/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a volume
 *
 * A request is a job on a thread (box/volume.h). Writing a file is three: a draft is opened, the
 * body is written to it, and the draft is renamed to its place. If the client goes in the middle,
 * the old file stays.
 */
#include "e2b/e2b-volume-content.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "e2b/e2b-sign.h"
#include "httpd/httpd.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>

#define BODY_MAX   (16U << 10)
#define ANSWER_MAX (64U << 20)
#define PIECE_SIZE (64U << 10) /* of a list, in memory; a longer one is written to a file */
#define LOOK_EVERY (16U << 20) /* bytes between two checks of the free space */

struct content {
	struct volume_job job; /* the first member: the work item is in it */
	struct api_call *call; /* NULL: the client has gone */
	struct volume volume;
	void (*answer)(struct content *content);
	struct tenant *tenant; /* charged for the disk */
	bool is_running, has_draft, is_published;
	struct put *put; /* writes the draft; NULL: none */
	uint64_t written;

	/* A list, as the thread writes it; beyond PIECE_SIZE to a file, for which some of the
	 * tenant's scratch is reserved. */
	struct daemon *daemon;
	struct buf text;
	int list_fd;
	uint64_t n_bytes, reserved;
	bool has_some;
	atomic_bool is_gone; /* nobody waits any more */
};

/* ---- end ---- */

static void free_content(struct content *content)
{
	put_drop(content->put);
	buf_done(&content->text);
	if (content->list_fd >= 0)
		close(content->list_fd);
	if (content->tenant)
		content->tenant->scratch -= content->reserved;
	if (content->tenant)
		tenant_release_bytes(content->tenant, content->written, content->is_published);
	if (content->has_draft)
		volume_draft_drop(&content->job);
	volume_job_done(&content->job);
	free(content);
}

static void on_over(struct api_call *call, bool is_broken)
{
	struct content *content = call->own;

	(void)is_broken;
	content->call = NULL;
	atomic_store(&content->is_gone, true);
	if (!content->is_running)
		free_content(content);
}

static void fail(struct content *content, const struct atoll_error *err)
{
	unsigned status;

	switch (err->errnum) {
	case ENOENT:
	case ENOTDIR:
		status = 404;
		break;
	case EEXIST:
	case EBUSY:
	case ENOTEMPTY:
		status = 409;
		break;
	case ENOSPC:
	case EDQUOT:
		status = 507;
		break;
	case EAGAIN:
		status = 429;
		break;
	case EISDIR:
	case EINVAL:
	case E2BIG:
	case ENAMETOOLONG:
		status = 400;
		break;
	default:
		status = 500;
	}
	api_refuse(content->call, status, "%s", err->text);
}

static void on_done(struct work_item *item)
{
	struct content *content = (struct content *)(void *)item;

	content->is_running = false;
	if (content->job.op == VOLUME_DRAFT)
		content->has_draft = content->job.code == 0;
	if (content->job.op == VOLUME_COMMIT) {
		content->has_draft = false;
		content->is_published = content->job.code == 0;
	}
	if (!content->call)
		free_content(content);
	else if (content->job.code < 0)
		fail(content, &content->job.error);
	else
		content->answer(content);
}

static void start(struct content *content, enum volume_op op, const char *path,
		  void (*answer)(struct content *content))
{
	struct atoll_error err = {0};

	content->answer = answer;
	content->job.item.done = on_done;
	content->job.item.owner = content->call->charged;
	content->is_running = true;
	if (volume_job_start(content->call->api->daemon, &content->volume, &content->job, op, path,
			     &err) < 0) {
		content->is_running = false;
		fail(content, &err);
	}
}

/* ---- the request ---- */

/* A number of the query. False: it is not a number, and the call was answered. */
static bool read_number(struct api_call *call, const char *name, int64_t max, int64_t *ret)
{
	const char *text = exchange_query(call->exchange, name);
	char *end;
	long long value;

	if (!text || !*text)
		return true;
	value = strtoll(text, &end, 10);
	if (*end || value < 0 || value > max) {
		api_refuse(call, 400, "%s: is no number from 0 to %lld", name, (long long)max);
		return false;
	}
	*ret = value;
	return true;
}

static bool is_allowed(struct api_call *call, struct volume *ret)
{
	const char *field = exchange_field(call->exchange, "authorization");
	const char *id = api_parameter(call, 0);
	struct tenant *tenant = NULL;

	/* Without a token the answer is 401 whether the volume exists or not. */
	if (volume_find(call->api->daemon, id, ret) && field &&
	    strncasecmp(field, "Bearer ", 7) == 0 && e2b_is_same_token(field + 7, ret->token))
		tenant = tenant_find(call->api->daemon, ret->tenant);
	if (tenant)
		return api_charge(call, tenant, &tenant->own);
	api_refuse(call, 401, "no valid token of this volume: send one as Authorization: Bearer");
	return false;
}

/* NULL: the call was answered. */
static struct content *begin(struct api_call *call)
{
	struct content *content;
	struct volume volume;
	int64_t depth = 0, uid = -1, gid = -1, mode = -1;
	const char *force = exchange_query(call->exchange, "force");

	if (!is_allowed(call, &volume) || !read_number(call, "depth", 1000, &depth) ||
	    !read_number(call, "uid", UINT32_MAX - 1, &uid) ||
	    !read_number(call, "gid", UINT32_MAX - 1, &gid) ||
	    !read_number(call, "mode", 07777, &mode))
		return NULL;
	if (!exchange_query(call->exchange, "path")) {
		api_refuse(call, 400, "path: is missing");
		return NULL;
	}
	content = calloc(1, sizeof *content);
	if (!content) {
		api_refuse(call, 500, "no memory");
		return NULL;
	}
	content->call = call;
	content->tenant = call->charged;
	content->volume = volume;
	content->daemon = call->api->daemon;
	content->text = (struct buf)BUF_INIT(ANSWER_MAX);
	content->job.fd = content->list_fd = -1;
	content->job.depth = (uint32_t)depth;
	content->job.uid = uid;
	content->job.gid = gid;
	content->job.mode = mode;
	content->job.force = force && (streq(force, "true") || streq(force, "1"));
	call->own = content;
	call->over = on_over;
	return content;
}

static const char *path_of(const struct content *content)
{
	return exchange_query(content->call->exchange, "path");
}

/* ---- answers ---- */

static void write_time(struct json *json, const char *key, const struct timespec *time)
{
	char text[32];

	api_time((int64_t)time->tv_sec * 1000 + time->tv_nsec / 1000000, text);
	json_str(json, key, text);
}

static void write_entry(struct json *json, const struct volume_entry *entry)
{
	const char *name = strrchr(entry->path, '/') + 1;
	mode_t mode = entry->st.st_mode;

	json_open(json, NULL, '{');
	json_str(json, "name", *name ? name : "/");
	json_str(json, "type",
		 S_ISREG(mode)	 ? "file"
		 : S_ISDIR(mode) ? "directory"
		 : S_ISLNK(mode) ? "symlink"
				 : "unknown");
	json_str(json, "path", entry->path);
	json_uint(json, "size", (uint64_t)entry->st.st_size);
	json_uint(json, "mode", mode & 07777);
	json_uint(json, "uid", entry->uid);
	json_uint(json, "gid", entry->gid);
	write_time(json, "atime", &entry->st.st_atim);
	write_time(json, "mtime", &entry->st.st_mtim);
	write_time(json, "ctime", &entry->st.st_ctim);
	if (entry->target)
		json_str(json, "target", entry->target);
	json_close(json, '}');
}

static void answer_entry(struct content *content, unsigned status)
{
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {.out = &out};

	write_entry(&json, &content->job.entries[0]);
	api_answer(content->call, status, &out);
}

static void answer_stat(struct content *content)
{
	answer_entry(content, 200);
}

static void answer_made(struct content *content)
{
	answer_entry(content, 201);
}

static void answer_removed(struct content *content)
{
	api_answer_empty(content->call, 204);
}

/* All of it. Takes the descriptor. */
static void send_file(struct content *content, const char *type, int fd, const struct stat *st)
{
	struct exchange *exchange = content->call->exchange;

	content->call->status = 200;
	exchange_begin(exchange, 200, type, (uint64_t)st->st_size);
	exchange_send_file(exchange, fd, 0, (uint64_t)st->st_size);
}

static void answer_file(struct content *content)
{
	int fd = take_fd(&content->job.fd);
	struct stat st;

	if (fstat(fd, &st) < 0) {
		close(fd);
		api_refuse(content->call, 500, "it cannot be read");
		return;
	}
	send_file(content, "application/octet-stream", fd, &st);
}

/* ---- lists: written by the thread, in the memory of a piece ---- */

static int flush_list(struct content *content)
{
	int r = buf_error(&content->text);

	content->n_bytes += content->text.used;
	if (content->n_bytes > content->reserved)
		return -E2BIG;
	if (r == 0 && content->list_fd < 0)
		r = content->list_fd = daemon_scratch(content->daemon, &content->job.error);
	if (r >= 0)
		r = fd_write_all(content->list_fd, content->text.data, content->text.used);
	content->text.used = 0;
	return r < 0 ? r : 0;
}

static int put_entry(struct volume_job *job, const struct volume_entry *entry)
{
	struct content *content = (struct content *)(void *)job;
	struct json json = {.out = &content->text, .needs_comma = content->has_some};

	if (atomic_load(&content->is_gone))
		return -ECANCELED;
	write_entry(&json, entry);
	content->has_some = true;
	return content->text.used < PIECE_SIZE ? buf_error(&content->text) : flush_list(content);
}

static int end_list(struct volume_job *job)
{
	struct content *content = (struct content *)(void *)job;

	buf_add_char(&content->text, ']');
	return content->list_fd < 0 ? buf_error(&content->text) : flush_list(content);
}

static void answer_list(struct content *content)
{
	struct api_call *call = content->call;
	struct stat st;

	if (content->list_fd < 0) {
		api_answer(call, 200, &content->text);
		return;
	}
	if (fstat(content->list_fd, &st) < 0) {
		api_refuse(call, 500, "the list cannot be read");
		return;
	}
	call->scratch = (uint64_t)st.st_blocks * 512;
	call->charged->scratch += call->scratch;
	send_file(content, "application/json", take_fd(&content->list_fd), &st);
}

/* ---- handlers ---- */

void e2b_volume_list(struct api_call *call)
{
	struct content *content = begin(call);

	if (!content)
		return;
	if (!tenant_reserve_scratch(content->tenant, ANSWER_MAX)) {
		exchange_add(call->exchange, "Retry-After", "5");
		api_refuse(call, 429, "answers of this tenant, in files, wait to be read");
		return;
	}
	content->reserved = ANSWER_MAX;
	content->job.put = put_entry;
	content->job.end = end_list;
	buf_add_char(&content->text, '[');
	start(content, VOLUME_LIST, path_of(content), answer_list);
}

void e2b_volume_make_dir(struct api_call *call)
{
	struct content *content = begin(call);

	if (content)
		start(content, VOLUME_MAKE_DIR, path_of(content), answer_made);
}

void e2b_volume_stat(struct api_call *call)
{
	struct content *content = begin(call);

	if (content)
		start(content, VOLUME_STAT, path_of(content), answer_stat);
}

void e2b_volume_remove(struct api_call *call)
{
	struct content *content = begin(call);

	if (content)
		start(content, VOLUME_REMOVE, path_of(content), answer_removed);
}

void e2b_volume_read(struct api_call *call)
{
	struct content *content = begin(call);

	if (content)
		start(content, VOLUME_READ, path_of(content), answer_file);
}

static bool read_member(struct api_call *call, json_t *body, const char *name, int64_t max,
			int64_t *ret)
{
	json_t *value = json_object_get(body, name);

	if (!value || json_is_null(value))
		return true;
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > max) {
		api_refuse(call, 400, "%s: is no number from 0 to %lld", name, (long long)max);
		return false;
	}
	*ret = json_integer_value(value);
	return true;
}

static void read_change(struct api_call *call, json_t *body)
{
	struct content *content = call->own;

	if (read_member(call, body, "uid", UINT32_MAX - 1, &content->job.uid) &&
	    read_member(call, body, "gid", UINT32_MAX - 1, &content->job.gid) &&
	    read_member(call, body, "mode", 07777, &content->job.mode))
		start(content, VOLUME_CHANGE, path_of(content), answer_stat);
}

void e2b_volume_change(struct api_call *call)
{
	if (begin(call))
		api_read_json(call, BODY_MAX, false, read_change);
}

/* ---- writing ---- */

static void refuse_write(struct content *content, int errnum)
{
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_HOST, errnum, "write");
	fail(content, &err);
}

static void on_written(int r, void *data)
{
	struct content *content = data;

	if (r < 0)
		refuse_write(content, -r);
	else
		exchange_resume(content->call->exchange);
}

static void on_closed(int r, void *data)
{
	struct content *content = data;

	content->put = NULL;
	if (r < 0)
		refuse_write(content, -r);
	else
		start(content, VOLUME_COMMIT, path_of(content), answer_made);
}

static void on_piece(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct content *content = own;
	uint64_t before = content->written;
	struct atoll_error err = {0};
	int r;

	if (size == 0) {
		put_end(content->put, on_closed);
		return;
	}
	content->written += size;
	if (tenant_reserve_bytes(content->tenant, size, &err) < 0) {
		fail(content, &err);
		return;
	}
	if (before / LOOK_EVERY != content->written / LOOK_EVERY &&
	    !volume_has_room(put_fd(content->put))) {
		refuse_write(content, ENOSPC);
		return;
	}
	r = put_write(content->put, data, size, on_written);
	if (r < 0)
		refuse_write(content, -r);
	else
		exchange_pause(exchange);
}

static void read_body(struct content *content)
{
	struct api_call *call = content->call;

	content->put =
		put_new(call->api->daemon, call->charged, take_fd(&content->job.fd), content);
	if (content->put)
		exchange_read_bulk(call->exchange, on_piece, content);
	else
		refuse_write(content, ENOMEM);
}

void e2b_volume_write(struct api_call *call)
{
	struct content *content = begin(call);

	if (content)
		start(content, VOLUME_DRAFT, path_of(content), read_body);
}
