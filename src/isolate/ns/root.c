/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/*
 * How a root is built
 *
 * Everything is assembled in one private tmpfs, a half of which becomes the root:
 *   take_trees()     copies of the host's trees, detached; the last step that opens a host path
 *   mount_storage()  the tmpfs, over a directory that every system has
 *   place_all()      the contract's mounts in order of their paths, parents first
 *   place_system()   /proc, /dev, /sys' few, /run/atoll
 *   close_trees()    from here on nothing inside holds a descriptor of the host's tree
 *   switch_root()    pivot
 *   close_root()     the storage's own top becomes read-only; what is private was put on its own
 *                    mount. With `root: layer` the top stays open, and the directories in it that
 *                    lead to mounts have been put on mounts of their own, which become read-only
 *                    instead: no way to a mount can be moved or replaced from inside
 *   ns_leave_host()  the host's tree goes away; it takes the kernel a while, so others go on
 * meanwhile Mount points are made in the tmpfs only: nothing ever appears on the host. No
 * allocation: this runs in a clone. The directory is left as the working directory throughout, so
 * paths are relative.
 */

#define STAGE NS_STAGE_DIR

static int fail(struct atoll_error *err, const char *what, const char *path)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s '%s'", what, path);
}

/* ---- trees ---- */

static int set_attributes(int fd, const char *path, uint64_t set, int userns_fd, unsigned flags)
{
	/* A copy of a shared mount is one of its peers: what is mounted on it would appear on the
	 * host. */
	struct mount_attr attr = {.attr_set = set, .propagation = MS_PRIVATE};

	if (userns_fd >= 0) {
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (uint64_t)userns_fd;
	}
	return mount_setattr(fd, path, flags, &attr, sizeof attr) < 0 ? -errno : 0;
}

int ns_open_tree(const struct ns_mount *mount, int userns_fd, struct atoll_error *err)
{
	uint64_t set = MOUNT_ATTR_NOSUID |
		       (mount->kind == NS_DEVICE ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_NODEV);
	cleanup_fd int tree = -1;
	bool is_single =
		mount->n_masks || mount->is_layer || mount->is_ephemeral || mount->kind == NS_STAGE;
	unsigned recursive = is_single ? 0 : AT_RECURSIVE;
	struct stat st;
	int r;

	tree = open_tree(AT_FDCWD, ns_source(mount),
			 AT_SYMLINK_NOFOLLOW | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive);
	if (tree < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return error_set(err, ATOLL_FAULT_POLICY, errno, "'%s' has changed while starting",
				 ns_source(mount));
	if (tree < 0)
		return fail(err, "copy the mount of", ns_source(mount));
	/* Whatever way the path led by now: it is the object that was looked at, or none. */
	if (fstat(tree, &st) < 0)
		return fail(err, "stat", ns_source(mount));
	if (st.st_dev != mount->dev || st.st_ino != mount->ino)
		return error_set(err, ATOLL_FAULT_POLICY, 0, "'%s' has changed while starting",
				 ns_source(mount));
	if ((!mount->is_writable || mount->is_layer) && mount->kind != NS_DEVICE)
		set |= MOUNT_ATTR_RDONLY;
	r = set_attributes(tree, "", set, -1, AT_EMPTY_PATH | AT_RECURSIVE);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "restrict the mount of '%s'",
				 mount->path);
	/* Only the tree itself is shifted: a mount beneath it may be of a kind that cannot be. */
	if (userns_fd >= 0 && (mount->is_writable || mount->is_explicit || mount->is_ephemeral)) {
		r = set_attributes(tree, "", 0, userns_fd, AT_EMPTY_PATH);
		if (r < 0 && (mount->is_writable || mount->is_ephemeral || mount->kind == NS_STAGE))
			return error_set(
				err, ATOLL_FAULT_HOST, -r,
				"'%s' is on a file system that cannot map ids; run atoll as "
				"its owner instead of root, or add --accept-weaker identity",
				ns_source(mount));
	}
	return take_fd(&tree);
}

