/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OR_ERRNO(call) ((call) < 0 ? -errno : 0)

/* ---- bytes ---- */

uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Lines of words from an even seed, anything from an odd one. */
void random_fill(uint64_t seed, char *data, size_t size)
{
	static const char letters[] = "abcdefgh ijklmnop\nqrst uvwxyz\n..";
	uint64_t state = seed;

	for (size_t i = 0; i < size; i++) {
		uint64_t r = random_next(&state);

		data[i] = seed & 1 ? (char)r : letters[r % 32];
	}
}

static int put(int fd, off_t at, uint64_t size, uint64_t seed)
{
	char *data = malloc(size + 1);
	int r = 0;

	random_fill(seed, data, size);
	if (pwrite(fd, data, size, at) != (ssize_t)size)
		r = -EIO;
	free(data);
	return r;
}

/* ---- one function for each verb ---- */

static int do_create(struct op *op)
{
	int fd = open(op->a, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, (mode_t)op->n[2]), r;

	if (fd < 0)
		return -errno;
	r = put(fd, 0, op->n[0], op->n[1]);
	close(fd);
	return r;
}

static int open_file(const char *path, int flags)
{
	int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

static int do_write(struct op *op)
{
	int fd = open_file(op->a, O_WRONLY), r;

	if (fd < 0)
		return fd;
	r = put(fd, (off_t)op->n[0], op->n[1], op->n[2]);
	close(fd);
	return r;
}

static int do_append(struct op *op)
{
	int fd = open_file(op->a, O_WRONLY), r;

	if (fd < 0)
		return fd;
	r = put(fd, lseek(fd, 0, SEEK_END), op->n[0], op->n[1]);
	close(fd);
	return r;
}

static int do_map(struct op *op)
{
	int fd = open_file(op->a, O_RDWR), r = 0;
	struct stat st;
	char *map;

	if (fd < 0)
		return fd;
	fstat(fd, &st);
	if (st.st_size > 0) {
		map = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (map == MAP_FAILED)
			r = -errno;
		else {
			map[op->n[0] % st.st_size] = (char)op->n[1];
			munmap(map, st.st_size);
		}
	}
	close(fd);
	return r;
}

static int do_punch(struct op *op)
{
	int fd = open_file(op->a, O_WRONLY), r;

	if (fd < 0)
		return fd;
	r = OR_ERRNO(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)op->n[0],
			       (off_t)op->n[1]));
	close(fd);
	return r;
}

static int do_truncate(struct op *op)
{
	int fd = open_file(op->a, O_WRONLY), r;

	if (fd < 0)
		return fd;
	r = OR_ERRNO(ftruncate(fd, (off_t)op->n[0]));
	close(fd);
	return r;
}

/* As editors do: a new file takes the old one's place. */
static int do_save(struct op *op)
{
	struct op create = *op;
	int r;

	snprintf(create.a, sizeof create.a, "%.4000s~", op->a);
	r = do_create(&create);
	return r < 0 ? r : OR_ERRNO(rename(create.a, op->a));
}

/* A file that had no name, and gets one. */
static int do_tmpfile(struct op *op)
{
	char where[4096], self[32], *slash;
	int fd, r;

	snprintf(where, sizeof where, "%s", op->a);
	slash = strrchr(where, '/');
	if (slash)
		*slash = 0;
	fd = open(slash ? where : ".", O_TMPFILE | O_WRONLY, 0644);
	if (fd < 0)
		return -errno;
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	r = put(fd, 0, op->n[0], op->n[1]);
	if (r == 0)
		r = OR_ERRNO(linkat(AT_FDCWD, self, AT_FDCWD, op->a, AT_SYMLINK_FOLLOW));
	close(fd);
	return r;
}

static int do_setxattr(struct op *op)
{
	char value[256];

	random_fill(op->n[1], value, op->n[0]);
	return OR_ERRNO(lsetxattr(op->a, op->b, value, op->n[0], 0));
}

static int do_utimes(struct op *op)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
				    {.tv_sec = (time_t)op->n[0], .tv_nsec = (long)op->n[1]}};

	return OR_ERRNO(utimensat(AT_FDCWD, op->a, times, AT_SYMLINK_NOFOLLOW));
}

