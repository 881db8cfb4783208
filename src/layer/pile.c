/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/pile.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/gone.h"
#include "layer/object.h"
#include "layer/stack.h"
#include "layer/tree.h"

#include <errno.h>
#include <limits.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

/*
 * Directory by directory, from a list that grows: a command may have nested them deeper than there
 * are descriptors. While this goes on they have mode 0700; what they really are is set at the end,
 * from the deepest on, because every name that is made in one changes its time.
 */

#define GONE_MAX ((size_t)256 << 20)

struct place {
	char *path;	 /* "" is the root */
	uint64_t layers; /* those that have a part in it, a bit each */
	bool is_closed;	 /* what is beneath the pile does not show through */
	struct stat st;	 /* of the topmost one's */
};

/* A file with several names, and the first of them in the new layer. */
struct linked {
	uint64_t dev, ino;
	char *path;
};

struct work {
	struct pile *pile;
	int upper_fd;
	struct place *places;
	size_t n_places;
	struct linked *linked; /* a table, open addressing; `room` is a power of two */
	size_t n_linked, room;
	struct buf gone;
	struct atoll_error *err;
};

/* One directory while its names are gone through. */
struct scene {
	size_t place; /* the list moves as it grows */
	int out_fd;
	int fds[STACK_LAYERS_MAX]; /* of the pile's layers; -1 for those with no part */
};

struct name {
	const char *text;
};

static int failed(struct work *work, int code, const char *path)
{
	char shown[256];

	return error_set(work->err, ATOLL_FAULT_HOST, -code, "copy '%s' of a layer",
			 str_show(path, shown, sizeof shown));
}

static char *join(const char *dir, const char *name)
{
	char *path = malloc(strlen(dir) + 1 + strlen(name) + 1);

	if (path)
		stpcpy(stpcpy(stpcpy(path, dir), dir[0] ? "/" : ""), name);
	return path;
}

/* ---- attributes ---- */

static void scope_free_list(char **list)
{
	free(*list);
}

/* All of them: those of the overlay, too, but whether it is opaque. */
static void copy_xattrs(struct work *work, int from_fd, int to_fd)
{
	ssize_t size = flistxattr(from_fd, NULL, 0);
	cleanup_with(scope_free_list) char *list = size > 0 ? malloc((size_t)size) : NULL;
	char value[65536];

	size = list ? flistxattr(from_fd, list, (size_t)size) : 0;
	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(list + at) + 1) {
		const char *name = list + at;
		ssize_t got;

		/* Labels of a security module come with the place. */
		if ((starts_with(name, "security.") && !streq(name, "security.capability")) ||
		    streq(name, "user.overlay.opaque"))
			continue;
		got = tree_get_xattr(from_fd, name, value, sizeof value);
		if (got >= 0 && fsetxattr(to_fd, name, value, (size_t)got, 0) < 0 &&
		    streq(name, "user.overlay.origin"))
			work->pile->has_lost_origins = true;
	}
}