static int take_trees(struct cell *cell, struct atoll_error *err)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		struct ns_mount *mount = &cell->mounts[i];

		if (!ns_has_tree(mount) || mount->tree_fd >= 0)
			continue;
		mount->tree_fd = ns_open_tree(mount, -1, err);
		if (mount->tree_fd < 0)
			return mount->tree_fd;
	}
	return 0;
}

/* The mounts are attached: a descriptor of the host's tree would be a way past all of them. */
static int close_trees(struct cell *cell, struct atoll_error *err)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		struct ns_mount *mount = &cell->mounts[i];

		if (mount->tree_fd >= 0 && close(take_fd(&mount->tree_fd)) < 0)
			return fail(err, "close the tree of", mount->path);
	}
	return 0;
}

/* ---- storage ---- */

int ns_attach(int tree_fd, const char *path, struct atoll_error *err)
{
	if (move_mount(tree_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return fail(err, "mount on", path);
	return 0;
}

/* One directory or file of the private storage on a mount of its own, with the attributes that the
 * mount of `source` has. */
static int bind_clone(const char *source, const char *path, struct atoll_error *err)
{
	return mount(source, path, NULL, MS_BIND, NULL) < 0 ? fail(err, "mount on", path) : 0;
}

/* The same, restricted further. */
static int place_clone(const char *source, const char *path, uint64_t set, struct atoll_error *err)
{
	cleanup_fd int tree = open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0)
		return fail(err, "copy the mount of", source);
	if (set_attributes(tree, "", set, -1, AT_EMPTY_PATH) < 0)
		return fail(err, "restrict", source);
	return ns_attach(tree, path, err);
}

static int mount_storage(const struct cell *cell, struct atoll_error *err)
{
	const struct spec_limit *limits = cell->spec->limits;
	uint64_t size = limits[SPEC_DISK].value, files = limits[SPEC_FILES].value;
	char options[128];
	int used;

	/* What is stored here is memory. */
	if (limits[SPEC_MEMORY].value < size)
		size = limits[SPEC_MEMORY].value;
	if (size == SPEC_UNLIMITED)
		used = snprintf(options, sizeof options, "mode=0755,size=50%%");
	else
		used = snprintf(options, sizeof options, "mode=0755,size=%llu",
				(unsigned long long)size);
	if (files != SPEC_UNLIMITED) /* as long as the root is built: see limit_files() */
		snprintf(options + used, sizeof options - (size_t)used, ",nr_inodes=%llu",
			 (unsigned long long)files + NS_OWN_INODES);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return fail(err, "make private", "/");
	if (mount("atoll", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
		return fail(err, "mount a tmpfs on", "/tmp");
	/* Two halves: the root to be, and what mounts are made of, which no path leads to later.
	 * public_mount() passes through the second as somebody else. */
	if (mkdir("/tmp/root", 0755) < 0 || mkdir("/tmp/stage", 0711) < 0)
		return fail(err, "create", "the storage");
	if (kept_is_there(cell)) {
		int r = kept_mount_root(cell, err);

		if (r < 0)
			return r;
	} else if (mount("/tmp/root", "/tmp/root", NULL, MS_BIND, NULL) < 0) {
		return fail(err, "mount", "/tmp/root");
	}
	return chdir("/tmp/root") < 0 ? fail(err, "enter", "/tmp/root") : 0;
}

/* Relative to the new root. */
static const char *inside(const char *path)
{
	return path[1] ? path + 1 : ".";
}

/* What two paths have in common up to a slash: the mounts come sorted, and what the one before
 * needed on its way is there. */
static size_t common_way(const char *path, const char *before)
{
	size_t common = 0;

	for (size_t i = 0; path[i] && path[i] == before[i]; i++) {
		if (path[i] == '/')
			common = i;
	}
	return common;
}

/* The host's root is still there, and a link of an image's, or of an earlier cell's, would lead to
 * it. */
static int refuse_link(const char *part, struct atoll_error *err)
{
	struct stat st;

	if (lstat(part, &st) < 0)
		return fail(err, "look at", part);
	return S_ISLNK(st.st_mode)
		       ? error_set(err, ATOLL_FAULT_POLICY, 0,
				   "'/%s' is a link, of the image's or made inside, and something "
				   "is to be put there: make it a directory",
				   part)
		       : 0;
}

static int make_parents(const char *path, const char *before, struct atoll_error *err)
{
	size_t start = common_way(path, before);
	char part[PATH_MAX];
	int r;

	for (size_t i = 1; path[i] && i < sizeof part; i++) {
		part[i - 1] = path[i];
		if (path[i + 1] != '/' || i < start)
			continue;
		part[i] = '\0';
		if (mkdir(part, 0755) == 0)
			continue;
		if (errno != EEXIST && errno != EROFS)
			return fail(err, "create", path);
		r = refuse_link(part, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_point(const struct ns_mount *mount, const char *before, struct atoll_error *err)
{
	const char *path = inside(mount->path);
	int r;

	if (mount->is_nested)
		return 0;
	r = make_parents(mount->path, before, err);
	if (r < 0)
		return r;
	if (mount->is_dir)
		r = mkdir(path, 0755);
	else
		r = mknod(path, S_IFREG | 0444, 0);
	if (r == 0)
		return 0;
	return errno == EEXIST ? refuse_link(path, err) : fail(err, "create", path);
}

/* ---- the contract's mounts ---- */

/* A layer for what is written to a system directory; it goes with the private storage. */
static int make_upper(const struct ns_mount *spot, size_t number, char *options, size_t size,
		      struct atoll_error *err)
{
	char upper[48], work[48];
	size_t used = strlen(options);
	struct stat st;

	snprintf(upper, sizeof upper, "%s/upper-%zu", STAGE, number);
	snprintf(work, sizeof work, "%s/work-%zu", STAGE, number);
	if (mkdir(upper, 0755) < 0 || mkdir(work, 0700) < 0)
		return fail(err, "create", upper);
	if (fstat(spot->tree_fd, &st) == 0 && chmod(upper, st.st_mode & 0777) < 0)
		return fail(err, "chmod", upper);
	/* Not `volatile`: there is no disk to wait for, and its mark would be three inodes more. */
	snprintf(options + used, size - used, ",upperdir=%s,workdir=%s", upper, work);
	return 0;
}

/* The host's tree without its masks, as a part of a lowerdir option. */
static int add_host(const struct cell *cell, const struct ns_mount *spot, size_t number,
		    char *options, size_t size, struct atoll_error *err)
{
	char mask[48], host[48], public[48];
	const size_t used = strlen(options);

	snprintf(mask, sizeof mask, "%s/mask-%zu", STAGE, number);
	snprintf(host, sizeof host, "%s/host-%zu", STAGE, number);
	snprintf(public, sizeof public, "%s/public-%zu", STAGE, number);
	if (spot->is_public)
		snprintf(options + used, size - used, "%s", public);
	else
		snprintf(options + used, size - used, "%s%s%s", spot->n_masks ? mask : "",
			 spot->n_masks ? ":" : "", host);
	return spot->is_public ? public_mount(cell, spot->n_masks ? mask : NULL, host, public, err)
			       : 0;
}

static int place_masked(const struct cell *cell, const struct ns_mount *spot, size_t number,
			struct atoll_error *err)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | (spot->is_ephemeral ? 0 : MS_RDONLY);
	char options[4000];
	int r = ns_make_masks(spot, spot->tree_fd, number, err);

	strcpy(options, "lowerdir=");
	if (r == 0 && spot->is_ephemeral)
		r = kept_add_lowers(cell, spot->path, options, sizeof options - 256, err);
	if (r == 0)
		r = add_host(cell, spot, number, options, sizeof options - 256, err);
	if (r < 0)
		return r;
	strcat(options, ",userxattr");
	if (spot->is_ephemeral)
		r = make_upper(spot, number, options, sizeof options, err);
	if (r < 0)
		return r;
	if (mount("overlay", inside(spot->path), "overlay", flags, options) < 0)
		return fail(err, "put a layer over", spot->path);
	return 0;
}

/* On a mount of its own, which nobody inside can move. */
static int fix_way(const char *name, struct atoll_error *err)
{
	/* An earlier cell may have left something there, which is no link at least. */
	int r = mkdir(name, 0755) == 0 ? 0
		: errno == EEXIST      ? refuse_link(name, err)
				       : fail(err, "create", name);

	return r < 0 ? r : bind_clone(name, name, err);
}

/* A directory that root keeps in a system, and others pass. */
static bool is_system(const char *path)
{
	return streq(path, "/var") || streq(path, "/run") || streq(path, "/opt");
}

static int place_private(const struct cell *cell, const struct ns_mount *mount,
			 struct atoll_error *err)
{
	const struct spec_user *user = users_of_home(cell, mount->path);
	const char *path = inside(mount->path);
	bool is_shared = false;
	int r;

	/* Everybody's places are sticky, as programs expect; home is nobody else's. */
	for (size_t i = 0; ns_private_dirs[i]; i++)
		is_shared = is_shared || streq(mount->path, ns_private_dirs[i]);
	if (chmod(path, is_shared ? 01777 : is_system(mount->path) ? 0755 : 0700) < 0)
		return fail(err, "chmod", path);
	/* Where there is but one id, it owns all of them. */
	if (user && cell->ids.has_many && chown(path, user->uid, user->gid) < 0)
		return fail(err, "chown", path);
	r = bind_clone(path, path, err);
	/* Ours in the midst of it. */
	return r == 0 && streq(mount->path, "/run") ? fix_way("run/atoll", err) : r;
}

static int place_hide(const struct ns_mount *mount, size_t number, struct atoll_error *err)
{
	char source[64];
	int fd;

	snprintf(source, sizeof source, "%s/hide-%zu", STAGE, number);
	if (mount->is_dir) {
		if (mkdir(source, 0755) < 0)
			return fail(err, "create", source);
	} else {
		fd = open(source, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
		if (fd < 0)
			return fail(err, "create", source);
		close(fd);
	}
	return bind_clone(source, inside(mount->path), err);
}

/* The first part of a path that has more, relative to the root; false if it is a mount itself, or
 * was given for the mount before: they are sorted. */
static bool way_of(const struct cell *cell, size_t number, char ret[NAME_MAX + 2])
{
	const char *path = cell->mounts[number].path;
	size_t length = strcspn(path + 1, "/");

	if (cell->mounts[number].kind == NS_STAGE || cell->mounts[number].kind == NS_LINK ||
	    !path[1 + length] || length > NAME_MAX)
		return false;
	snprintf(ret, NAME_MAX + 2, "%.*s", (int)length, path + 1);
	for (size_t i = 0; i < cell->n_mounts; i++) {
		const struct ns_mount *other = &cell->mounts[i];
		const size_t other_length = strcspn(other->path + 1, "/");

		if (other->kind == NS_STAGE || other_length != length ||
		    memcmp(other->path + 1, ret, length) != 0)
			continue;
		/* Itself a mount; or one before needed the same. */
		if (!other->path[1 + length] || (i < number && other->kind != NS_LINK))
			return false;
	}
	return true;
}

/* What every sandbox has besides the mounts of its list lies there. */
static const char *const own_ways[] = {"dev"};

static bool is_listed_way(const struct cell *cell, const char *name)
{
	char path[16];

	snprintf(path, sizeof path, "/%s", name);
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].kind != NS_STAGE &&
		    (path_is_within(cell->mounts[i].path, path)))
			return true;
	}
	return false;
}

typedef int way_fn(const char *name, struct atoll_error *err);

static int each_way(const struct cell *cell, way_fn *each, struct atoll_error *err)
{
	char name[NAME_MAX + 2];
	int r = 0;

	for (size_t i = 0; r == 0 && cell->has_open_top && i < cell->n_mounts; i++) {
		if (way_of(cell, i, name))
			r = each(name, err);
	}
	for (size_t i = 0; r == 0 && cell->has_open_top && i < ARRAY_SIZE(own_ways); i++) {
		if (!is_listed_way(cell, own_ways[i]))
			r = each(own_ways[i], err);
	}
	return r;
}

static int close_way(const char *name, struct atoll_error *err)
{
	return set_attributes(AT_FDCWD, name, MOUNT_ATTR_RDONLY, -1, 0) < 0
		       ? fail(err, "close", name)
		       : 0;
}

/* A mount beneath a tree goes to where the tree has a name for it. An earlier cell of the sandbox
 * may have removed that, or put a link there. */
static bool has_point(const struct ns_mount *mount)
{
	cleanup_fd int fd = fd_openat2(AT_FDCWD, inside(mount->path), O_PATH | O_NOFOLLOW, 0,
				       RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode) &&
	       S_ISDIR(st.st_mode) == mount->is_dir;
}

static int place_all(struct cell *cell, struct atoll_error *err)
{
	const char *before = "/";
	int r = shared_build(cell, err);

	for (size_t i = 0; r == 0 && i < cell->n_mounts; i++) {
		const struct ns_mount *mount = &cell->mounts[i];

		if (mount->kind == NS_STAGE || (mount->is_beneath && !has_point(mount)))
			continue;
		r = mount->kind == NS_LINK ? make_parents(mount->path, before, err)
					   : make_point(mount, before, err);
		if (!mount->is_nested)
			before = mount->path;
		if (r == 0)
			r = layer_check_way(cell, mount, err);
		if (r < 0)
			break;
		switch (mount->kind) {
		case NS_BIND:
		case NS_DEVICE:
			r = mount->is_layer    ? layer_place(cell, mount, i, err)
			    : mount->is_shared ? shared_place(mount, err)
			    : mount->n_masks || mount->is_ephemeral
				    ? place_masked(cell, mount, i, err)
				    : ns_attach(mount->tree_fd, inside(mount->path), err);
			break;
		case NS_PRIVATE:
			r = place_private(cell, mount, err);
			break;
		case NS_LINK:
			if (symlink(mount->link, inside(mount->path)) < 0 && errno != EEXIST)
				r = fail(err, "link", mount->path);
			break;
		case NS_HIDE:
			r = place_hide(mount, i, err);
			break;
		case NS_STAGE:
			break;
		}
	}
	return r;
}

/* ---- what every sandbox has ---- */

static int make_dir(const char *path, mode_t mode, struct atoll_error *err)
{
	if (mkdir(path, mode) == 0)
		return 0;
	/* What is made next lies in it. */
	return errno == EEXIST ? refuse_link(path, err) : fail(err, "create", path);
}

int ns_write_file(const char *path, const char *data, size_t size, mode_t mode,
		  struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	if (fd < 0 || fd_write_all(fd, data, size) < 0)
		return fail(err, "write", path);
	return 0;
}

static int place_links(struct atoll_error *err)
{
	static const char *const links[][2] = {
		{"/proc/self/fd", "dev/fd"},	   {"/proc/self/fd/0", "dev/stdin"},
		{"/proc/self/fd/1", "dev/stdout"}, {"/proc/self/fd/2", "dev/stderr"},
		{"pts/ptmx", "dev/ptmx"},	   {"/run", "var/run"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		if (symlink(links[i][0], links[i][1]) < 0 && errno != EEXIST && errno != EROFS)
			return fail(err, "link", links[i][1]);
	}
	return 0;
}

static int place_proc(struct atoll_error *err)
{
	int r = make_dir("proc", 0555, err);
	char first[48] = "";

	if (r < 0)
		return r;
	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return fail(err, "mount", "/proc");
	if (mknod(STAGE "/empty", S_IFREG | 0444, 0) < 0)
		return fail(err, "create", STAGE "/empty");
	for (size_t i = 0; r == 0 && ns_proc_masks[i]; i++) {
		char path[48];

		snprintf(path, sizeof path, "proc/%s", ns_proc_masks[i]);
		/* A mask made from the first one has its restrictions. Not every kernel has all. */
		if (first[0])
			r = bind_clone(first, path, err);
		else
			r = place_clone(STAGE "/empty", path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC,
					err);
		if (r == -ENOENT)
			r = 0;
		else if (!first[0])
			strcpy(first, path);
	}
	return r;
}

static int place_terminals(struct atoll_error *err)
{
	int r = make_dir("dev/pts", 0755, err);

	if (r < 0)
		return r;
	if (mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		  "newinstance,ptmxmode=0666,mode=0620") < 0)
		return fail(err, "mount", "/dev/pts");
	return 0;
}

static int receive(const struct cell *cell, void *data, size_t size, struct atoll_error *err)
{
	size_t n = 0;
	ssize_t got = fd_receive(cell->setup_fd, data, size, 0, NULL, &n);

	return got > 0 ? (int)got
		       : error_set(err, ATOLL_FAULT_BUG, (int)-got,
				   "the supervisor did not send the contract");
}

static int receive_file(const struct cell *cell, const char *path, uint64_t size,
			struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	char piece[NS_PIECE];

	if (fd < 0)
		return fail(err, "write", path);
	while (size > 0) {
		int got = receive(cell, piece, sizeof piece, err);

		if (got < 0)
			return got;
		if (fd_write_all(fd, piece, (size_t)got) < 0)
			return fail(err, "write", path);
		size -= (uint64_t)got;
	}
	return 0;
}

static int place_contract(const struct cell *cell, struct atoll_error *err)
{
	struct ns_texts texts = {0};
	int r = make_dir("run", 0755, err);

	if (r == 0)
		r = make_dir("run/atoll", 0755, err);
	if (r == 0)
		r = receive(cell, &texts, sizeof texts, err) < 0 ? -EPIPE : 0;
	if (r == 0)
		r = receive_file(cell, "run/atoll/contract.json", texts.json_size, err);
	if (r == 0)
		r = receive_file(cell, "run/atoll/contract.md", texts.text_size, err);
	if (r == 0)
		r = authority_place(cell, err);
	if (r < 0 || !cell->needs_keeper)
		return r;
	/* What the keeper puts over hidden names: nobody may look into it. */
	r = make_dir("run/atoll/hidden", 0755, err);
	if (r == 0)
		r = make_dir("run/atoll/hidden/dir", 0, err);
	if (r == 0)
		r = ns_write_file("run/atoll/hidden/file", "", 0, 0, err);
	return r;
}

/* Name and address for commits; the rest of the host's git settings stays outside. */
static int place_gitconfig(const struct cell *cell, struct atoll_error *err)
{
	char path[PATH_MAX];

	if (!cell->gitconfig)
		return 0;
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].kind == NS_PRIVATE &&
		    streq(cell->mounts[i].path, cell->spec->home)) {
			snprintf(path, sizeof path, "%s/.gitconfig", inside(cell->spec->home));
			if (kept_speaks_of(cell, cell->spec->home))
				return 0; /* it has been there, and is the sandbox's own */
			return ns_write_file(path, cell->gitconfig, strlen(cell->gitconfig), 0600,
					     err);
		}
	}
	return 0;
}