static int do_chmod(struct op *op)
{
	struct stat st;

	if (lstat(op->a, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -EOPNOTSUPP;
	return OR_ERRNO(chmod(op->a, (mode_t)op->n[0]));
}

static int do_todir(struct op *op)
{
	struct op create = *op;

	if (unlink(op->a) < 0 || mkdir(op->a, 0755) < 0)
		return -errno;
	snprintf(create.a, sizeof create.a, "%.4000s/a", op->a);
	return do_create(&create);
}

static int do_tofile(struct op *op)
{
	int r = tree_remove(op->a);

	return r < 0 ? r : do_create(op);
}

static int do_mkdir(struct op *op)
{
	return OR_ERRNO(mkdir(op->a, (mode_t)op->n[0]));
}

static int do_rmdir(struct op *op)
{
	return OR_ERRNO(rmdir(op->a));
}

static int do_unlink(struct op *op)
{
	return OR_ERRNO(unlink(op->a));
}

static int do_rmtree(struct op *op)
{
	return tree_remove(op->a);
}

static int do_link(struct op *op)
{
	return OR_ERRNO(link(op->a, op->b));
}

static int do_symlink(struct op *op)
{
	return OR_ERRNO(symlink(op->b, op->a));
}

static int do_fifo(struct op *op)
{
	return OR_ERRNO(mknod(op->a, S_IFIFO | (mode_t)op->n[0], 0));
}

static int do_exchange(struct op *op)
{
	return OR_ERRNO(renameat2(AT_FDCWD, op->a, AT_FDCWD, op->b, RENAME_EXCHANGE));
}

static int do_noreplace(struct op *op)
{
	return OR_ERRNO(renameat2(AT_FDCWD, op->a, AT_FDCWD, op->b, RENAME_NOREPLACE));
}

static int do_removexattr(struct op *op)
{
	return OR_ERRNO(lremovexattr(op->a, op->b));
}

static int do_copytree(struct op *op)
{
	/* Not into itself: it would find its own copies. */
	size_t n = strlen(op->a);

	if (!strncmp(op->a, op->b, n) && (op->b[n] == '/' || !op->b[n]))
		return -EINVAL;
	return tree_copy(op->a, op->b, false);
}

static int move_by_copy(struct op *op)
{
	int r = 0;

	if (access(op->b, F_OK) == 0)
		r = OR_ERRNO(rmdir(op->b));
	if (r == 0)
		r = tree_copy(op->a, op->b, false);
	return r < 0 ? r : tree_remove(op->a);
}

static const struct {
	const char *name;
	int (*perform)(struct op *op);
} verbs[] = {
	{"create", do_create},	   {"write", do_write},
	{"append", do_append},	   {"map", do_map},
	{"punch", do_punch},	   {"truncate", do_truncate},
	{"save", do_save},	   {"tmpfile", do_tmpfile},
	{"setxattr", do_setxattr}, {"utimes", do_utimes},
	{"chmod", do_chmod},	   {"todir", do_todir},
	{"tofile", do_tofile},	   {"mkdir", do_mkdir},
	{"rmdir", do_rmdir},	   {"unlink", do_unlink},
	{"rmtree", do_rmtree},	   {"link", do_link},
	{"symlink", do_symlink},   {"fifo", do_fifo},
	{"exchange", do_exchange}, {"noreplace", do_noreplace},
	{"copytree", do_copytree}, {"removexattr", do_removexattr},
};

int op_perform(struct op *op, bool is_first)
{
	if (!strcmp(op->verb, "rename")) {
		if (is_first) {
			struct stat st;
			int r = OR_ERRNO(rename(op->a, op->b));

			op->copies = r == -EXDEV && lstat(op->a, &st) == 0 && S_ISDIR(st.st_mode);
			return op->copies ? move_by_copy(op) : r;
		}
		return op->copies ? move_by_copy(op) : OR_ERRNO(rename(op->a, op->b));
	}
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (!strcmp(op->verb, verbs[i].name))
			return verbs[i].perform(op);
	return -ENOSYS;
}
