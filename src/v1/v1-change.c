/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-change.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* The changes of a sandbox in its workspace: as a diff, as an archive. Threads of box/ make
 * both. */

#define TEXT_MAX   (64U << 20)
#define PIECE_SIZE (1U << 20) /* made in memory before it is written */
/* The limit of a file that is compared: both sides are read into the memory of the daemon. */
#define FILE_MAX ((size_t)8 << 20)

/* ---- diff ---- */

struct diff_work {
	struct v1_work work;
	struct buf out;	  /* the next bytes for `fd` */
	int fd;		  /* a file with the answer: a slow client costs no memory */
	uint64_t n_bytes; /* in `fd` */
	char *path;	  /* only this path and paths beneath; NULL: all */
	bool is_text, with_lines;
};

static bool is_wanted(const char *above, const char *path)
{
	size_t length = above ? strlen(above) : 0;

	return length == 0 || (path && strncmp(path, above, length) == 0 &&
			       (path[length] == '/' || path[length] == '\0'));
}

static const char *kind_name(enum atoll_change_kind kind)
{
	static const char *const kinds[] = {
		[ATOLL_ADDED] = "added",
		[ATOLL_CHANGED] = "changed",
		[ATOLL_DELETED] = "deleted",
		[ATOLL_RENAMED] = "renamed",
	};

	return kinds[kind];
}

static void write_object(struct json *json, const char *key, const struct stat *st)
{
	static const struct {
		mode_t type;
		const char *word;
	} words[] = {
		{S_IFREG, "file"},	   {S_IFDIR, "directory"}, {S_IFLNK, "link"},
		{S_IFIFO, "fifo"},	   {S_IFSOCK, "socket"},   {S_IFCHR, "character device"},
		{S_IFBLK, "block device"},
	};
	const char *word = "unknown";
	char mode[8];

	if (!st->st_mode) {
		json_none(json, key);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if ((st->st_mode & S_IFMT) == words[i].type)
			word = words[i].word;
	}
	snprintf(mode, sizeof mode, "%04o", st->st_mode & 07777);
	json_open(json, key, '{');
	json_str(json, "type", word);
	json_str(json, "mode", mode);
	json_uint(json, "size", (uint64_t)st->st_size);
	json_close(json, '}');
}

static void write_change(struct json *json, const struct atoll_change *change)
{
	static const char *const parts[] = {"content", "type", "mode", "xattrs", "owner", "time"};

	json_str(json, "path", change->path);
	json_str(json, "from", change->from);
	json_str(json, "kind", kind_name(change->kind));
	json_open(json, "parts", '[');
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (change->parts & 1U << i)
			json_str(json, NULL, parts[i]);
	}
	json_close(json, ']');
	json_str(json, "mark", change->mark);
	json_str(json, "conflict", change->conflict);
	write_object(json, "before", &change->before);
	write_object(json, "after", &change->after);
}

static int add_json(struct diff_work *own, struct json *json, struct atoll_changes *changes,
		    size_t i, struct atoll_error *err)
{
	cleanup_free char *text = NULL;
	size_t size, added = 0, removed = 0;
	int r = own->with_lines ? atoll_change_text(changes, i, &text, &size, &added, &removed, err)
				: 0;

	if (r < 0)
		return r;
	json_open(json, NULL, '{');
	write_change(json, &changes->items[i]);
	if (own->with_lines) {
		json_bool(json, "binary", changes->items[i].is_binary);
		json_uint(json, "added", added);
		json_uint(json, "removed", removed);
	}
	json_close(json, '}');
	return 0;
}

/* Writes a heading for a person, then the unified diff. */
static int add_text(struct diff_work *own, struct atoll_changes *changes, size_t i,
		    struct atoll_error *err)
{
	const struct atoll_change *change = &changes->items[i];
	cleanup_free char *text = NULL;
	size_t size, added, removed;
	int r = atoll_change_text(changes, i, &text, &size, &added, &removed, err);
	char path[1024], from[1024];

	if (r < 0)
		return r;
	buf_addf(&own->out, "%s%s %s", change->mark ? "! " : "", kind_name(change->kind),
		 str_show(change->path, path, sizeof path));
	if (change->from)
		buf_addf(&own->out, " from %s", str_show(change->from, from, sizeof from));
	if (change->mark)
		buf_addf(&own->out, " (%s)", change->mark);
	if (change->conflict)
		buf_addf(&own->out, " (conflict: %s)", change->conflict);
	buf_add_char(&own->out, '\n');
	buf_add(&own->out, text, size);
	return 0;
}

/* Writes the text in memory to the file, once it has PIECE_SIZE bytes or is the end. */
static int write_pieces(struct diff_work *own, bool is_end, struct atoll_error *err)
{
	int r = buf_error(&own->out);

	if (r == -E2BIG || own->n_bytes + own->out.used > own->work.reserved)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "the differences have more than %u MiB; ask for a 'path', or "
				 "export",
				 TEXT_MAX >> 20);
	if (r == 0 && (is_end || own->out.used >= PIECE_SIZE)) {
		r = fd_write_all(own->fd, own->out.data, own->out.used);
		own->n_bytes += own->out.used;
		own->out.used = 0;
	}
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "list the changes") : 0;
}

static int list_changes(struct diff_work *own, struct atoll_changes *changes,
			struct atoll_error *err)
{
	struct json json = {.out = &own->out};
	int r = 0;

