/* SPDX-License-Identifier: Apache-2.0 */
#include "job/input.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/layer-tree.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

/* Directories that wait are paths, opened anew when their turn comes, as in layer/walk.c: neither
 * the stack nor the number of descriptors grows with the depth of the tree. */

struct entry {
	char *text; /* "f 644 HASH " */
	char *path; /* in it */
	bool is_directory;
};

struct input {
	const struct spec *spec; /* whose workspace it is; NULL: nothing is left out */
	int root_fd;
	struct entry *entries;
	size_t n, room;
};

static int add_entry(struct input *input, const char *head, const char *path, bool is_directory)
{
	struct entry entry = {.is_directory = is_directory};

	if (input->n == input->room) {
		const size_t room = input->room ? 2 * input->room : 256;
		void *more = reallocarray(input->entries, room, sizeof *input->entries);

		if (!more)
			return -ENOMEM;
		input->entries = more;
		input->room = room;
	}
	if (asprintf(&entry.text, "%s %s", head, path) < 0)
		return -ENOMEM;
	entry.path = entry.text + strlen(head) + 1;
	input->entries[input->n++] = entry;
	return 0;
}

/* ---- one object ---- */

static bool is_left_out(const struct input *input, const char *name, const char *path)
{
	cleanup_free char *whole = NULL;
	const struct spec_rule *rule;

	if (!input->spec)
		return false;
	whole = path_join(input->spec->workspace, path);
	rule = whole ? spec_rule_for(input->spec, whole) : NULL;
	return streq(name, ".git") || (rule && rule->access == SPEC_HIDE);
}

static void hash_file(int dir_fd, const char *name, char ret[HASH_HEX_SIZE])
{
	cleanup_fd int fd = tree_open_at(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, false);
	unsigned char hash[HASH_SIZE];

	if (fd < 0 || hash_fd(fd, NULL, hash) < 0)
		strcpy(ret, "?");
	else
		hash_to_hex(hash, sizeof hash, ret);
}

static int add_object(struct input *input, int dir_fd, const char *name, const char *path)
{
	char hash[HASH_HEX_SIZE] = "?", target[PATH_MAX], head[HASH_HEX_SIZE + 32] = "o - -";
	struct stat st;
	int r = tree_stat_at(dir_fd, name, false, &st);

	/* Gone since it was listed: it was no input. */
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (S_ISREG(st.st_mode)) {
		hash_file(dir_fd, name, hash);
		snprintf(head, sizeof head, "f %o %s", st.st_mode & 07777, hash);
	} else if (S_ISDIR(st.st_mode)) {
		snprintf(head, sizeof head, "d %o -", st.st_mode & 07777);
	} else if (S_ISLNK(st.st_mode)) {
		if (tree_read_link(dir_fd, name, false, target, sizeof target) >= 0)
			hash_sha256_hex(target, strlen(target), hash);
		snprintf(head, sizeof head, "l - %s", hash);
	}
	return add_entry(input, head, path, S_ISDIR(st.st_mode));
}

/* ---- all of them ---- */

static int add_names(struct input *input, int dir_fd, const char *path)
{
	cleanup_with(tree_names_done) struct tree_names names = {0};
	int r = tree_list(dir_fd, &names);
	const char *name = names.text;

	for (size_t i = 0; r == 0 && i < names.n; i++, name += strlen(name) + 1) {
		cleanup_free char *whole = path[0] ? path_join(path, name) : strdup(name);

		if (!whole)
			return -ENOMEM;
		if (!is_left_out(input, name, whole))
			r = add_object(input, dir_fd, name, whole);
	}
	return r;
}

