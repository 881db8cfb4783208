/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "layer/store.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/*
 * What text files were when the run began
 *
 * A three-way merge needs all three; what was there before is only on the host, and only as long as
 * the host does not change it. So it is copied at the end of a run, for what the run has changed.
 */

#define TEXT_MAX  ((size_t)1 << 20)
#define ALL_MAX	  ((uint64_t)64 << 20)
#define LOOK_SIZE 8000 /* a NUL in here, and it is no text: as git has it */

struct keeping {
	const struct layer_record *record;
	int base_fd, kept_fd; /* the workspace; records/ID/base, -1 before it is needed */
	struct tree_dirs dirs;
	size_t at; /* in these, the one at hand */
	int code;  /* of the first directory that did not fit in there */
	uint64_t kept, bytes;
};

static bool is_as_it_was(const struct keeping *keeping, const struct stat *st)
{
	return S_ISREG(st->st_mode) && (uint64_t)st->st_size <= TEXT_MAX &&
	       tree_ctime_ns(st) <= keeping->record->base_time_ns;
}

/* The command could not see it, so what it wrote there is no change of it; and a secret is better
 * not copied. */
static bool was_hidden(const struct keeping *keeping, const char *dir, const char *name)
{
	const char *hide = layer_record_get(keeping->record, "hide");
	cleanup_free char *lines = hide ? strdup(hide) : NULL;
	cleanup_free char *path = NULL;
	char *rest = lines, *line;

	if (!lines)
		return false;
	if (asprintf(&path, "%s/%s%s%s", keeping->record->info.workspace, dir, dir[0] ? "/" : "",
		     name) < 0)
		return true;
	layer_rule_fold(path);
	while ((line = strsep(&rest, "\n"))) {
		if (path_glob(line, path))
			return true;
	}
	return false;
}

/* "a/b" beneath records/ID/base, with its parents. */
static int open_kept_dir(struct keeping *keeping, const char *path)
{
	int fd;

	if (keeping->kept_fd < 0) {
		if (mkdirat(keeping->record->fd, "base", 0700) < 0 && errno != EEXIST)
			return -errno;
		keeping->kept_fd = tree_open_dir(keeping->record->fd, "base", true);
	}
	fd = keeping->kept_fd < 0 ? keeping->kept_fd : fcntl(keeping->kept_fd, F_DUPFD_CLOEXEC, 0);
	while (fd >= 0 && *path) {
		cleanup_fd int above = fd;
		size_t length = strcspn(path, "/");
		cleanup_free char *name = strndup(path, length);

		if (!name)
			return -ENOMEM;
		if (mkdirat(above, name, 0700) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		path += length + (path[length] == '/');
	}
	return fd;
}

static int write_kept(struct keeping *keeping, const char *dir, const char *name,
		      const struct buf *text)
{
	cleanup_fd int dir_fd = open_kept_dir(keeping, dir);
	cleanup_fd int fd = -1;

	if (dir_fd < 0)
		return dir_fd;
	/* An earlier step may have kept it; its state is the older one, and the right one. */
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	return fd_write_all(fd, text->data ? text->data : "", text->used);
}

/* What cannot be kept is only missing at a merge; it is no failure of the run. */
static void keep_file(struct keeping *keeping, const char *dir, int base_dir, const char *name)
{
	cleanup_buf struct buf text = BUF_INIT(TEXT_MAX + 1);
	cleanup_fd int fd = -1;
	struct stat st;

	if (fstatat(base_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_as_it_was(keeping, &st) ||
	    keeping->kept + (uint64_t)st.st_size > ALL_MAX || was_hidden(keeping, dir, name))
		return;
	fd = tree_open_at(base_dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, false);
	if (fd < 0 || tree_read_file(fd, TEXT_MAX, &text) < 0)
		return;
	/* After reading: it was as it was all the time. */
	if (fstat(fd, &st) < 0 || !is_as_it_was(keeping, &st) || (size_t)st.st_size != text.used)
		return;
	if (text.used && memchr(text.data, '\0', text.used < LOOK_SIZE ? text.used : LOOK_SIZE))
		return;
	if (write_kept(keeping, dir, name, &text) == 0)
		keeping->kept += text.used;
}

static void see_name(struct keeping *keeping, const char *dir, int upper_dir, int base_dir,
		     const char *name)
{
	struct stat st;

	if (tree_stat_at(upper_dir, name, true, &st) < 0)
		return;
	keeping->bytes += (uint64_t)st.st_blocks * 512 /
			  (st.st_nlink && !S_ISDIR(st.st_mode) ? st.st_nlink : 1);
	if (S_ISDIR(st.st_mode) && keeping->code == 0)
		keeping->code = tree_dirs_add(&keeping->dirs, keeping->at, name);
	else if (S_ISREG(st.st_mode) && base_dir >= 0)
		keep_file(keeping, dir, base_dir, name);
}

static void see_dir(struct keeping *keeping, int upper_fd, const char *dir)
{
	cleanup_with(tree_names_done) struct tree_names names = {0};
	cleanup_fd int upper_dir = tree_open_dir(upper_fd, dir, true);
	cleanup_fd int base_dir =
		keeping->base_fd < 0 ? -1 : tree_open_dir(keeping->base_fd, dir, false);
	const char *at;

	if (upper_dir < 0 || tree_list(upper_dir, &names) < 0)
		return;
	at = names.text;
	for (size_t i = 0; i < names.n; i++, at += strlen(at) + 1)
		see_name(keeping, dir, upper_dir, base_dir, at);
}

int layer_keep_base(struct layer_record *record, struct atoll_error *err)
{
	struct keeping keeping = {
		.record = record,
		.base_fd = open(record->info.workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.kept_fd = -1,
		.dirs = TREE_DIRS_INIT};
	cleanup_fd int upper_fd = tree_open_dir(record->fd, "top/upper", true);
	int r = upper_fd < 0 ? upper_fd : 0;

	if (r == 0)
		r = tree_dirs_add(&keeping.dirs, 0, "");
	for (; r == 0 && keeping.at < keeping.dirs.n; keeping.at++) {
		cleanup_free char *dir = tree_dirs_path(&keeping.dirs, keeping.at);

		if (dir)
			see_dir(&keeping, upper_fd, dir);
		r = dir ? keeping.code : -ENOMEM;
	}
	record->info.bytes = keeping.bytes + keeping.kept;
	tree_dirs_done(&keeping.dirs);
	if (keeping.base_fd >= 0)
		close(keeping.base_fd);
	if (keeping.kept_fd >= 0)
		close(keeping.kept_fd);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "read the layer of record '%s'",
				 record->info.id)
		     : 0;
}
