/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/*
 * A tree as lines, to be compared with another
 *
 *	list DIR
 *
 * Of each name beneath it, in order: path, kind, mode, size, mtime in ns, uid, gid, blocks, the
 * first name of the same file (or the path itself), content, extended attributes. Content is a
 *hash, a link's target, or "?" where it cannot be read.
 */

struct seen {
	dev_t dev;
	ino_t ino;
	char *path;
};
static struct seen *seen;
static size_t n_seen;

static const char *first_name(const char *path, const struct stat *st)
{
	if (S_ISDIR(st->st_mode) || st->st_nlink < 2)
		return path;
	for (size_t i = 0; i < n_seen; i++)
		if (seen[i].dev == st->st_dev && seen[i].ino == st->st_ino)
			return seen[i].path;
	if (n_seen % 256 == 0)
		seen = realloc(seen, (n_seen + 256) * sizeof *seen);
	seen[n_seen++] = (struct seen){st->st_dev, st->st_ino, strdup(path)};
	return path;
}

/* Eight bytes at a time: files may be large. */
static void hash_file(const char *path, off_t size)
{
	static char data[1 << 16];
	uint64_t sum = 0xcbf29ce484222325, word;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NOATIME);
	off_t at = 0;
	ssize_t n;

	if (fd < 0)
		fd = open(path, O_RDONLY | O_NOFOLLOW);
	if (fd < 0) {
		printf("?");
		return;
	}
	/* Holes are zeros: where data lies must not matter, so position and word are hashed, and
	 * zeros are not. */
	while (at < size && (at = lseek(fd, at, SEEK_DATA)) >= 0) {
		at &= ~(off_t)7;
		n = pread(fd, data, sizeof data, at);
		if (n <= 0)
			break;
		memset(data + n, 0, sizeof data - n < 8 ? sizeof data - n : 8);
		for (ssize_t i = 0; i < n; i += 8) {
			memcpy(&word, data + i, 8);
			if (word)
				sum += (word ^ (uint64_t)(at + i) * 0x9e3779b97f4a7c15) *
					       0xbf58476d1ce4e5b9 ^
				       word >> 29;
		}
		at += n;
	}
	printf("%016jx", (uintmax_t)sum);
	close(fd);
}

static void tell_xattrs(const char *path)
{
	char list[4096], value[4096];
	ssize_t n = llistxattr(path, list, sizeof list), size;
	char *names[64];
	size_t count = 0;

	for (char *name = list; name < list + n && count < 64; name += strlen(name) + 1)
		if (!strncmp(name, "user.", 5))
			names[count++] = name;
	for (size_t i = 0; i < count; i++) /* few: in order by exchanging */
		for (size_t k = i + 1; k < count; k++)
			if (strcmp(names[k], names[i]) < 0) {
				char *swap = names[i];

				names[i] = names[k], names[k] = swap;
			}
	putchar('=');
	for (size_t i = 0; i < count; i++) {
		size = lgetxattr(path, names[i], value, sizeof value);
		printf("%s:", names[i]);
		if (size < 0)
			putchar('?');
		for (ssize_t k = 0; k < size; k++)
			printf("%02x", (unsigned char)value[k]);
		putchar(',');
	}
}

static char kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return 'd';
	case S_IFREG:
		return 'f';
	case S_IFLNK:
		return 'l';
	case S_IFIFO:
		return 'p';
	case S_IFSOCK:
		return 's';
	default:
		return 'c';
	}
}

static void tell_one(const char *path, const struct stat *st)
{
	char target[4096];
	ssize_t n;

	word_write(path);
	printf(" %c %o %jd %jd %u %u %jd ", kind_of(st->st_mode), st->st_mode & 07777,
	       S_ISREG(st->st_mode) ? (intmax_t)st->st_size : 0,
	       (intmax_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec, st->st_uid,
	       st->st_gid, (intmax_t)st->st_blocks);
	word_write(first_name(path, st));
	putchar(' ');
	if (S_ISREG(st->st_mode)) {
		hash_file(path, st->st_size);
	} else if (S_ISLNK(st->st_mode)) {
		n = readlink(path, target, sizeof target - 1);
		target[n < 0 ? 0 : n] = 0;
		word_write(target);
	} else {
		printf("-");
	}
	putchar(' ');
	tell_xattrs(path);
	putchar('\n');
}

static void list(const char *path)
{
	char whole[8192], **names;
	struct stat st;
	size_t n;
	int r = names_read(*path ? path : ".", &names, &n);

	/* One may be allowed to read names and nothing else. */
	if (r < 0 || access(*path ? path : ".", X_OK) < 0) {
		word_write(path);
		printf(" closed\n");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		snprintf(whole, sizeof whole, "%s%s%s", path, *path ? "/" : "", names[i]);
		if (lstat(whole, &st) < 0) {
			word_write(whole);
			printf(" error %d\n", errno);
			continue;
		}
		tell_one(whole, &st);
		if (S_ISDIR(st.st_mode))
			list(whole);
	}
	names_free(names, n);
}

int main(int argc, char **argv)
{
	if (argc != 2 || chdir(argv[1]) < 0)
		return 2;
	list("");
	return 0;
}
