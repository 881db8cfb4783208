/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/str.h"
#include "job/job-file.h"
#include "job/job.h"
#include "layer/layer.h"
#include "spec/names.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

/*
 * Which job files may widen the default contract
 *
 * A file that a run, or another user, could have written speaks for them and not for the caller.
 * trust_check() decides that by every directory that leads to the file (job-file.c): does one lie
 * in a git tree, in a writable root of this contract, or where an earlier run has written
 * (layer/places.c)? What the file itself says can only add places, and so does the current
 * directory.
 *
 * Such a file needs the caller's word: a line "HASH PATH" in ~/.config/atoll/trusted, which no
 * sandbox can write, whatever its contract says. HASH is of the content that atoll_trust_content()
 * has shown. PATH is where it was read; with links on the way it is "SPELLED -> REAL". Both count:
 * the same content at another place, or behind a link that a run has made, has other things beside
 * it. Lines of older versions have the real path, and are looked at in the same way.
 */

/* ---- the list ---- */

/* The path part of a line. False for a name that would break the line. */
static bool format_path(const struct job_file *file, struct buf *ret)
{
	if (!file->real)
		return false;
	if (!streq(file->spelled, file->real))
		buf_addf(ret, "%s -> ", file->spelled);
	buf_add_str(ret, file->real);
	for (const char *c = ret->data; c && *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return false;
	}
	return buf_error(ret) == 0;
}

static bool is_line(const char *line, const char *hash, const char *path)
{
	size_t length = strlen(path);

	return strncmp(line, hash, 64) == 0 && line[64] == ' ' &&
	       strncmp(line + 65, path, length) == 0 &&
	       (line[65 + length] == '\n' || !line[65 + length]);
}

/* Could a run have written the list? It lies where runs have written, by a name that no rule
 * protected there: runs that were started without this XDG_CONFIG_HOME know nothing of it. */
static int is_in_doubt(int fd, bool *ret, struct atoll_error *err)
{
	cleanup_buf struct buf dirs = BUF_INIT(PATH_MAX + 1), ids = BUF_INIT(1 << 20);
	char link[64], path[PATH_MAX], dir[PATH_MAX], place[PATH_MAX];
	ssize_t length;
	int r;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	if (length <= 0)
		return error_set(err, ATOLL_FAULT_HOST, errno,
				 "find where the list of trusted job files lies");
	path[length] = '\0';
	buf_add(&dirs, path, (size_t)(path_name(path) - path - 1));
	buf_add(&dirs, "", 1);
	snprintf(dir, sizeof dir, "%s", path);
	for (char *slash; (slash = strrchr(dir, '/')) && slash != dir;) {
		*slash = '\0';
		layer_place_identify(AT_FDCWD, dir, &ids);
	}
	if (buf_error(&dirs) < 0 || buf_error(&ids) < 0)
		return error_oom(err);
	r = layer_places_find(&dirs, &ids, place, sizeof place, err);
	if (r == 0)
		*ret = place[0] && !names_refuse(place, path, NAMES_WRITE);
	return r;
}

