/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- names ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int names_read(const char *path, char ***ret, size_t *ret_n)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char **names = NULL;
	size_t n = 0;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (n % 64 == 0)
			names = realloc(names, (n + 64) * sizeof *names);
		names[n++] = strdup(entry->d_name);
	}
	closedir(dir);
	if (n)
		qsort(names, n, sizeof *names, by_name);
	*ret = names;
	*ret_n = n;
	return 0;
}

void names_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* ---- copying ---- */

/* Files with several names that were copied already. */
struct copied {
	dev_t dev;
	ino_t ino;
	char *to;
};

struct copying {
	struct copied *seen;
	size_t n;
	bool is_whole; /* links are kept, and what is closed is opened */
};

static int copy_data(int in, int out, off_t size)
{
	static char data[1 << 16];
	off_t at = 0, end;

	while (at < size && (at = lseek(in, at, SEEK_DATA)) >= 0) {
		end = lseek(in, at, SEEK_HOLE);
		while (at < end) {
			size_t room =
				(size_t)(end - at) < sizeof data ? (size_t)(end - at) : sizeof data;
			ssize_t n = pread(in, data, room, at);

			if (n <= 0 || pwrite(out, data, n, at) != n)
				return n < 0 ? -errno : -EIO;
			at += n;
		}
	}
	return ftruncate(out, size) < 0 ? -errno : 0;
}

static int copy_file(const char *from, const char *to, const struct stat *st, bool opens)
{
	bool is_closed = opens && access(from, R_OK) < 0;
	int in, out, r;

	if (is_closed && chmod(from, 0600) < 0)
		return -errno;
	in = open(from, O_RDONLY | O_NOFOLLOW);
	r = -errno;
	if (is_closed)
		chmod(from, st->st_mode & 07777);
	if (in < 0)
		return r;
	out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0600);
	r = out < 0 ? -errno : copy_data(in, out, st->st_size);
	close(in);
	if (out >= 0)
		close(out);
	return r;
}

/* What is no directory's content: extended attributes, mode, times. */
static int copy_rest(const char *from, const char *to, const struct stat *st)
{
	char list[4096], value[4096];
	ssize_t n = llistxattr(from, list, sizeof list), size;

	for (char *name = list; name < list + n; name += strlen(name) + 1) {
		if (strncmp(name, "user.", 5))
			continue;
		size = lgetxattr(from, name, value, sizeof value);
		if (size >= 0 && lsetxattr(to, name, value, size, 0) < 0)
			return -errno;
	}
	if (!S_ISLNK(st->st_mode) && chmod(to, st->st_mode & 07777) < 0)
		return -errno;
	if (utimensat(AT_FDCWD, to, (struct timespec[]){st->st_atim, st->st_mtim},
		      AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

static int copy_link(const char *from, const char *to)
{
	char target[4096];
	ssize_t n = readlink(from, target, sizeof target - 1);

	if (n < 0)
		return -errno;
	target[n] = 0;
	return symlink(target, to) < 0 ? -errno : 0;
}

static int copy_any(struct copying *copying, const char *from, const char *to);

static int copy_dir(struct copying *copying, const char *from, const char *to,
		    const struct stat *st)
{
	char a[4096], b[4096], **names;
	size_t n;
	int r = 0;

	if (copying->is_whole && (st->st_mode & 0700) != 0700)
		chmod(from, 0700);
	r = names_read(from, &names, &n);
	if (r < 0)
		return r;
	if (mkdir(to, 0700) < 0)
		r = -errno;
	for (size_t i = 0; i < n && r == 0; i++) {
		snprintf(a, sizeof a, "%s/%s", from, names[i]);
		snprintf(b, sizeof b, "%s/%s", to, names[i]);
		r = copy_any(copying, a, b);
	}
	names_free(names, n);
	return r;
}

static int copy_any(struct copying *copying, const char *from, const char *to)
{
	struct stat st;
	int r;

	if (lstat(from, &st) < 0)
		return -errno;
	for (size_t i = 0; i < copying->n; i++)
		if (copying->seen[i].dev == st.st_dev && copying->seen[i].ino == st.st_ino)
			return link(copying->seen[i].to, to) < 0 ? -errno : 0;
	if (S_ISDIR(st.st_mode))
		r = copy_dir(copying, from, to, &st);
	else if (S_ISREG(st.st_mode))
		r = copy_file(from, to, &st, copying->is_whole);
	else if (S_ISLNK(st.st_mode))
		r = copy_link(from, to);
	else
		r = mknod(to, (st.st_mode & S_IFMT) | 0600, 0) < 0 ? -errno : 0;
	if (r == 0)
		r = copy_rest(from, to, &st);
	if (copying->is_whole && S_ISDIR(st.st_mode) && (st.st_mode & 0700) != 0700) {
		chmod(from, st.st_mode & 07777);
		utimensat(AT_FDCWD, from, (struct timespec[]){st.st_atim, st.st_mtim}, 0);
	}
	if (r == 0 && copying->is_whole && !S_ISDIR(st.st_mode) && st.st_nlink > 1) {
		copying->seen = realloc(copying->seen, (copying->n + 1) * sizeof *copying->seen);
		copying->seen[copying->n++] = (struct copied){st.st_dev, st.st_ino, strdup(to)};
	}
	return r;
}

int tree_copy(const char *from, const char *to, bool is_whole)
{
	struct copying copying = {.is_whole = is_whole};
	int r = copy_any(&copying, from, to);

	for (size_t i = 0; i < copying.n; i++)
		free(copying.seen[i].to);
	free(copying.seen);
	return r;
}

int tree_remove(const char *path)
{
	char below[4096], **names;
	struct stat st;
	size_t n;
	int r = 0;

	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return unlink(path) < 0 ? -errno : 0;
	if ((st.st_mode & 0700) != 0700 && chmod(path, 0700) < 0)
		return -errno;
	r = names_read(path, &names, &n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++) {
		snprintf(below, sizeof below, "%s/%s", path, names[i]);
		r = tree_remove(below);
	}
	names_free(names, n);
	if (r == 0 && rmdir(path) < 0)
		r = -errno;
	return r;
}

int file_split(const char *path)
{
	char copy[4096];
	int r;

	snprintf(copy, sizeof copy, "%s.split", path);
	r = tree_copy(path, copy, true);
	if (r == 0 && rename(copy, path) < 0)
		r = -errno;
	return r;
}

/* ---- words ---- */

void word_write(const char *bytes)
{
	putchar('=');
	for (const char *c = bytes; *c; c++) {
		if (strchr("/._-", *c) || (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
		    (*c >= 'A' && *c <= 'Z'))
			putchar(*c);
		else
			printf("%%%02x", (unsigned char)*c);
	}
}

void word_read(const char *word, char *ret, size_t size)
{
	size_t n = 0;
	unsigned byte;

	for (word++; *word && n + 1 < size; word++) {
		if (*word == '%' && sscanf(word + 1, "%2x", &byte) == 1) {
			ret[n++] = (char)byte;
			word += 2;
		} else {
			ret[n++] = *word;
		}
	}
	ret[n] = 0;
}