/* Where the image has a link instead it stays as it is, and nothing is made behind it. */
static int make_var_dir(const char *path, struct atoll_error *err)
{
	struct stat st;

	for (size_t i = strlen("var/"); path[i]; i++) {
		char part[32];

		if (path[i] != '/')
			continue;
		snprintf(part, sizeof part, "%.*s", (int)i, path);
		if (lstat(part, &st) == 0 && !S_ISDIR(st.st_mode))
			return 0;
	}
	return mkdir(path, 0755) < 0 && errno != EEXIST ? fail(err, "create", path) : 0;
}

static int place_system(const struct cell *cell, struct atoll_error *err)
{
	/* What package managers expect of a /var that is empty otherwise. */
	static const char *const var_dirs[] = {"var/cache",   "var/lib",  "var/local", "var/log",
					       "var/log/apt", "var/mail", "var/opt",   "var/spool"};
	static const char *const top_dirs[] = {"media", "mnt", "srv"};
	int r = make_dir("dev", 0755, err);

	if (r == 0)
		r = make_dir("var", 0755, err);
	for (size_t i = 0; r == 0 && cell->spec->root_is_layer && i < ARRAY_SIZE(var_dirs); i++)
		r = make_var_dir(var_dirs[i], err);
	/* What an earlier cell has made of these is as good. */
	for (size_t i = 0; r == 0 && cell->has_open_top && i < ARRAY_SIZE(top_dirs); i++) {
		if (mkdir(top_dirs[i], 0755) < 0 && errno != EEXIST)
			r = fail(err, "create", top_dirs[i]);
	}
	if (r == 0)
		r = place_links(err);
	if (r == 0)
		r = place_proc(err);
	if (r == 0)
		r = place_terminals(err);
	if (r == 0)
		r = place_contract(cell, err);
	if (r == 0)
		r = users_place(cell, err);
	return r < 0 ? r : place_gitconfig(cell, err);
}

