/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/str.h"
#include "setup/setup.h"

#include <errno.h>
#include <limits.h>
#include <shadow.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/*
 * Lines in files of accounts
 *
 * Our lines go to the end of the file; the first field is a name that only we use. The file is
 * replaced by a copy with the same owner, mode and attributes, while the lock that useradd and its
 * relatives honour is held. No backup ("passwd-") is touched: those are theirs.
 *
 * If nobody else has changed the file since, undo gives it back byte by byte, with the time of its
 * last change. Otherwise exactly our lines are taken out. A line with our name that is not as we
 * wrote it was changed by somebody, and is left.
 */

#define FILE_MAX (64 << 20)

static size_t name_length(const char *line)
{
	return strcspn(line, ":\n") + 1; /* the colon counts */
}

static size_t line_length(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? (size_t)(end - line) + 1 : strlen(line);
}

/* Is this one of the lines in `ours`? Equal as a whole, or by its name alone. */
static bool is_among(const char *line, const char *ours, bool as_a_whole)
{
	size_t length = strcspn(line, "\n");

	for (; *ours; ours += line_length(ours)) {
		if (as_a_whole ? strcspn(ours, "\n") == length && strncmp(ours, line, length) == 0
			       : strncmp(ours, line, name_length(ours)) == 0)
			return true;
	}
	return false;
}

static int read_file(const json_t *change, struct buf *ret, struct atoll_error *err)
{
	const char *path = change_text(change, "path");
	int r = setup_read(path, ret, err);

	if (r == 0 && buf_error(ret) < 0)
		return error_oom(err);
	/* What is behind it would be lost when the file is replaced. */
	if (r == 0 && ret->used && memchr(ret->data, '\0', ret->used))
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "'%s' has a byte 0 in it; repair it first", path);
	return r;
}

/* Of an empty buffer, too. */
static const char *text_of(const struct buf *buf)
{
	return buf->data ? buf->data : "";
}

static int check_lines(const json_t *change, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX);
	const char *ours = change_text(change, "text");
	int r = read_file(change, &text, err);
	bool is_complete = true, has_some = false;

	if (r < 0 && r != -ENOENT)
		return r;
	for (const char *line = text_of(&text); *line; line += line_length(line)) {
		if (is_among(line, ours, false) && !is_among(line, ours, true))
			return CHANGE_DIFFERENT;
	}
	for (const char *line = ours; *line; line += line_length(line)) {
		bool is_there = is_among(line, text_of(&text), true);

		is_complete &= is_there;
		has_some |= is_there;
	}
	return is_complete ? CHANGE_PRESENT : has_some ? CHANGE_PARTIAL : CHANGE_ABSENT;
}

/* The file with our lines at its end, and nowhere else. */
static void add_lines(struct buf *out, const char *text, const char *ours)
{
	for (const char *line = text; *line; line += line_length(line)) {
		if (!is_among(line, ours, true))
			buf_add(out, line, line_length(line));
	}
	if (out->used && out->data[out->used - 1] != '\n')
		buf_add_char(out, '\n');
	buf_add_str(out, ours);
}

static int note_lines(json_t *change, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX);
	const char *path = change_text(change, "path");
	char digest[HASH_HEX_SIZE];
	struct stat st;
	json_t *before;
	int r = read_file(change, &text, err);

	/* "There was no file." */
	if (r == -ENOENT)
		return json_object_set_new(change, "before", json_false()) < 0 ? error_oom(err) : 0;
	if (r < 0)
		return r;
	if (lstat(path, &st) < 0)
		return setup_fail(err, "look at", path);
	hash_sha256_hex(text_of(&text), text.used, digest);
	before =
		json_pack("{s:s, s:I, s:I, s:b}", "sha256", digest, "mtime_s",
			  (json_int_t)st.st_mtim.tv_sec, "mtime_ns", (json_int_t)st.st_mtim.tv_nsec,
			  "newline", !text.used || text.data[text.used - 1] == '\n');
	return json_object_set_new(change, "before", before) < 0 ? error_oom(err) : 0;
}

/* Access lists and security labels. */
static int copy_attributes(int from, int to)
{
	char names[4096], value[4096];
	ssize_t total = flistxattr(from, names, sizeof names);

	if (total < 0)
		return errno == ENOTSUP ? 0 : -errno;
	for (const char *name = names; name < names + total; name += strlen(name) + 1) {
		ssize_t size = fgetxattr(from, name, value, sizeof value);

		if (size < 0 || fsetxattr(to, name, value, (size_t)size, 0) < 0)
			return -errno;
	}
	return 0;
}

static int fill_copy(int fd, const char *path, const struct buf *text, const struct timespec *mtime)
{
	cleanup_fd int old = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
	struct stat st = {.st_mode = 0644};
	int r;

	if (mtime)
		times[1] = *mtime;
	if (old >= 0 && fstat(old, &st) < 0)
		return -errno;
	/* Owner and mode before the content: shadow must not be readable for a moment. */
	if (fchown(fd, st.st_uid, st.st_gid) < 0 || fchmod(fd, st.st_mode & 07777) < 0)
		return -errno;
	r = old >= 0 ? copy_attributes(old, fd) : 0;
	if (r == 0)
		r = fd_write_all(fd, text_of(text), text->used);
	if (r == 0 && (futimens(fd, times) < 0 || fsync(fd) < 0))
		r = -errno;
	return r;
}