/* A directory that cannot be listed is empty for the command as well. */
static int add_directory(struct input *input, const char *path)
{
	cleanup_fd int fd = tree_open_dir(input->root_fd, path, false);

	if (fd == -EXDEV || fd == -EACCES || fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	return fd < 0 ? fd : add_names(input, fd, path);
}

static int walk(struct input *input)
{
	int r = add_directory(input, "");

	/* The list grows meanwhile. */
	for (size_t i = 0; r == 0 && i < input->n; i++)
		if (input->entries[i].is_directory)
			r = add_directory(input, input->entries[i].path);
	return r;
}

static int by_path(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return strcmp(a->path, b->path);
}

static int digest(const char *root, const struct spec *spec, char ret_hex[HASH_HEX_SIZE],
		  struct atoll_error *err)
{
	cleanup_fd int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct input input = {.spec = spec, .root_fd = root_fd};
	unsigned char sum[HASH_SIZE];
	struct hash hash;
	int r = root_fd < 0 ? -errno : walk(&input);

	hash_init(&hash);
	if (input.n > 0)
		qsort(input.entries, input.n, sizeof *input.entries, by_path);
	for (size_t i = 0; i < input.n; i++) {
		hash_update(&hash, input.entries[i].text, strlen(input.entries[i].text) + 1);
		free(input.entries[i].text);
	}
	free(input.entries);
	hash_final(&hash, sum);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "the digest of '%s'", root);
	hash_to_hex(sum, sizeof sum, ret_hex);
	return 0;
}

int input_digest(const struct spec *spec, char ret_hex[HASH_HEX_SIZE], struct atoll_error *err)
{
	return digest(spec->workspace, spec, ret_hex, err);
}

int input_image_digest(const struct spec *spec, char ret_hex[HASH_HEX_SIZE],
		       struct atoll_error *err)
{
	return digest(spec->image, NULL, ret_hex, err);
}

/* ---- git ---- */

static bool is_commit(const char *text)
{
	const size_t size = strspn(text, "0123456789abcdef");

	return (size == 40 || size == 64) && (text[size] == '\0' || text[size] == '\n');
}

static bool read_git_file(int git_fd, const char *path, struct buf *ret)
{
	cleanup_fd int dir_fd = -1, fd = -1;
	const char *name;

	dir_fd = tree_open_parent(git_fd, path, false, &name);
	if (dir_fd < 0)
		return false;
	fd = tree_open_at(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, false);
	return fd >= 0 && fd_read_all(fd, ret) == 0 && ret->data;
}

/* "HASH refs/heads/main" somewhere among others. */
static const char *find_packed(const char *text, const char *name)
{
	for (const char *at = text; (at = strstr(at, name)); at++) {
		const char *line = at;

		while (line > text && line[-1] != '\n')
			line--;
		if (at > line && at[-1] == ' ' && strcspn(at, "\n") == strlen(name))
			return line;
	}
	return NULL;
}

static void take_commit(const char *text, char ret_hex[HASH_HEX_SIZE])
{
	const size_t size = text ? strspn(text, "0123456789abcdef") : 0;

	if (size == 40 || size == 64)
		snprintf(ret_hex, HASH_HEX_SIZE, "%.*s", (int)size, text);
}

void input_commit(const char *workspace, char ret_hex[HASH_HEX_SIZE])
{
	cleanup_buf struct buf head = BUF_INIT(4096), ref = BUF_INIT(4096);
	cleanup_buf struct buf packed = BUF_INIT(16 << 20);
	cleanup_free char *path = path_join(workspace, ".git");
	cleanup_fd int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	char *name;

	ret_hex[0] = '\0';
	if (fd < 0 || !read_git_file(fd, "HEAD", &head))
		return;
	if (is_commit(head.data))
		take_commit(head.data, ret_hex);
	if (!starts_with(head.data, "ref: refs/") || strstr(head.data, ".."))
		return;
	name = head.data + strlen("ref: ");
	name[strcspn(name, "\n")] = '\0';
	if (read_git_file(fd, name, &ref))
		take_commit(is_commit(ref.data) ? ref.data : NULL, ret_hex);
	else if (read_git_file(fd, "packed-refs", &packed))
		take_commit(find_packed(packed.data, name), ret_hex);
}
