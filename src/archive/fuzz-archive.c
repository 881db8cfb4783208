/* SPDX-License-Identifier: Apache-2.0 */
/* An archive of any bytes, into a directory. The first byte says what it is taken for. Whatever
 * happens, nothing comes to be outside the directory, nothing inside leads out of it, and the
 * bounds hold. */
#include "archive/archive.h"
#include "base/scope.h"
#include "base/str.h"

#include <archive.h>
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define BYTES	(256 << 10)
#define ENTRIES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct count {
	uint64_t bytes, entries;
	bool keeps_outside_links;
};

static void check_object(int dir_fd, const char *name, const struct stat *st, size_t depth,
			 struct count *count)
{
	char target[ARC_NAME_MAX];
	ssize_t length;

	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode))
		abort();
	if (!S_ISLNK(st->st_mode) && st->st_mode & 07000)
		abort();
	if (starts_with(name, ".wh."))
		abort();
	if (S_ISREG(st->st_mode) && st->st_nlink == 1)
		count->bytes += (uint64_t)st->st_size;
	if (S_ISLNK(st->st_mode) && !count->keeps_outside_links) {
		length = readlinkat(dir_fd, name, target, sizeof target - 1);
		if (length < 0)
			abort();
		target[length] = '\0';
		if (!arc_link_stays(target, depth))
			abort();
	}
	count->entries++;
}

/* Look at all of it, and remove it. */
static void sweep(int dir_fd, size_t depth, struct count *count)
{
	DIR *list = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *entry;

	if (!list || depth > ARC_DEPTH_MAX + 1)
		abort();
	while ((entry = readdir(list))) {
		const char *name = entry->d_name;
		struct stat st;

		if (streq(name, ".") || streq(name, ".."))
			continue;
		if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			abort();
		check_object(dir_fd, name, &st, depth, count);
		if (S_ISDIR(st.st_mode)) {
			cleanup_fd int sub = -1;

			if (fchmodat(dir_fd, name, 0700, 0) < 0)
				abort();
			sub = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			sweep(sub, depth + 1, count);
		}
		if (unlinkat(dir_fd, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
			abort();
	}
	closedir(list);
}

static char base_path[256];

static void remove_base(void)
{
	char in[sizeof base_path + 4];

	snprintf(in, sizeof in, "%s/in", base_path);
	rmdir(in);
	rmdir(base_path);
}

/* base/in is filled, and base has nothing else. */
static int open_base(void)
{
	static int fd = -1;

	if (fd >= 0)
		return fd;
	snprintf(base_path, sizeof base_path, "%s/atoll-fuzz-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(base_path) || atexit(remove_base) != 0)
		abort();
	fd = open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || mkdirat(fd, "in", 0700) < 0)
		abort();
	return fd;
}

static size_t count_names(int dir_fd)
{
	DIR *list = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	size_t n = 0;

	if (!list)
		abort();
	while (readdir(list))
		n++;
	closedir(list);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct atoll_import_options options = {BYTES, ENTRIES, 1000, size > 0 && data[0] & 2};
	struct count count = {.keeps_outside_links = options.keeps_outside_links};
	static locale_t utf8, plain;
	struct atoll_archive_report report;
	struct atoll_error err = {0};
	struct archive *archive;
	int base = open_base(), r = -1;
	cleanup_fd int in = openat(base, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (size < 1 || in < 0)
		return 0;
	if (!utf8) {
		utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
		plain = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
	}
	uselocale(data[0] & 1 ? utf8 : plain);
	archive = arc_reader_new(data[0] & 1);
	if (!archive)
		abort();
	if (archive_read_open_memory(archive, data + 1, size - 1) == ARCHIVE_OK) {
		r = arc_import(archive, in, &options, &report, &err);
		if (r < 0 && err.text[0] == '\0')
			abort();
	}
	archive_read_free(archive);
	sweep(in, 1, &count);
	if (count.bytes > BYTES || count.entries > ENTRIES || count_names(base) != 3)
		abort();
	if (r == 0 && (report.n_entries < count.entries || report.n_bytes < count.bytes))
		abort();
	return 0;
}