static int replace_file(const char *path, const struct buf *text, const struct timespec *mtime,
			struct atoll_error *err)
{
	char new[PATH_MAX];
	cleanup_fd int fd = -1;
	int r;

	snprintf(new, sizeof new, "%s.atoll-setup", path);
	unlink(new);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return setup_fail(err, "create", new);
	r = fill_copy(fd, path, text, mtime);
	if (r == 0 && rename(new, path) < 0)
		r = -errno;
	if (r < 0) {
		unlink(new);
		return error_set(err, ATOLL_FAULT_HOST, -r, "replace '%s'", path);
	}
	return setup_sync_parent(path, err);
}

static int lock_accounts(struct atoll_error *err)
{
	if (lckpwdf() < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno,
				 "lock the account files; is useradd or vipw running?");
	return 0;
}

static int apply_locked(const json_t *change, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX), out = BUF_INIT(FILE_MAX);
	int state = check_lines(change, err), r;

	if (state < 0 || state == CHANGE_PRESENT)
		return state < 0 ? state : 0;
	if (state == CHANGE_DIFFERENT)
		return error_set(err, ATOLL_FAULT_HOST, EEXIST,
				 "'%s' has a line of that name that atoll setup did not write",
				 change_text(change, "path"));
	r = read_file(change, &text, err);
	if (r < 0 && r != -ENOENT)
		return r;
	add_lines(&out, text_of(&text), change_text(change, "text"));
	if (buf_error(&out) < 0)
		return error_oom(err);
	return replace_file(change_text(change, "path"), &out, NULL, err);
}

static int apply_lines(const json_t *change, struct atoll_error *err)
{
	int r = lock_accounts(err);

	if (r < 0)
		return r;
	r = apply_locked(change, err);
	ulckpwdf();
	return r;
}

/* Our lines out; true if there were any. Counts those that bear our name and are not ours. */
static bool take_lines(const char *text, const char *ours, struct buf *out, int *ret_foreign)
{
	bool found = false;

	*ret_foreign = 0;
	for (const char *line = text; *line; line += line_length(line)) {
		if (is_among(line, ours, true)) {
			found = true;
			continue;
		}
		*ret_foreign += is_among(line, ours, false);
		buf_add(out, line, line_length(line));
	}
	return found;
}

/* With the file as it was before us, give it its time back, too. */
static int put_back(const json_t *change, struct buf *out, struct atoll_error *err)
{
	const json_t *before = json_object_get(change, "before");
	const char *path = change_text(change, "path");
	struct timespec mtime = {
		.tv_sec = json_integer_value(json_object_get(before, "mtime_s")),
		.tv_nsec = json_integer_value(json_object_get(before, "mtime_ns")),
	};
	char digest[HASH_HEX_SIZE];
	size_t size = out->used;

	if (!json_is_object(before) && out->used == 0)
		return unlink(path) < 0 ? setup_fail(err, "remove", path)
					: setup_sync_parent(path, err);
	/* The line end that we had to add. */
	if (json_is_false(json_object_get(before, "newline")) && size &&
	    out->data[size - 1] == '\n') {
		hash_sha256_hex(out->data, size - 1, digest);
		out->used -= streq(digest, change_text(before, "sha256"));
	}
	hash_sha256_hex(text_of(out), out->used, digest);
	return replace_file(path, out, streq(digest, change_text(before, "sha256")) ? &mtime : NULL,
			    err);
}

static int undo_locked(const json_t *change, char *ret_reason, size_t size, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX), out = BUF_INIT(FILE_MAX);
	char new[PATH_MAX];
	int foreign, r = read_file(change, &text, err);

	snprintf(new, sizeof new, "%s.atoll-setup", change_text(change, "path"));
	unlink(new);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (take_lines(text_of(&text), change_text(change, "text"), &out, &foreign)) {
		if (buf_error(&out) < 0)
			return error_oom(err);
		r = put_back(change, &out, err);
	}
	if (r == 0 && foreign)
		snprintf(ret_reason, size, "%d line%s of it was changed since; remove by hand",
			 foreign, foreign == 1 ? "" : "s");
	return r < 0 ? r : foreign > 0;
}

static int undo_lines(const json_t *change, char *ret_reason, size_t size, struct atoll_error *err)
{
	int r = lock_accounts(err);

	if (r < 0)
		return r;
	r = undo_locked(change, ret_reason, size, err);
	ulckpwdf();
	return r;
}

const struct change_kind kind_lines = {
	.name = "lines",
	.check = check_lines,
	.note = note_lines,
	.apply = apply_lines,
	.undo = undo_lines,
};
