/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /files: one file as the body, or several in a form
 *
 * The guest opens each file inside, as the user, and sends the descriptor; meanwhile the body waits
 * in the socket. A thread writes the pieces of the body (put.h), so a file of any size needs little
 * memory.
 */
#include "e2b/e2b-upload.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "e2b/e2b-dataplane.h"
#include "e2b/e2b-files.h"
#include "e2b/e2b-objects.h"
#include "e2b/e2b-pairs.h"
#include "e2b/e2b-wait.h"
#include "httpd/httpd.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#define ANSWER_MAX   (16U << 20)
#define INFLATED_MAX (UINT64_C(64) << 30)
#define FILES_MAX    4096
#define METADATA_KEY 246
#define METADATA_ALL 4096
#define PREFIX_SIZE  9 /* of "user.e2b." */
#define COMPOSE_MAX  (1U << 20)

struct upload {
	struct api_call *call; /* NULL: the exchange has ended */
	struct box *box;
	uint64_t gone;
	char *user;
	const char *path;	/* of the query; NULL */
	struct multipart *form; /* NULL: the body is the file */
	struct box_pairs metadata;
	struct put *put; /* the file that is being written; NULL: none */
	bool is_opening, is_skipped;
	bool is_at_end; /* the body has ended: only the last file is to be closed */
	struct buf out;
	struct json json;
	char *written[FILES_MAX];
	size_t n;
};

/* ---- end ---- */

static void free_upload(struct upload *upload)
{
	for (size_t i = 0; i < upload->n; i++)
		free(upload->written[i]);
	put_drop(upload->put);
	multipart_free(upload->form);
	e2b_free_pairs(&upload->metadata);
	buf_done(&upload->out);
	free(upload->user);
	free(upload);
}

/* Frees the upload, unless the guest has not called back yet; the callback frees it then. */
static void release(struct upload *upload)
{
	upload->call = NULL;
	if (!upload->is_opening)
		free_upload(upload);
}

static void on_over(struct api_call *call, bool is_broken)
{
	struct upload *upload = call->own;

	(void)is_broken;
	if (upload->gone)
		box_forget_gone(upload->box, upload->gone);
	release(upload);
}

static void box_gone(struct box *box, void *data)
{
	struct upload *upload = data;
	struct api_call *call = upload->call;

	(void)box;
	release(upload);
	call->box = NULL;
	call->own = NULL;
	call->over = NULL;
	exchange_cut(call->exchange);
}

/* ---- metadata ---- */

static const char *add_metadata(struct box_pairs *pairs, struct http_slice name,
				struct http_slice value)
{
	struct box_pair *pair = &pairs->items[pairs->n++];

	pair->name = strndup(name.at, name.size);
	pair->value = strndup(value.at, value.size);
	if (!pair->name || !pair->value)
		return "no memory";
	if (name.size == 0 || name.size > METADATA_KEY)
		return "a key of metadata has 1 to 246 bytes";
	for (char *c = pair->name; *c; c++) {
		if (*c <= ' ' || *c > '~')
			return "a key of metadata is printable ASCII";
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	}
	for (const char *c = pair->value; *c; c++) {
		if (*c < ' ' || *c > '~')
			return "a value of metadata is printable ASCII";
	}
	return NULL;
}

/* NULL, or the mistake. */
static const char *read_metadata(const struct http_head *head, struct box_pairs *ret)
{
	static const char prefix[] = "x-metadata-";
	const size_t n = sizeof prefix - 1;
	const char *why = NULL;
	size_t all = 0;

	ret->items = calloc(head->n_fields + 1, sizeof *ret->items);
	if (!ret->items)
		return "no memory";
	for (size_t i = 0; !why && i < head->n_fields; i++) {
		struct http_slice name = head->fields[i].name, value = head->fields[i].value;

		if (name.size < n || strncasecmp(name.at, prefix, n) != 0)
			continue;
		name = (struct http_slice){name.at + n, name.size - n};
		all += PREFIX_SIZE + name.size + value.size;
		why = add_metadata(ret, name, value);
	}
	return why ? why : all > METADATA_ALL ? "metadata has at most 4096 bytes in all" : NULL;
}

/* ---- one file ---- */

static bool was_written(const struct upload *upload, const char *path)
{
	for (size_t i = 0; i < upload->n; i++) {
		if (streq(upload->written[i], path))
			return true;
	}
	return false;
}