	if (!own->is_text) {
		json_open(&json, NULL, '{');
		json_str(&json, "record", changes->record->id);
		json_open(&json, "changes", '[');
	}
	for (size_t i = 0; i < changes->n && r == 0; i++) {
		if (!v1_work_is_wanted(&own->work))
			return -ECANCELED;
		if (!is_wanted(own->path, changes->items[i].path) &&
		    !is_wanted(own->path, changes->items[i].from))
			continue;
		r = own->is_text ? add_text(own, changes, i, err)
				 : add_json(own, &json, changes, i, err);
		if (r == 0)
			r = write_pieces(own, false, err);
	}
	if (!own->is_text) {
		json_close(&json, ']');
		json_close(&json, '}');
	}
	return r < 0 ? r : write_pieces(own, true, err);
}

static int run_diff(struct v1_work *work, struct atoll_error *err)
{
	struct diff_work *own = (struct diff_work *)work;
	struct atoll_changes *changes;
	int r;

	own->fd = v1_scratch(work, err);
	r = own->fd < 0 ? own->fd : atoll_changes_open(work->sandbox, &changes, err);
	if (r < 0)
		return r;
	changes->text_max = FILE_MAX;
	r = list_changes(own, changes, err);
	atoll_changes_close(changes);
	buf_done(&own->out);
	return r;
}

static void answer_diff(struct v1_work *work, struct api_call *call)
{
	struct diff_work *own = (struct diff_work *)work;

	v1_answer_scratch(call, own->is_text ? "text/plain; charset=utf-8" : "application/json",
			  take_fd(&own->fd));
}

static void free_diff(struct v1_work *work)
{
	struct diff_work *own = (struct diff_work *)work;

	buf_done(&own->out);
	free(own->path);
	if (own->fd >= 0)
		close(own->fd);
}

void v1_diff(struct api_call *call)
{
	const char *format = exchange_query(call->exchange, "format"),
		   *path = exchange_query(call->exchange, "path");
	struct diff_work *own;
	struct box *box;
	bool with_lines;

	if (format && !streq(format, "json") && !streq(format, "text")) {
		v1_refuse(call, 400, "request", "'format' has to be 'json' or 'text'");
		return;
	}
	if (!v1_query_bool(call, "lines", &with_lines))
		return;
	box = v1_box(call);
	own = box ? v1_work_new(call, sizeof *own, box) : NULL;
	if (!own)
		return;
	own->out = (struct buf)BUF_INIT(TEXT_MAX);
	own->fd = -1;
	own->is_text = format && streq(format, "text");
	own->with_lines = with_lines;
	own->path = path && path[0] ? strdup(path) : NULL;
	own->work.run = run_diff;
	own->work.answer = answer_diff;
	own->work.free = free_diff;
	own->work.compares = own->is_text || with_lines;
	if (v1_work_reserve(&own->work, TEXT_MAX))
		v1_work_submit(&own->work);
}

/* ---- export ---- */

enum export_form {
	EXPORT_PATCH,
	EXPORT_TAR,
	EXPORT_OCI,
};

struct export_work {
	struct v1_work work;
	enum export_form form;
	int fd;
};

static int run_export(struct v1_work *work, struct atoll_error *err)
{
	struct export_work *own = (struct export_work *)work;
	const struct atoll_export_limits limits = {
		.max_bytes = work->reserved,
		.max_file = FILE_MAX,
		.is_wanted = v1_work_is_wanted,
		.data = work,
	};
	struct atoll_archive_report report;

	own->fd = v1_scratch(work, err);
	if (own->fd < 0)
		return own->fd;
	if (own->form == EXPORT_PATCH)
		return atoll_export_patch(work->sandbox, &limits, own->fd, NULL, err);
	return atoll_export_tar(work->sandbox,
				own->form == EXPORT_OCI ? ATOLL_TAR_OCI : ATOLL_TAR_PLAIN, &limits,
				own->fd, &report, err);
}

static void answer_export(struct v1_work *work, struct api_call *call)
{
	struct export_work *own = (struct export_work *)work;

	v1_answer_scratch(call, own->form == EXPORT_PATCH ? "text/x-patch" : "application/x-tar",
			  take_fd(&own->fd));
}

static void free_export(struct v1_work *work)
{
	struct export_work *own = (struct export_work *)work;

	if (own->fd >= 0)
		close(own->fd);
}

void v1_export(struct api_call *call)
{
	static const char *const forms[] = {
		[EXPORT_PATCH] = "patch", [EXPORT_TAR] = "tar", [EXPORT_OCI] = "oci"};
	const char *format = exchange_query(call->exchange, "format");
	size_t form = EXPORT_TAR;
	struct export_work *own;
	struct box *box;

	if (format) {
		for (form = 0; form < ARRAY_SIZE(forms) && !streq(forms[form], format); form++)
			;
	}
	if (form == ARRAY_SIZE(forms)) {
		v1_refuse(call, 400, "request", "'format' has to be 'patch', 'tar' or 'oci'");
		return;
	}
	box = v1_box(call);
	own = box ? v1_work_new(call, sizeof *own, box) : NULL;
	if (!own)
		return;
	own->fd = -1;
	own->form = (enum export_form)form;
	own->work.run = run_export;
	own->work.answer = answer_export;
	own->work.free = free_export;
	own->work.compares = form == EXPORT_PATCH;
	/* An archive adds heads to the files, and a patch a quarter to a binary file. */
	if (v1_work_reserve(&own->work, ((uint64_t)box->disk_mib << 20) * 5 / 4 + TEXT_MAX))
		v1_work_submit(&own->work);
}
