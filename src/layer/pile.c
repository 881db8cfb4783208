/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/pile.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/gone.h"
#include "layer/layer-tree.h"
#include "layer/object.h"
#include "layer/stack.h"

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

struct work {
	struct pile *pile;
	struct pile_copier copier;
	struct place *places;
	size_t n_places;
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

/* ---- one name ---- */

/* What every name takes at least. */
#define NAME_BYTES 1024

static int count(struct work *work, const char *path, const struct stat *st)
{
	struct pile *pile = work->pile;
	uint64_t bytes = (uint64_t)st->st_blocks * 512;
	char shown[256];

	/* In sealed layers a name may be another layer's. */
	if (S_ISREG(st->st_mode) && st->st_nlink > 1 && !pile->links)
		bytes /= st->st_nlink;
	pile->bytes += bytes + NAME_BYTES;
	if (!pile->max_bytes || pile->bytes <= pile->max_bytes)
		return 0;
	error_set(work->err, ATOLL_FAULT_POLICY, 0,
		  "what was written outside the workspace takes more than %llu MiB, the contract's "
		  "disk space ('%s' came last)",
		  (unsigned long long)(pile->max_bytes >> 20), str_show(path, shown, sizeof shown));
	return -EDQUOT;
}

static int put_object(struct work *work, size_t layer, const struct scene *scene, const char *name,
		      const char *path, const struct stat *st)
{
	int from_dir = scene->fds[layer], r = count(work, path, st);

	if (r < 0)
		return r;
	/* Where it cannot have one name more (EMLINK), a copy is as good. */
	if (work->pile->links && linkat(from_dir, name, scene->out_fd, name, 0) == 0)
		return 0;
	r = pile_copy_object(&work->copier, from_dir, scene->out_fd, name, path, st);
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
	int r = count(work, path, st);

	if (r < 0)
		return r;
	if (mkdirat(scene->out_fd, name, 0700) < 0)
		return failed(work, -errno, path);
	return add_place(work, path, layers, is_closed, st);
}

/* What several layers say of one name, from the topmost on. */
struct verdict {
	uint64_t layers; /* that have a directory there, a bit each */
	bool is_closed;	 /* and nothing beneath them shows through */
	struct stat top;
};

/* What layer `i` adds to it. 1 if it is the last that counts: what is no directory, or deleted, is
 * put there and then, unless a directory above covers it. */
static int hear(struct work *work, const struct scene *scene, const char *name, const char *path,
		size_t i, struct verdict *verdict)
{
	const struct pile *pile = work->pile;
	cleanup_fd int dir = -1;
	struct stat st;
	int r = stack_stat(pile->stack, pile->first + i, path, scene->fds[i], name, &st);

	if (r < 0)
		return r == -ENOENT ? 0 : failed(work, r, path);
	if (r == 1 || !S_ISDIR(st.st_mode)) {
		if (verdict->layers)
			verdict->is_closed = true;
		else if (r == 0)
			r = put_object(work, i, scene, name, path, &st);
		else
			r = verdict->is_closed ? 0 : put_whiteout(work, scene, name, path);
		return r < 0 ? r : 1;
	}
	if (!verdict->layers)
		verdict->top = st;
	verdict->layers |= UINT64_C(1) << i;
	dir = tree_open_at(scene->fds[i], name, O_RDONLY | O_DIRECTORY, true);
	if (dir < 0)
		return failed(work, dir, path);
	if (!stack_is_opaque(pile->stack, pile->first + i, path, dir))
		return 0;
	verdict->is_closed = true;
	return 1;
}

static bool is_left_out(const struct pile *pile, const char *name)
{
	return pile->root && layer_root_leaves_out(pile->root, name);
}

static int put_name(struct work *work, const struct scene *scene, const char *name)
{
	const struct place *place = &work->places[scene->place];
	cleanup_free char *path = join(place->path, name);
	struct verdict verdict = {.is_closed = place->is_closed};
	int r = path ? 0 : error_oom(work->err);

	if (!place->path[0] && is_left_out(work->pile, name))
		return 0;
	for (size_t i = 0; r == 0 && i < work->pile->n; i++) {
		if (scene->fds[i] >= 0)
			r = hear(work, scene, name, path, i, &verdict);
	}
	if (r < 0 || !verdict.layers)
		return r < 0 ? r : 0;
	return put_dir(work, scene, name, path, verdict.layers, verdict.is_closed, &verdict.top);
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

	scene->out_fd = tree_open_dir(work->copier.upper_fd, place->path, true);
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
	cleanup_fd int to = tree_open_dir(work->copier.upper_fd, place->path, true);
	int r = from < 0 ? from : to < 0 ? to : 0;

	if (r == 0 && place->is_closed && fsetxattr(to, "user.overlay.opaque", "y", 1, 0) < 0) {
		buf_add(&work->gone, place->path, strlen(place->path));
		buf_add(&work->gone, "/", 2);
	}
	/* Last: afterwards it may not be ours to write any more. */
	if (r == 0)
		r = pile_copy_attributes(&work->copier, from, to, &place->st);
	return r < 0 ? failed(work, r, place->path) : 0;
}

/* ---- all ---- */

static int begin(struct work *work, int upper_fd)
{
	const struct layer_stack *stack = work->pile->stack;
	const size_t first = work->pile->first;
	uint64_t layers = 0;
	bool is_closed = false;
	struct stat st;

	work->copier.upper_fd = openat(upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (work->copier.upper_fd < 0 || fchmod(work->copier.upper_fd, 0700) < 0 ||
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
	if (r == 0 && out_fd < 0)
		return failed(work, -EOPNOTSUPP, "a deleted name");
	fd = r < 0 ? -1
		   : openat(out_fd, "gone", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
	if (r == 0)
		r = fd < 0 ? -errno : fd_write_all(fd, work->gone.data, work->gone.used);
	return r < 0 ? failed(work, r, "the list of deleted names") : 0;
}

/* `out_fd` -1: there is nowhere to write a list of deleted names. */
static int make(struct pile *pile, int upper_fd, int out_fd, struct atoll_error *err)
{
	struct work work = {.pile = pile,
			    .copier = {.pile = pile, .upper_fd = -1},
			    .gone = BUF_INIT(GONE_MAX),
			    .err = err};
	int r = begin(&work, upper_fd);

	for (size_t i = 0; r == 0 && i < work.n_places; i++)
		r = fill_place(&work, i);
	for (size_t i = work.n_places; r == 0 && i > 0; i--)
		r = finish_place(&work, &work.places[i - 1]);
	if (r == 0)
		r = write_gone(&work, out_fd);
	for (size_t i = 0; i < work.n_places; i++)
		free(work.places[i].path);
	free(work.places);
	buf_done(&work.gone);
	pile_copier_done(&work.copier);
	return r;
}

int pile_make(struct pile *pile, int out_fd, struct atoll_error *err)
{
	cleanup_fd int upper = -1;

	if (mkdirat(out_fd, "upper", 0700) < 0 && errno != EEXIST)
		return error_set(err, ATOLL_FAULT_HOST, errno, "create a layer");
	upper = openat(out_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (upper < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open a new layer");
	return make(pile, upper, out_fd, err);
}

int pile_make_in(struct pile *pile, int upper_fd, struct atoll_error *err)
{
	return make(pile, upper_fd, -1, err);
}