/* Only root can give files away, and only for it they belong to others. */
static int set_owner(const struct pile *pile, int dir_fd, const char *name, const struct stat *st)
{
	const struct layer_record *owner = pile->owner;
	const uid_t uid = owner ? owner->owner_uid : st->st_uid;
	const gid_t gid = owner ? owner->owner_gid : st->st_gid;

	if (geteuid() == 0 &&
	    fchownat(dir_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

static int set_attributes(const struct pile *pile, int fd, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	int r = set_owner(pile, fd, "", st);

	if (r < 0)
		return r;
	/* After the owner, whose change takes set-id bits away. */
	if (fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* ---- names of one file ---- */

static struct linked *find_linked(struct linked *table, size_t room, const struct stat *st)
{
	size_t at = (size_t)((st->st_ino * UINT64_C(0x9e3779b97f4a7c15)) >> 17) & (room - 1);

	while (table[at].path && (table[at].ino != st->st_ino || table[at].dev != st->st_dev))
		at = (at + 1) & (room - 1);
	return &table[at];
}

static int grow_linked(struct work *work)
{
	size_t room = work->room ? work->room * 2 : 256;
	struct linked *table = calloc(room, sizeof *table);

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < work->room; i++) {
		const struct linked *old = &work->linked[i];
		struct stat st = {.st_dev = old->dev, .st_ino = old->ino};

		if (old->path)
			*find_linked(table, room, &st) = *old;
	}
	free(work->linked);
	work->linked = table;
	work->room = room;
	return 0;
}

/* 1 if `to` has become another name of a file that was copied; 0 if it is the first. */
static int link_again(struct work *work, const struct stat *st, const struct scene *scene,
		      const char *name, const char *path)
{
	cleanup_fd int dir = -1;
	struct linked *linked;
	const char *first;

	if (work->n_linked * 2 >= work->room && grow_linked(work) < 0)
		return -ENOMEM;
	linked = find_linked(work->linked, work->room, st);
	if (!linked->path) {
		*linked = (struct linked){st->st_dev, st->st_ino, strdup(path)};
		work->n_linked++;
		return linked->path ? 0 : -ENOMEM;
	}
	dir = tree_open_parent(work->upper_fd, linked->path, true, &first);
	if (dir < 0)
		return dir;
	return linkat(dir, first, scene->out_fd, name, 0) < 0 ? -errno : 1;
}

/* ---- one name ---- */

static int copy_file(struct work *work, int from_dir, const struct scene *scene, const char *name,
		     const struct stat *st)
{
	cleanup_fd int from = tree_open_at(from_dir, name, O_RDONLY | O_NONBLOCK, true);
	cleanup_fd int to = -1;
	int r;

	if (from < 0)
		return from;
	to = openat(scene->out_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return -errno;
	r = object_copy_data(from, to, st->st_size);
	if (r < 0)
		return r;
	copy_xattrs(work, from, to);
	return set_attributes(work->pile, to, st);
}

static int copy_special(const struct pile *pile, int from_dir, const struct scene *scene,
			const char *name, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};
	char target[PATH_MAX];
	int r;

	if (S_ISLNK(st->st_mode)) {
		r = tree_read_link(from_dir, name, true, target, sizeof target);
		if (r == 0 && symlinkat(target, scene->out_fd, name) < 0)
			r = -errno;
	} else {
		r = mknodat(scene->out_fd, name, st->st_mode, st->st_rdev) < 0 ? -errno : 0;
		if (r == 0 && fchmodat(scene->out_fd, name, st->st_mode & 07777, 0) < 0)
			r = -errno;
	}
	if (r == 0)
		r = set_owner(pile, scene->out_fd, name, st);
	if (r == 0 && utimensat(scene->out_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	return r;
}

static int put_object(struct work *work, size_t layer, const struct scene *scene, const char *name,
		      const char *path, const struct stat *st)
{
	int from_dir = scene->fds[layer], r;

	/* Where it cannot have one name more (EMLINK), a copy is as good. */
	if (work->pile->links && linkat(from_dir, name, scene->out_fd, name, 0) == 0)
		return 0;
	if (!S_ISREG(st->st_mode)) {
		r = copy_special(work->pile, from_dir, scene, name, st);
		return r < 0 ? failed(work, r, path) : 0;
	}
	r = st->st_nlink > 1 ? link_again(work, st, scene, name, path) : 0;
	if (r == 0)
		r = copy_file(work, from_dir, scene, name, st);
	return r < 0 ? failed(work, r, path) : 0;
}

static int put_whiteout(struct work *work, const struct scene *scene, const char *name,
			const char *path)
{
	if (mknodat(scene->out_fd, name, S_IFCHR, makedev(0, 0)) == 0)
		return 0;
	if (errno == ENOSPC || errno == EDQUOT)
		return failed(work, -errno, path);
	buf_add(&work->gone, path, strlen(path) + 1);
	return 0;
}

static int add_place(struct work *work, const char *path, uint64_t layers, bool is_closed,
		     const struct stat *st)
{
	if ((work->n_places & (work->n_places - 1)) == 0) {
		size_t room = work->n_places ? work->n_places * 2 : 1;
		struct place *more = reallocarray(work->places, room, sizeof *more);

		if (!more)
			return error_oom(work->err);
		work->places = more;
	}
	work->places[work->n_places] = (struct place){strdup(path), layers, is_closed, *st};
	if (!work->places[work->n_places].path)
		return error_oom(work->err);
	work->n_places++;
	return 0;
}

static int put_dir(struct work *work, const struct scene *scene, const char *name, const char *path,
		   uint64_t layers, bool is_closed, const struct stat *st)
{
	if (mkdirat(scene->out_fd, name, 0700) < 0)
		return failed(work, -errno, path);
	return add_place(work, path, layers, is_closed, st);
}

/* What the layers from the topmost on say of a name. */
static int put_name(struct work *work, const struct scene *scene, const char *name)
{
	const struct pile *pile = work->pile;
	const struct place *place = &work->places[scene->place];
	cleanup_free char *path = join(place->path, name);
	bool is_closed = place->is_closed;
	uint64_t layers = 0;
	struct stat top = {0};

	if (!path)
		return error_oom(work->err);
	for (size_t i = 0; i < pile->n; i++) {
		cleanup_fd int dir = -1;
		struct stat st;
		int r;

		if (scene->fds[i] < 0)
			continue;
		r = stack_stat(pile->stack, pile->first + i, path, scene->fds[i], name, &st);
		if (r == -ENOENT)
			continue;
		if (r < 0)
			return failed(work, r, path);
		/* A directory above hides what else is beneath it. */
		if (layers && (r == 1 || !S_ISDIR(st.st_mode))) {
			is_closed = true;
			break;
		}
		if (r == 1)
			return place->is_closed ? 0 : put_whiteout(work, scene, name, path);
		if (!S_ISDIR(st.st_mode))
			return put_object(work, i, scene, name, path, &st);
		top = layers ? top : st;
		layers |= UINT64_C(1) << i;
		dir = tree_open_at(scene->fds[i], name, O_RDONLY | O_DIRECTORY, true);
		if (dir < 0)
			return failed(work, dir, path);
		if (stack_is_opaque(pile->stack, pile->first + i, path, dir)) {
			is_closed = true;
			break;
		}
	}
	return layers ? put_dir(work, scene, name, path, layers, is_closed, &top) : 0;
}

/* ---- one directory ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

/* All names of all layers, the deleted ones of `gone` too; the texts stay the lists'. */
static struct name *gather(const struct work *work, const struct scene *scene,
			   struct tree_names *lists, size_t *ret_n)
{
	const struct pile *pile = work->pile;
	const char *path = work->places[scene->place].path;
	struct name *names;
	size_t n = 0, first;

	for (size_t i = 0; i < pile->n; i++)
		n += lists[i].n + gone_find(pile->stack->gone[pile->first + i], path, &first);
	names = calloc(n + 1, sizeof *names);
	if (!names)
		return NULL;
	n = 0;
	for (size_t i = 0; i < pile->n; i++) {
		const struct gone *gone = pile->stack->gone[pile->first + i];
		const char *at = lists[i].text;
		size_t n_gone = scene->fds[i] < 0 ? 0 : gone_find(gone, path, &first);

		for (size_t j = 0; j < lists[i].n; j++, at += strlen(at) + 1)
			names[n++].text = at;
		for (size_t j = 0; j < n_gone; j++)
			names[n++].text = gone_name(gone, first + j);
	}
	qsort(names, n, sizeof *names, compare_names);
	*ret_n = n;
	return names;
}

static int put_names(struct work *work, const struct scene *scene, struct tree_names *lists)
{
	size_t n = 0;
	cleanup_free struct name *names = gather(work, scene, lists, &n);
	int r = names ? 0 : error_oom(work->err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (i == 0 || !streq(names[i].text, names[i - 1].text))
			r = put_name(work, scene, names[i].text);
	}
	return r;
}

static int open_scene(struct work *work, struct scene *scene, struct tree_names *lists)
{
	const struct place *place = &work->places[scene->place];
	const struct pile *pile = work->pile;
	int r;

	scene->out_fd = tree_open_dir(work->upper_fd, place->path, true);
	if (scene->out_fd < 0)
		return failed(work, scene->out_fd, place->path);
	for (size_t i = 0; i < pile->n; i++) {
		if (!(place->layers & UINT64_C(1) << i))
			continue;
		scene->fds[i] =
			tree_open_dir(pile->stack->layer_fds[pile->first + i], place->path, true);
		r = scene->fds[i] < 0 ? scene->fds[i] : tree_list(scene->fds[i], &lists[i]);
		if (r < 0)
			return failed(work, r, place->path);
	}
	return 0;
}

static int fill_place(struct work *work, size_t i)
{
	struct tree_names lists[STACK_LAYERS_MAX] = {0};
	struct scene scene = {.place = i, .out_fd = -1};
	int r;

	memset(scene.fds, -1, sizeof scene.fds);
	r = open_scene(work, &scene, lists);
	if (r == 0)
		r = put_names(work, &scene, lists);
	for (size_t j = 0; j < work->pile->n; j++) {
		tree_names_done(&lists[j]);
		if (scene.fds[j] >= 0)
			close(scene.fds[j]);
	}
	if (scene.out_fd >= 0)
		close(scene.out_fd);
	return r;
}

/* What a directory is besides its names. Where nothing shows through, the new one is opaque
 * itself. */
static int finish_place(struct work *work, const struct place *place)
{
	const struct pile *pile = work->pile;
	size_t top = pile->first + (size_t)__builtin_ctzll(place->layers);
	cleanup_fd int from = tree_open_dir(pile->stack->layer_fds[top], place->path, true);
	cleanup_fd int to = tree_open_dir(work->upper_fd, place->path, true);
	int r = from < 0 ? from : to < 0 ? to : 0;

	if (r == 0) {
		copy_xattrs(work, from, to);
		if (place->is_closed && fsetxattr(to, "user.overlay.opaque", "y", 1, 0) < 0) {
			buf_add(&work->gone, place->path, strlen(place->path));
			buf_add(&work->gone, "/", 2);
		}
		r = set_attributes(pile, to, &place->st);
	}
	return r < 0 ? failed(work, r, place->path) : 0;
}

/* ---- all ---- */

static int begin(struct work *work, int out_fd)
{
	const struct layer_stack *stack = work->pile->stack;
	const size_t first = work->pile->first;
	uint64_t layers = 0;
	bool is_closed = false;
	struct stat st;

	if (mkdirat(out_fd, "upper", 0700) < 0 && errno != EEXIST)
		return failed(work, -errno, "");
	work->upper_fd = openat(out_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (work->upper_fd < 0 || fchmod(work->upper_fd, 0700) < 0 ||
	    fstat(stack->layer_fds[first], &st) < 0)
		return failed(work, -errno, "");
	for (size_t i = 0; i < work->pile->n && !is_closed; i++) {
		layers |= UINT64_C(1) << i;
		is_closed = stack_is_opaque(stack, first + i, "", stack->layer_fds[first + i]);
	}
	return add_place(work, "", layers, is_closed, &st);
}

static int write_gone(struct work *work, int out_fd)
{
	cleanup_fd int fd = -1;
	int r = buf_error(&work->gone);

	if (r == 0 && work->gone.used == 0)
		return 0;
	fd = r < 0 ? -1
		   : openat(out_fd, "gone", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	if (r == 0)
		r = fd < 0 ? -errno : fd_write_all(fd, work->gone.data, work->gone.used);
	return r < 0 ? failed(work, r, "the list of deleted names") : 0;
}

int pile_make(struct pile *pile, int out_fd, struct atoll_error *err)
{
	struct work work = {.pile = pile, .upper_fd = -1, .gone = BUF_INIT(GONE_MAX), .err = err};
	int r = begin(&work, out_fd);

	for (size_t i = 0; r == 0 && i < work.n_places; i++)
		r = fill_place(&work, i);
	for (size_t i = work.n_places; r == 0 && i > 0; i--)
		r = finish_place(&work, &work.places[i - 1]);
	if (r == 0)
		r = write_gone(&work, out_fd);
	for (size_t i = 0; i < work.n_places; i++)
		free(work.places[i].path);
	for (size_t i = 0; i < work.room; i++)
		free(work.linked[i].path);
	free(work.places);
	free(work.linked);
	buf_done(&work.gone);
	if (work.upper_fd >= 0)
		close(work.upper_fd);
	return r;
}
