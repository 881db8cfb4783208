/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/test-layers.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>

struct layers {
	int fd; /* the store, with base/ in it as well */
	size_t n;
	struct layer_record record;
	struct layer_changes *changes;
	struct buf words;
};

static char *path_in(struct layers *l, size_t layer, const char *path)
{
	static char whole[2][PATH_MAX];
	static unsigned turn;
	char *ret = whole[turn++ % 2];

	if (layer == BASE)
		snprintf(ret, PATH_MAX, "base/%s", path);
	else if (layer == 0)
		snprintf(ret, PATH_MAX, "records/test/top/upper/%s", path);
	else
		snprintf(ret, PATH_MAX, "layers/l%zu/upper/%s", layer, path);
	CHECK(l->fd >= 0);
	return ret;
}

static void make_parents(struct layers *l, char *path)
{
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		CHECK(mkdirat(l->fd, path, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
}

static const char *place(struct layers *l, size_t layer, const char *path)
{
	char *whole = path_in(l, layer, path);

	make_parents(l, whole);
	return whole;
}

/* Those that no test has done with. */
static struct layers *made[64];

static void done_all(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		if (made[i])
			layers_done(made[i]);
	}
}

static void keep(struct layers *l)
{
	static bool is_registered;
	size_t i = 0;

	if (!is_registered)
		atexit(done_all);
	is_registered = true;
	while (i < ARRAY_SIZE(made) && made[i])
		i++;
	CHECK(i < ARRAY_SIZE(made));
	made[i] = l;
}

struct layers *layers_new(size_t n)
{
	struct layers *l = calloc(1, sizeof *l);
	char id[8];

	CHECK(l != NULL);
	umask(022);
	*l = (struct layers){.fd = test_tempdir(), .n = n, .words = BUF_INIT(1 << 20)};
	place(l, BASE, "");
	for (size_t i = 0; i < n; i++)
		place(l, i, "");
	strcpy(l->record.info.id, "test");
	CHECK(asprintf(&l->record.info.workspace, "%s/base", test_tempdir_path()) > 0);
	l->record.store.fd = l->fd;
	l->record.fd = openat(l->fd, "records/test", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(l->record.fd >= 0);
	l->record.layers = calloc(n + 1, sizeof *l->record.layers);
	for (size_t i = 1; i < n; i++) {
		snprintf(id, sizeof id, "l%zu", i);
		l->record.layers[l->record.n_layers++] = strdup(id);
	}
	l->record.base_time_ns = UINT64_MAX;
	keep(l);
	return l;
}

void layers_done(struct layers *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(made); i++)
		made[i] = made[i] == l ? NULL : made[i];
	if (l->changes)
		atoll_changes_close(&l->changes->list);
	for (size_t i = 0; i < l->record.n_layers; i++)
		free(l->record.layers[i]);
	free(l->record.layers);
	for (size_t i = 0; i < l->record.n_keys; i++) {
		free(l->record.keys[i]);
		free(l->record.values[i]);
	}
	free(l->record.keys);
	free(l->record.values);
	free(l->record.info.workspace);
	close(l->record.fd);
	close(l->fd);
	buf_done(&l->words);
	free(l);
}

struct layer_record *layers_record(struct layers *l)
{
	return &l->record;
}

int layers_fd(struct layers *l, size_t layer)
{
	int fd = openat(l->fd, path_in(l, layer, ""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

void layers_dir(struct layers *l, size_t layer, const char *path)
{
	CHECK(mkdirat(l->fd, place(l, layer, path), 0755) == 0);
}

static int create(struct layers *l, size_t layer, const char *path)
{
	const char *whole = place(l, layer, path);
	int fd;

	unlinkat(l->fd, whole, 0);
	fd = openat(l->fd, whole, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	return fd;
}

void layers_bytes(struct layers *l, size_t layer, const char *path, const void *data, size_t size)
{
	cleanup_fd int fd = create(l, layer, path);

	CHECK(fd_write_all(fd, data, size) == 0);
}

void layers_file(struct layers *l, size_t layer, const char *path, const char *text)
{
	layers_bytes(l, layer, path, text, strlen(text));
}

void layers_write(struct layers *l, size_t layer, const char *path, const char *text)
{
	cleanup_fd int fd = openat(l->fd, path_in(l, layer, path), O_WRONLY | O_TRUNC | O_CLOEXEC);

	CHECK(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0);
}

void layers_sparse(struct layers *l, size_t layer, const char *path, off_t size, const char *text,
		   off_t at)
{
	cleanup_fd int fd = create(l, layer, path);

	CHECK(ftruncate(fd, size) == 0);
	CHECK(pwrite(fd, text, strlen(text), at) == (ssize_t)strlen(text));
}

void layers_link(struct layers *l, size_t layer, const char *path, const char *target)
{
	CHECK(symlinkat(target, l->fd, place(l, layer, path)) == 0);
}

void layers_hard_link(struct layers *l, size_t layer, const char *path, const char *other)
{
	const char *from = path_in(l, layer, path), *to = place(l, layer, other);

	CHECK(linkat(l->fd, from, l->fd, to, 0) == 0);
}

void layers_fifo(struct layers *l, size_t layer, const char *path)
{
	CHECK(mkfifoat(l->fd, place(l, layer, path), 0644) == 0);
}

void layers_chmod(struct layers *l, size_t layer, const char *path, mode_t mode)
{
	CHECK(fchmodat(l->fd, path_in(l, layer, path), mode, 0) == 0);
}

void layers_touch(struct layers *l, size_t layer, const char *path, time_t seconds)
{
	struct timespec times[2] = {{seconds, 0}, {seconds, 0}};

	CHECK(utimensat(l->fd, path_in(l, layer, path), times, AT_SYMLINK_NOFOLLOW) == 0);
}

void layers_xattr(struct layers *l, size_t layer, const char *path, const char *name,
		  const char *value)
{
	cleanup_fd int fd = openat(l->fd, path_in(l, layer, path), O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && fsetxattr(fd, name, value, strlen(value), 0) == 0);
}

void layers_remove(struct layers *l, size_t layer, const char *path)
{
	CHECK(unlinkat(l->fd, path_in(l, layer, path), 0) == 0);
}

void layers_rmdir(struct layers *l, size_t layer, const char *path)
{
	CHECK(unlinkat(l->fd, path_in(l, layer, path), AT_REMOVEDIR) == 0);
}

void layers_rename(struct layers *l, size_t layer, const char *path, const char *to)
{
	const char *from = path_in(l, layer, path), *target = place(l, layer, to);

	CHECK(renameat(l->fd, from, l->fd, target) == 0);
}

void layers_deep(struct layers *l, size_t layer, size_t depth)
{
	int fd = layers_fd(l, layer);

	for (size_t i = 0; i < depth; i++) {
		int next;

		CHECK(mkdirat(fd, "d", 0755) == 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		close(fd);
		fd = next;
	}
	close(fd);
}

void layers_deep_remove(struct layers *l, size_t layer)
{
	int fd = layers_fd(l, layer), next;

	while ((next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
		close(fd);
		fd = next;
	}
	while ((next = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
		close(fd);
		fd = next;
		if (unlinkat(fd, "d", AT_REMOVEDIR) < 0)
			break;
	}
	close(fd);
}

void layers_whiteout(struct layers *l, size_t layer, const char *path)
{
	CHECK(mknodat(l->fd, place(l, layer, path), S_IFCHR, makedev(0, 0)) == 0);
}

void layers_opaque(struct layers *l, size_t layer, const char *path)
{
	layers_xattr(l, layer, path, "user.overlay.opaque", "y");
}

/* The handle of the base's file, as the overlay notes it. */
static void note_origin(struct layers *l, const char *from, int to_fd)
{
	struct {
		struct file_handle handle;
		unsigned char data[128];
	} got = {.handle = {.handle_bytes = 128}};
	unsigned char noted[160] = {0, 0xfb};
	int mount_id;

	CHECK(name_to_handle_at(l->fd, from, &got.handle, &mount_id, 0) == 0);
	noted[2] = (unsigned char)(21 + got.handle.handle_bytes);
	noted[4] = (unsigned char)got.handle.handle_type;
	memcpy(noted + 21, got.handle.f_handle, got.handle.handle_bytes);
	CHECK(fsetxattr(to_fd, "user.overlay.origin", noted, noted[2], 0) == 0);
}

void layers_copy_up(struct layers *l, size_t layer, const char *path)
{
	const char *from = path_in(l, BASE, path);
	cleanup_buf struct buf data = BUF_INIT(1 << 20);
	cleanup_fd int in = openat(l->fd, from, O_RDONLY | O_CLOEXEC), out = -1;
	struct stat st;

	CHECK(in >= 0 && fstat(in, &st) == 0);
	if (S_ISDIR(st.st_mode)) {
		const char *to = place(l, layer, path);

		CHECK(mkdirat(l->fd, to, st.st_mode & 07777) == 0);
		out = openat(l->fd, to, O_RDONLY | O_CLOEXEC);
	} else {
		CHECK(fd_read_all(in, &data) == 0);
		out = create(l, layer, path);
		CHECK(fd_write_all(out, data.data, data.used) == 0);
		CHECK(fchmod(out, st.st_mode & 07777) == 0);
	}
	note_origin(l, path_in(l, BASE, path), out);
	CHECK(futimens(out, (struct timespec[]){st.st_atim, st.st_mtim}) == 0);
}

void layers_gone(struct layers *l, size_t layer, const char *text, size_t size)
{
	char *whole = path_in(l, layer, "");
	cleanup_fd int fd = -1;

	/* Beside upper/, not in it. */
	strcpy(strstr(whole, "upper/"), "gone");
	fd = openat(l->fd, whole, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && fd_write_all(fd, text, size) == 0);
}

void layers_begin(struct layers *l)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	l->record.base_time_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
	/* File systems mark time in ticks. */
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

int layers_try(struct layers *l)
{
	struct atoll_error err = {0};
	int r;

	if (l->changes)
		atoll_changes_close(&l->changes->list);
	l->changes = NULL;
	r = layer_changes_read(&l->record, false, &l->changes, &err);
	if (r < 0)
		printf("# %s\n", err.text);
	return r;
}

struct atoll_changes *layers_read(struct layers *l)
{
	CHECK_INT(layers_try(l), 0);
	return &l->changes->list;
}

const char *layers_words(struct layers *l)
{
	static const char *const parts[] = {"content", "type", "mode", "xattrs", "owner", "time"};
	const struct atoll_changes *list = &l->changes->list;

	l->words.used = 0;
	for (size_t i = 0; i < list->n; i++) {
		const struct atoll_change *change = &list->items[i];

		buf_addf(&l->words, "%c ", "ACDR"[change->kind]);
		if (change->from)
			buf_addf(&l->words, "%s -> ", change->from);
		buf_add_str(&l->words, change->path);
		for (size_t k = 0; k < ARRAY_SIZE(parts); k++)
			if (change->parts & 1U << k)
				buf_addf(&l->words, " %s", parts[k]);
		if (change->mark)
			buf_addf(&l->words, " (%s)", change->mark);
		if (change->conflict)
			buf_addf(&l->words, ": %s", change->conflict);
		buf_add_char(&l->words, '\n');
	}
	return l->words.used ? l->words.data : "";
}
