/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/places.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"
#include "spec/spec.h"

#include <atoll/layer.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define FILE_NAME "places"
#define FILE_NEW  "places.new"
#define FILE_MAX  ((size_t)4 << 20)
/* A list of this size is cleared of directories that are gone before something is added. */
#define FILE_FULL ((size_t)64 << 10)

static bool has(const struct buf *list, const char *path)
{
	for (size_t at = 0; at < list->used; at += strlen(list->data + at) + 1) {
		if (streq(list->data + at, path))
			return true;
	}
	return false;
}

/* ---- what a run writes ---- */

static void add(struct buf *wanted, const char *path)
{
	char real[PATH_MAX];

	fd_real_path(path, real);
	if (!has(wanted, real))
		buf_add(wanted, real, strlen(real) + 1);
}

/* A pattern's writable part begins where its literal part ends. */
static void add_rule(struct buf *wanted, const struct spec_rule *rule)
{
	cleanup_free char *path = strdup(rule->path);
	size_t length = rule->is_pattern ? path_literal_length(rule->path) : strlen(rule->path);

	if (!path) {
		wanted->failed = ENOMEM;
		return;
	}
	path[length ? length : 1] = '\0';
	add(wanted, path);
}

/* Only what somebody asked for: private places such as /tmp are none of the host's. */
static void list_roots(const struct spec *spec, struct buf *wanted)
{
	if (spec->workspace_mode != SPEC_WORKSPACE_READ_ONLY)
		add(wanted, spec->workspace);
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];

		if (rule->access == SPEC_WRITE && !streq(rule->origin, "default"))
			add_rule(wanted, rule);
	}
}

/* ---- the file ---- */

static int failed(int code, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, -code,
			 "the list of directories that runs have written ('" FILE_NAME
			 "' in the store)");
}

/* -ENOENT without a text if there is none. */
static int read_list(int store, struct buf *list, struct atoll_error *err)
{
	cleanup_fd int fd = openat(store, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : failed(-errno, err);
	r = fd_read_all(fd, list);
	if (r < 0)
		return failed(r, err);
	/* A write that was cut off has no NUL at its end. */
	if (list->used && list->data[list->used - 1])
		buf_add_char(list, '\0');
	return buf_error(list) < 0 ? error_oom(err) : 0;
}

/* Those that are still there; or "/", which is everywhere, if they are too many. */
static int write_anew(int store, const struct buf *list, struct atoll_error *err)
{
	cleanup_buf struct buf kept = BUF_INIT(FILE_MAX / 2);
	cleanup_fd int fd = -1;
	struct stat st;
	int r;

	for (size_t at = 0; at < list->used; at += strlen(list->data + at) + 1) {
		const char *path = list->data + at;

		if (lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
			buf_add(&kept, path, strlen(path) + 1);
	}
	fd = openat(store, FILE_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed(-errno, err);
	r = buf_error(&kept) < 0 ? fd_write_all(fd, "/", 2)
				 : fd_write_all(fd, kept.data ? kept.data : "", kept.used);
	if (r == 0 && renameat(store, FILE_NEW, store, FILE_NAME) < 0)
		r = -errno;
	return r < 0 ? failed(r, err) : 0;
}

static int append(int store, const struct buf *more, struct atoll_error *err)
{
	cleanup_fd int fd = openat(store, FILE_NAME,
				   O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, more->data, more->used);

	return r < 0 ? failed(r, err) : 0;
}

/* With the store's list locked: another run may add to it or write it anew. */
static int add_to_list(int store, const struct buf *wanted, struct atoll_error *err)
{
	cleanup_buf struct buf list = BUF_INIT(FILE_MAX), more = BUF_INIT(FILE_MAX);
	cleanup_fd int lock = openat(store, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	while ((r = flock(lock, LOCK_EX)) < 0 && errno == EINTR)
		;
	if (lock < 0 || r < 0)
		return failed(-errno, err);
	r = read_list(store, &list, err);
	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t at = 0; at < wanted->used; at += strlen(wanted->data + at) + 1) {
		if (!has(&list, wanted->data + at))
			buf_add(&more, wanted->data + at, strlen(wanted->data + at) + 1);
	}
	if (buf_error(&more) < 0)
		return error_oom(err);
	if (!more.used)
		return 0;
	if (list.used <= FILE_FULL)
		return append(store, &more, err);
	buf_add(&list, more.data, more.used);
	return buf_error(&list) < 0 ? error_oom(err) : write_anew(store, &list, err);
}

static int note(const struct buf *wanted, struct atoll_error *err)
{
	cleanup_buf struct buf list = BUF_INIT(FILE_MAX);
	char path[PATH_MAX];
	cleanup_fd int store = -1;
	bool is_new = false;
	int r;

	if (buf_error(wanted) < 0)
		return error_oom(err);
	/* Also of a run that keeps nothing else: its files stay. A run that needs the store fails
	 * of it by itself, in its own words. */
	store = wanted->used ? state_open(true, path, err) : -ENOENT;
	if (store < 0) {
		*err = (struct atoll_error){0};
		return 0;
	}
	/* Mostly all of them are known: then nobody is waited for. */
	r = read_list(store, &list, err);
	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t at = 0; at < wanted->used; at += strlen(wanted->data + at) + 1)
		is_new |= !has(&list, wanted->data + at);
	return is_new ? add_to_list(store, wanted, err) : 0;
}

int layer_places_note(const struct spec *spec, struct atoll_error *err)
{
	cleanup_buf struct buf wanted = BUF_INIT(FILE_MAX);

	list_roots(spec, &wanted);
	return note(&wanted, err);
}

int layer_places_note_paths(char *const *paths, size_t n, struct atoll_error *err)
{
	cleanup_buf struct buf wanted = BUF_INIT(FILE_MAX);

	for (size_t i = 0; i < n; i++)
		add(&wanted, paths[i]);
	return note(&wanted, err);
}

/* ---- looking up ---- */

static bool is_within_one(const struct buf *dirs, const char *place)
{
	for (size_t at = 0; at < dirs->used; at += strlen(dirs->data + at) + 1) {
		if (path_is_within(dirs->data + at, place))
			return true;
	}
	return false;
}

static int find_in_records(const struct buf *dirs, char *ret, size_t size, struct atoll_error *err)
{
	struct atoll_record *records = NULL;
	size_t n = 0;
	int r = atoll_records_list(false, &records, &n, err);

	for (size_t i = 0; r >= 0 && i < n && !ret[0]; i++) {
		const char *workspace = records[i].workspace;

		if (workspace && workspace[0] == '/' && is_within_one(dirs, workspace))
			snprintf(ret, size, "%s", workspace);
	}
	atoll_records_free(records, n);
	return r < 0 ? r : 0;
}

int layer_places_find(const struct buf *dirs, char *ret, size_t size, struct atoll_error *err)
{
	cleanup_buf struct buf list = BUF_INIT(FILE_MAX);
	char path[PATH_MAX], real[PATH_MAX];
	cleanup_fd int store = state_open(false, path, err);
	int r;

	ret[0] = '\0';
	if (store < 0)
		return store == -ENOENT ? 0 : store;
	fd_real_path(path, real);
	if (is_within_one(dirs, real))
		snprintf(ret, size, "%s", real);
	r = read_list(store, &list, err);
	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t at = 0; at < list.used && !ret[0]; at += strlen(list.data + at) + 1) {
		if (is_within_one(dirs, list.data + at))
			snprintf(ret, size, "%s", list.data + at);
	}
	return ret[0] ? 0 : find_in_records(dirs, ret, size, err);
}