/* ---- the switch ---- */

static int switch_root(struct atoll_error *err)
{
	return syscall(SYS_pivot_root, ".", ".") < 0 ? fail(err, "pivot to", "the new root") : 0;
}

int ns_leave_host(struct atoll_error *err)
{
	/* The working directory is still the host's top, which lies over the new one. */
	if (umount2(".", MNT_DETACH) < 0)
		return fail(err, "unmount", "the host's root");
	return chdir("/") < 0 ? fail(err, "enter", "/") : 0;
}

static int close_root(const struct cell *cell, struct atoll_error *err)
{
	for (size_t i = 0; i < cell->n_mounts; i++) {
		if (cell->mounts[i].kind == NS_HIDE &&
		    set_attributes(AT_FDCWD, cell->mounts[i].path, MOUNT_ATTR_RDONLY, -1, 0) < 0)
			return fail(err, "close", cell->mounts[i].path);
	}
	if (cell->has_open_top) {
		int r = each_way(cell, close_way, err);

		return r < 0 ? r : close_way("run/atoll", err);
	}
	return set_attributes(AT_FDCWD, "/", MOUNT_ATTR_RDONLY, -1, 0) < 0 ? fail(err, "close", "/")
									   : 0;
}

/* The root is complete: from here on nr_inodes leaves room for the command's files only. */
static int limit_files(const struct cell *cell, struct atoll_error *err)
{
	const uint64_t files = cell->spec->limits[SPEC_FILES].value;
	char options[48];
	struct statfs st;

	if (files == SPEC_UNLIMITED)
		return 0;
	if (statfs("/tmp", &st) < 0 || st.f_type != TMPFS_MAGIC)
		return fail(err, "look at", "the storage");
	snprintf(options, sizeof options, "nr_inodes=%llu",
		 (unsigned long long)(st.f_files - st.f_ffree + files));
	if (mount(NULL, "/tmp", NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, options) < 0)
		return fail(err, "limit the files of", "the storage");
	return 0;
}

int ns_build_root(struct cell *cell, struct atoll_error *err)
{
	int r = take_trees(cell, err);

	umask(0022);
	if (r == 0)
		r = mount_storage(cell, err);
	umask(0);
	if (r == 0)
		r = each_way(cell, fix_way, err);
	if (r == 0)
		r = place_all(cell, err);
	if (r == 0)
		r = place_system(cell, err);
	/* From the root that is being built it is one up, and later nowhere. */
	if (r == 0 && kept_is_wanted(cell)) {
		cell->storage_fd = open("..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		r = cell->storage_fd < 0 ? fail(err, "open", "the storage") : 0;
	}
	if (r == 0)
		r = limit_files(cell, err);
	if (r == 0)
		r = close_trees(cell, err);
	if (r == 0)
		r = switch_root(err);
	return r == 0 ? close_root(cell, err) : r;
}
