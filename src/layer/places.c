/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/places.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"
#include "base/uapi.h"
#include "spec/spec.h"

#include <atoll/layer.h>
#include <errno.h>
#include <inttypes.h>
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
#define FILE_FULL ((size_t)512 << 10)
/* Identities of directories that are no longer at their path: the newest are kept. */
#define MOVED_MAX 4096

/* ---- lines ---- */

/* One directory of the list. Either may be NULL: the path is gone, or an older version wrote no
 * identity. */
struct place {
	const char *path, *id;
};

static bool next_place(const struct buf *list, size_t *at, struct place *ret)
{
	*ret = (struct place){0};
	if (*at >= list->used)
		return false;
	if (list->data[*at] != '=') {
		ret->path = list->data + *at;
		*at += strlen(ret->path) + 1;
	}
	if (*at < list->used && list->data[*at] == '=') {
		ret->id = list->data + *at;
		*at += strlen(ret->id) + 1;
	}
	return true;
}

static void add_place(struct buf *list, const struct place *place)
{
	if (place->path)
		buf_add(list, place->path, strlen(place->path) + 1);
	if (place->id)
		buf_add(list, place->id, strlen(place->id) + 1);
}

static bool has(const struct buf *list, const struct place *wanted)
{
	struct place place;

	for (size_t at = 0; next_place(list, &at, &place);) {
		if (place.path && streq(place.path, wanted->path) &&
		    (!wanted->id || (place.id && streq(place.id, wanted->id))))
			return true;
	}
	return false;
}

static bool has_text(const struct buf *texts, const char *text)
{
	for (size_t at = 0; at < texts->used; at += strlen(texts->data + at) + 1) {
		if (streq(texts->data + at, text))
			return true;
	}
	return false;
}

/* The number of a device can be another one after a restart (btrfs, NFS), the time of birth cannot:
 * where a file system has it, it stands in the place of the device. */
void layer_place_identify(int dir_fd, const char *name, struct buf *ret)
{
	struct statx stx;
	struct stat st;

	if (statx(dir_fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME,
		  &stx) == 0 &&
	    stx.stx_mask & STATX_BTIME)
		buf_addf(ret, "=%" PRIu64 "@%" PRId64 ".%u", (uint64_t)stx.stx_ino,
			 (int64_t)stx.stx_btime.tv_sec, stx.stx_btime.tv_nsec);
	else if (fstatat(dir_fd, name, &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == 0)
		buf_addf(ret, "=%" PRIu64 ":%" PRIu64, (uint64_t)st.st_ino, (uint64_t)st.st_dev);
	else
		return;
	buf_add_char(ret, '\0');
}

/* ---- what a run writes ---- */

static void add(struct buf *wanted, const char *path)
{
	cleanup_buf struct buf id = BUF_INIT(128);
	char real[PATH_MAX];
	struct place place = {.path = real};

	fd_real_path(path, real);
	layer_place_identify(AT_FDCWD, real, &id);
	place.id = id.data;
	if (!has(wanted, &place))
		add_place(wanted, &place);
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

/* -ENOENT without a text if there is none. 1: the last line is not whole. */
static int read_list(int store, struct buf *list, struct atoll_error *err)
{
	cleanup_fd int fd = openat(store, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	bool is_cut_off;
	int r;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : failed(-errno, err);
	r = fd_read_all(fd, list);
	if (r < 0)
		return failed(r, err);
	/* A write that was cut off has no NUL at its end. */
	is_cut_off = list->used && list->data[list->used - 1];
	if (is_cut_off)
		buf_add_char(list, '\0');
	return buf_error(list) < 0 ? error_oom(err) : is_cut_off;
}

static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Each path that is still there, once, with its identity; then the newest identities of the others,
 * which may have been moved. */
static void keep_present(const struct buf *list, struct buf *kept)
{
	cleanup_buf struct buf moved = BUF_INIT(FILE_MAX);
	size_t n_moved = 0, start = 0;
	struct place place;

	for (size_t at = 0; next_place(list, &at, &place);) {
		if (place.path && !has(kept, &(struct place){.path = place.path}) &&
		    is_there(place.path)) {
			add_place(kept, &place);
		} else if (place.id) {
			buf_add(&moved, place.id, strlen(place.id) + 1);
			n_moved++;
		}
	}
	for (; n_moved > MOVED_MAX; n_moved--)
		start += strlen(moved.data + start) + 1;
	if (moved.used)
		buf_add(kept, moved.data + start, moved.used - start);
	if (buf_error(&moved) < 0)
		kept->failed = ENOMEM;
}

/* Those that are still there; or "/", which is everywhere, if they are too many. */
static int write_anew(int store, const struct buf *list, struct atoll_error *err)
{
	cleanup_buf struct buf kept = BUF_INIT(FILE_MAX / 2);
	cleanup_fd int fd = -1;
	int r;

	keep_present(list, &kept);
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
	struct place place;
	int r;

	while ((r = flock(lock, LOCK_EX)) < 0 && errno == EINTR)
		;
	if (lock < 0 || r < 0)
		return failed(-errno, err);
	r = read_list(store, &list, err);
	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t at = 0; next_place(wanted, &at, &place);) {
		if (!has(&list, &place))
			add_place(&more, &place);
	}
	if (buf_error(&more) < 0)
		return error_oom(err);
	if (!more.used)
		return 0;
	if (list.used <= FILE_FULL && r != 1)
		return append(store, &more, err);
	buf_add(&list, more.data, more.used);
	return buf_error(&list) < 0 ? error_oom(err) : write_anew(store, &list, err);
}

static int note(const struct buf *wanted, struct atoll_error *err)
{
	cleanup_buf struct buf list = BUF_INIT(FILE_MAX);
	char path[PATH_MAX];
	cleanup_fd int store = -1;
	struct place place;
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
	for (size_t at = 0; next_place(wanted, &at, &place);)
		is_new |= !has(&list, &place);
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

int layer_places_note_new(const char *path, int dir_fd, struct atoll_error *err)
{
	cleanup_buf struct buf wanted = BUF_INIT(FILE_MAX);

	buf_add(&wanted, path, strlen(path) + 1);
	layer_place_identify(dir_fd, "", &wanted);
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

int layer_places_find(const struct buf *dirs, const struct buf *ids, char *ret, size_t size,
		      struct atoll_error *err)
{
	cleanup_buf struct buf list = BUF_INIT(FILE_MAX);
	char path[PATH_MAX], real[PATH_MAX];
	cleanup_fd int store = state_open(false, path, err);
	struct place place;
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
	for (size_t at = 0; !ret[0] && next_place(&list, &at, &place);) {
		if (place.path && is_within_one(dirs, place.path))
			snprintf(ret, size, "%s", place.path);
		else if (place.id && has_text(ids, place.id))
			snprintf(ret, size, "%s, which was moved",
				 place.path ? place.path : "a directory");
	}
	return ret[0] ? 0 : find_in_records(dirs, ret, size, err);
}