static bool start_file(struct upload *upload, int fd, const struct guest_entry *entry)
{
	struct stat st;

	upload->put = put_new(upload->box->daemon, upload->box->tenant, fd, upload);
	if (!upload->put) {
		api_refuse(upload->call, 500, "no memory");
		return false;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !entry) {
		api_refuse(upload->call, 500, "the guest has opened something else");
		return false;
	}
	if (was_written(upload, entry->path)) {
		api_refuse(upload->call, 400, "'%s' is uploaded more than once", entry->path);
		return false;
	}
	upload->written[upload->n] = strdup(entry->path);
	if (!upload->written[upload->n]) {
		api_refuse(upload->call, 500, "no memory");
		return false;
	}
	upload->n++;
	e2b_write_uploaded(&upload->json, entry);
	return true;
}

static void on_piece(struct exchange *exchange, const char *data, size_t size, void *own);

static void on_opened(int fd, const struct guest_entry *entry, const struct atoll_error *err,
		      void *data)
{
	struct upload *upload = data;

	upload->is_opening = false;
	if (!upload->call) {
		if (fd >= 0)
			close(fd);
		free_upload(upload);
		return;
	}
	if (fd < 0)
		e2b_files_fail(upload->call, upload->user, err);
	else if (!start_file(upload, fd, entry))
		;
	else if (upload->form)
		exchange_resume(upload->call->exchange);
	else
		exchange_read_bulk(upload->call->exchange, on_piece, upload);
}

static void open_file(struct upload *upload, const char *path)
{
	upload->is_opening = true;
	guest_write(upload->box, upload->user, path, &upload->metadata, on_opened, upload);
}

static void fail_write(struct upload *upload, int r)
{
	struct atoll_error err = {0};

	error_set(&err, ATOLL_FAULT_HOST, -r, "write");
	e2b_files_fail(upload->call, upload->user, &err);
}

static void on_written(int r, void *data)
{
	struct upload *upload = data;

	if (r < 0)
		fail_write(upload, r);
	else
		exchange_resume(upload->call->exchange);
}

/* Writes the piece and pauses the body; or answers with an error. */
static void write_piece(struct upload *upload, const char *data, size_t size)
{
	int r = put_write(upload->put, data, size, on_written);

	if (r < 0)
		fail_write(upload, r);
	else
		exchange_pause(upload->call->exchange);
}

static void finish(struct upload *upload);

static void on_closed(int r, void *data)
{
	struct upload *upload = data;

	upload->put = NULL;
	if (r < 0)
		fail_write(upload, r);
	else if (upload->is_at_end)
		finish(upload);
	else
		exchange_resume(upload->call->exchange);
}

static void finish(struct upload *upload)
{
	if (upload->form && !multipart_is_complete(upload->form)) {
		api_refuse(upload->call, 400, "the form has no end");
		return;
	}
	if (upload->n == 0) {
		api_refuse(upload->call, 400, "there is no file in the form: a part named 'file'");
		return;
	}
	upload->is_at_end = true;
	if (upload->put) {
		put_end(upload->put, on_closed);
		return;
	}
	json_close(&upload->json, ']');
	api_answer(upload->call, 200, &upload->out);
}

/* ---- several in a form ---- */

/* False: the body waits, or the call was answered. */
static bool begin_part(struct upload *upload)
{
	const char *path = upload->path ? upload->path : multipart_filename(upload->form);

	upload->is_skipped = !streq(multipart_name(upload->form), "file");
	if (upload->is_skipped)
		return true;
	if (!path || !*path)
		api_refuse(upload->call, 400, "a file without a name, and no path in the query");
	else if (upload->n == FILES_MAX)
		api_refuse(upload->call, 400, "more than %d files at a time", FILES_MAX);
	else
		open_file(upload, path);
	return false;
}

/* False: the call was answered, or the other bytes have to wait. */
static bool handle_piece(struct upload *upload, enum multipart_kind kind,
			 const struct multipart_piece *piece)
{
	switch (kind) {
	case MULTIPART_PART:
		return begin_part(upload);
	case MULTIPART_DATA:
		if (upload->is_skipped)
			return true;
		write_piece(upload, piece->content.at, piece->content.size);
		return false;
	case MULTIPART_LAST:
		if (!upload->put)
			return true;
		put_end(upload->put, on_closed);
		return false;
	case MULTIPART_BAD:
		api_refuse(upload->call, 400, "the form is broken: %s",
			   multipart_problem(upload->form));
		return false;
	default:
		return true;
	}
}

static void on_form_piece(struct upload *upload, const char *data, size_t size)
{
	struct multipart_piece piece;
	enum multipart_kind kind;

	while ((kind = multipart_step(upload->form, data, size, &piece)) != MULTIPART_MORE) {
		data += piece.used;
		size -= piece.used;
		if (handle_piece(upload, kind, &piece))
			continue;
		if (upload->is_opening || (upload->put && put_is_busy(upload->put)))
			exchange_unread(upload->call->exchange, size);
		return;
	}
}