int trust_has(const char *hash, const struct job_file *file, const struct spec *spec,
	      struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(4 << 20), path = BUF_INIT(3 * PATH_MAX);
	cleanup_fd int fd = user_config_open("trusted", false, err);
	bool is_forged = false;
	int r;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	r = is_in_doubt(fd, &is_forged, err);
	if (r < 0)
		return r;
	if (is_forged || (spec && user_config_is_in_reach(fd, spec, SPEC_WRITE)))
		return error_set(
			err, ATOLL_FAULT_POLICY, 0,
			"the list of trusted job files lies where jobs write; set XDG_CONFIG_HOME "
			"to a place of your own");
	r = fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read the list of trusted job files");
	if (!format_path(file, &path))
		return 0;
	for (const char *line = text.data; line && *line;) {
		if (is_line(line, hash, path.data))
			return 1;
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 0;
}

static int add_line(const char *hash, const char *path, struct atoll_error *err)
{
	cleanup_buf struct buf line = BUF_INIT(1 << 16);
	cleanup_fd int store = user_config_open("trusted", true, err);
	int r;

	if (store < 0)
		return store == -ENOENT ? error_set(err, ATOLL_FAULT_HOST, ENOENT,
						    "create the list of trusted job files")
					: store;
	/* A single write with O_APPEND: lines of two processes do not mix. */
	buf_addf(&line, "%s %s\n", hash, path);
	r = buf_error(&line) < 0 ? buf_error(&line) : fd_write_all(store, line.data, line.used);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write the list of trusted job files")
		     : 0;
}

/* ---- is it needed? ---- */

/* Is one of the directories, or the file, where this contract writes? */
static const char *own_place(const struct spec *spec, const struct job_file *file)
{
	for (size_t at = 0; at < file->dirs.used; at += strlen(file->dirs.data + at) + 1) {
		const char *dir = file->dirs.data + at;
		const struct spec_rule *rule = spec_rule_for(spec, dir);

		if (path_is_within(dir, spec->caller))
			return spec->caller;
		if (path_is_within(dir, spec->workspace))
			return spec->workspace;
		if (rule && rule->access == SPEC_WRITE && !streq(rule->origin, "default"))
			return rule->path;
	}
	for (int i = 0; i < 2; i++) {
		const char *path = i ? file->real : file->spelled;
		const struct spec_rule *rule =
			path && path[0] == '/' ? spec_rule_for(spec, path) : NULL;

		if (rule && rule->access == SPEC_WRITE && !streq(rule->origin, "default"))
			return rule->path;
	}
	return NULL;
}

/* Is the file itself there, or only a directory or a link on the way to it? */
static bool lies_in(const struct job_file *file, const char *place)
{
	return !file->real || path_is_within(file->real, place) ||
	       path_is_within(file->spelled, place);
}

/* Why the caller's word is needed, in words; an empty text: it is not. */
static int find_reason(const struct atoll_job *job, char *ret, size_t size, struct atoll_error *err)
{
	const struct job_file *file = &job->file;
	const char *place = own_place(job->spec, file);
	char known[PATH_MAX], shown[100];
	int r;

	ret[0] = '\0';
	str_show(file->git ? file->git : "", shown, sizeof shown);
	if (place && lies_in(file, place))
		snprintf(ret, size, "lies where jobs write");
	else if (place)
		snprintf(ret, size, "is found through %s, where jobs write",
			 str_show(place, shown, sizeof shown));
	else if (file->git)
		snprintf(ret, size, "lies where jobs write, in the git tree %s", shown);
	else if (file->others[0])
		snprintf(ret, size, "may be somebody else's (%s)", file->others);
	if (ret[0])
		return 0;
	r = layer_places_find(&file->dirs, &file->ids, known, sizeof known, err);
	str_show(known, shown, sizeof shown);
	if (r == 0 && known[0])
		snprintf(ret, size, "lies where jobs write, in %s", shown);
	return r;
}

int trust_check(const struct atoll_job *job, struct atoll_error *err)
{
	const struct job_file *file = &job->file;
	cleanup_free char *widens = NULL;
	char reason[320];
	int r;

	if (!file->spelled)
		return 0;
	widens = spec_file_widens(job->spec);
	if (!widens)
		return 0;
	r = find_reason(job, reason, sizeof reason, err);
	if (r < 0 || !reason[0])
		return r;
	r = trust_has(job->file_hash, file, job->spec, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (!file->real)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "%s has no name that could be trusted, %s, and asks for more than "
				 "the default: %s; name a file that is there",
				 file->spelled, reason, widens);
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "%s %s, and asks for more than the default: %s; review it, then approve "
			 "this content with: atoll trust %s",
			 file->spelled, reason, widens, file->spelled);
}

/* ---- giving it ---- */

int atoll_trust_content(const char *path, const char *expected,
			int (*agree)(const char *text, size_t size, const char *hex, void *data),
			void *data, char ret_hex[65], struct atoll_error *err)
{
	cleanup_with(job_file_done) struct job_file file = {0};
	cleanup_buf struct buf text = BUF_INIT(1 << 20), place = BUF_INIT(3 * PATH_MAX);
	cleanup_fd int fd = -1;
	int r;

	if (streq(path, "-"))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "standard input has no name that could be trusted; name a file");
	fd = job_file_open(path, &file, err);
	if (fd < 0)
		return fd;
	r = fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read job file '%s'", path);
	hash_sha256_hex(text.data ? text.data : "", text.used, ret_hex);
	if (expected && !streq(expected, ret_hex))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "job file '%s' is not what you have read: its sha256 is %s; "
				 "nothing was recorded",
				 path, ret_hex);
	if (!format_path(&file, &place))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "job file '%s': a path with control characters cannot be "
				 "recorded; rename it",
				 path);
	r = agree ? agree(text.data ? text.data : "", text.used, ret_hex, data) : 1;
	if (r <= 0)
		return r < 0 ? r
			     : error_set(err, ATOLL_FAULT_POLICY, 0, "job file '%s' not trusted",
					 path);
	r = trust_has(ret_hex, &file, NULL, err);
	return r == 0 ? add_line(ret_hex, place.data, err) : r < 0 ? r : 0;
}

int atoll_trust(const char *path, char ret_hex[65], struct atoll_error *err)
{
	return atoll_trust_content(path, NULL, NULL, NULL, ret_hex, err);
}
