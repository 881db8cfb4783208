/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/str.h"
#include "job/job.h"
#include "job/store.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

/*
 * The user's word about single job files: one line "HASH PATH" per approved content in
 * ~/.config/atoll/trusted, which no sandbox can write, whatever its contract says.
 */

int trust_has(const char *hash, const struct spec *spec, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(4 << 20);
	cleanup_fd int fd = store_open("trusted", false, err);
	int r;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	if (spec && store_is_in_reach(fd, spec, SPEC_WRITE))
		return error_set(
			err, ATOLL_FAULT_POLICY, 0,
			"the list of trusted job files lies where jobs write; set XDG_CONFIG_HOME "
			"to a place of your own");
	r = fd_read_all(fd, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read the list of trusted job files");
	for (const char *line = text.data; line && *line;) {
		if (strncmp(line, hash, 64) == 0 && line[64] == ' ')
			return 1;
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 0;
}

/* The path is for the reader of the list only; nothing in it may start a line. */
static void add_line(struct buf *line, const char *hash, const char *path)
{
	buf_addf(line, "%s ", hash);
	for (; *path; path++)
		buf_add_char(line, (unsigned char)*path < 0x20 ? '?' : *path);
	buf_add_char(line, '\n');
}

int atoll_trust(const char *path, char ret_hex[65], struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20), line = BUF_INIT(1 << 16);
	cleanup_fd int file = -1, store = -1;
	char real[PATH_MAX];
	struct stat st;
	int r;

	if (!realpath(path, real))
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "job file '%s'", path);
	file = open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (file < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "job file '%s'", path);
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "job file '%s' is not a plain file",
				 path);
	r = fd_read_all(file, &text);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read job file '%s'", path);
	hash_sha256_hex(text.data ? text.data : "", text.used, ret_hex);
	r = trust_has(ret_hex, NULL, err);
	if (r != 0)
		return r < 0 ? r : 0;
	add_line(&line, ret_hex, real);
	store = store_open("trusted", true, err);
	if (store < 0)
		return store == -ENOENT ? error_set(err, ATOLL_FAULT_HOST, ENOENT,
						    "create the list of trusted job files")
					: store;
	r = buf_error(&line) < 0 ? buf_error(&line) : fd_write_all(store, line.data, line.used);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write the list of trusted job files")
		     : 0;
}