static void on_piece(struct exchange *exchange, const char *data, size_t size, void *own)
{
	struct upload *upload = own;

	(void)exchange;
	if (!upload->call)
		return;
	if (size == 0)
		finish(upload);
	else if (upload->form)
		on_form_piece(upload, data, size);
	else
		write_piece(upload, data, size);
}

/* ---- entry ---- */

static struct upload *new_upload(struct api_call *call, struct box *box)
{
	struct upload *upload = calloc(1, sizeof *upload);
	const char *user = exchange_query(call->exchange, "username");

	if (!upload)
		return NULL;
	upload->call = call;
	upload->box = box;
	upload->user = user && user[0] ? strdup(user) : NULL;
	upload->path = exchange_query(call->exchange, "path");
	upload->out = (struct buf)BUF_INIT(ANSWER_MAX);
	upload->json = (struct json){&upload->out};
	json_open(&upload->json, NULL, '[');
	upload->gone = box_on_gone(box, box_gone, upload);
	call->own = upload;
	call->over = on_over;
	return upload;
}

static bool is_type(const char *type, const char *wanted)
{
	size_t n = strlen(wanted);

	return strncasecmp(type, wanted, n) == 0 &&
	       (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}

static void start(struct upload *upload, const char *type)
{
	struct api_call *call = upload->call;

	if (is_type(type, "multipart/form-data")) {
		if (multipart_new(type, &upload->form) < 0)
			api_refuse(call, 400, "multipart/form-data without a good boundary");
		else if (exchange_inflate(call->exchange, INFLATED_MAX))
			exchange_read_bulk(call->exchange, on_piece, upload);
	} else if (!is_type(type, "application/octet-stream")) {
		api_refuse(
			call, 400,
			"Content-Type is neither multipart/form-data nor application/octet-stream");
	} else if (!upload->path || !*upload->path) {
		api_refuse(call, 400, "path is missing in the query");
	} else if (exchange_inflate(call->exchange, INFLATED_MAX)) {
		open_file(upload, upload->path);
	}
}

void e2b_upload(struct api_call *call, struct box *box)
{
	const char *type = exchange_field(call->exchange, "content-type");
	struct upload *upload = new_upload(call, box);
	const char *why;

	if (!upload) {
		api_refuse(call, 500, "no memory");
		return;
	}
	why = read_metadata(exchange_head(call->exchange), &upload->metadata);
	if (why)
		api_refuse(call, 400, "%s", why);
	else
		start(upload, type ? type : "");
}

/* ---- compose ---- */

static void on_composed(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
			void *data)
{
	struct e2b_wait *wait = data;
	cleanup_free char *user = take_ptr(wait->text);
	struct api_call *call = e2b_wait_end(wait);
	cleanup_buf struct buf out = BUF_INIT(ANSWER_MAX);
	struct json json = {&out};

	if (!call)
		return;
	if (err->fault != ATOLL_FAULT_NONE || n == 0) {
		e2b_files_fail(call, user, err);
		return;
	}
	e2b_write_uploaded(&json, &entries[0]);
	api_answer(call, 200, &out);
}

static void forget_id(struct api_call *call, bool is_broken)
{
	(void)is_broken;
	free(take_ptr(call->own));
}

/* The box may end while the body is read. NULL: it has, and the call was answered. */
static struct box *find_box(struct api_call *call)
{
	cleanup_free char *id = take_ptr(call->own);
	struct box *box = box_find_any(call->api->daemon, id);

	call->over = NULL;
	if (box && box->state == BOX_RUNNING)
		return box;
	e2b_refuse_unknown_box(call, id);
	return NULL;
}

static void read_compose(struct api_call *call, json_t *body)
{
	json_t *sources = json_object_get(body, "source_paths"), *source;
	const char *to = json_string_value(json_object_get(body, "destination"));
	const char *user = json_string_value(json_object_get(body, "username"));
	size_t n = json_array_size(sources), i;
	cleanup_free char **paths = calloc(n + 1, sizeof *paths);
	struct box *box = find_box(call);
	struct e2b_wait *wait;

	if (!box)
		return;
	json_array_foreach(sources, i, source)
	{
		if (paths)
			paths[i] = (char *)json_string_value(source);
		if (!json_is_string(source))
			n = 0;
	}
	if (!paths || n == 0 || !to) {
		api_refuse(call, 400, "source_paths is a list of texts, and destination a text");
		return;
	}
	wait = e2b_wait_new(call);
	if (!wait)
		return;
	wait->text = user && user[0] ? strdup(user) : NULL;
	guest_compose(box, wait->text, paths, n, to, on_composed, wait);
}

void e2b_compose(struct api_call *call, struct box *box)
{
	call->box = NULL;
	call->own = strdup(box->id);
	call->over = forget_id;
	if (!call->own)
		api_refuse(call, 500, "no memory");
	else
		api_read_json(call, COMPOSE_MAX, true, read_compose);
}
