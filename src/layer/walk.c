/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/draft.h"
#include "layer/gone.h"
#include "layer/layer-tree.h"
#include "layer/stack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * What differs between the base and the top of a stack
 *
 * Only the layers are walked, and the base is looked at where they speak of it; so the cost is that
 * of what was touched. Directories that wait are a list of paths, opened anew when their turn
 * comes: neither the stack nor the number of descriptors grows with the depth that a stranger
 * chose.
 *
 * A directory of the layers falls into one of three kinds: it adds to the base's (only names in the
 * layers count), it replaces it (names of the base that are not in the layers are deleted), or the
 * base has none. Deleted directories are the second kind without any layer.
 */

/* Paths that are kept at a time: some two million of a usual length. */
#define PATH_BYTES_MAX ((uint64_t)256 << 20)

struct pending {
	char *path;
	uint64_t layers; /* a bit for each that has it as a directory, and counts */
	bool has_base;	 /* the base has a directory there */
	bool shows;	 /* which shows through */
	bool is_mounted; /* the base has a mount there, or above */
};

struct walk {
	struct drafts *drafts;
	struct pending *todo;
	size_t n_todo, room_todo;
	dev_t base_dev;
};

/* The directory at hand. */
struct here {
	const char *path;
	int fds[STACK_LAYERS_MAX]; /* only those whose bit is set */
	uint64_t layers;
	int base_fd; /* -1: none */
	bool shows, is_mounted;
};

static int grow(void **items, size_t n, size_t *room, size_t size)
{
	size_t more = *room ? *room * 2 : 64;
	void *bigger;

	if (n < *room)
		return 0;
	bigger = reallocarray(*items, more, size);
	if (!bigger)
		return -ENOMEM;
	*items = bigger;
	*room = more;
	return 0;
}

static void free_pending(struct walk *walk, char *path)
{
	walk->drafts->bytes -= strlen(path) + 1;
	free(path);
}

/* The path of `name` in `dir`. What a deep tree makes of them is bounded: the sum of all paths
 * grows with the square of the depth. */
static char *make_path(struct walk *walk, const char *dir, const char *name)
{
	size_t length = strlen(dir), size = length + (length ? 1 : 0) + strlen(name) + 1;
	char *path = malloc(size);

	walk->drafts->bytes += size;
	if (walk->drafts->bytes > PATH_BYTES_MAX) {
		free(path);
		error_set(walk->drafts->err, ATOLL_FAULT_JOB, E2BIG,
			  "the paths of the changes are longer than %u MiB together",
			  (unsigned)(PATH_BYTES_MAX >> 20));
		return NULL;
	}
	if (!path) {
		error_oom(walk->drafts->err);
		return NULL;
	}
	snprintf(path, size, "%s%s%s", dir, length ? "/" : "", name);
	return path;
}

static const char words_mounted[] = "a file system is mounted there on the host";

static int add_draft(struct walk *walk, const struct here *here, const char *name,
		     enum atoll_change_kind kind, struct draft **ret)
{
	struct drafts *drafts = walk->drafts;
	struct draft *draft;
	char *path;

	if (grow((void **)&drafts->items, drafts->n, &drafts->room, sizeof *drafts->items) < 0)
		return error_oom(drafts->err);
	path = make_path(walk, here->path, name);
	if (!path)
		return -ENOMEM;
	draft = &drafts->items[drafts->n++];
	*draft = (struct draft){.change = {.path = path, .kind = kind}};
	if (here->is_mounted)
		draft->change.conflict = words_mounted;
	*ret = draft;
	return 0;
}

static int add_pending(struct walk *walk, const struct here *here, const char *name,
		       struct pending what)
{
	if (grow((void **)&walk->todo, walk->n_todo, &walk->room_todo, sizeof *walk->todo) < 0)
		return error_oom(walk->drafts->err);
	what.path = make_path(walk, here->path, name);
	if (!what.path)
		return -ENOMEM;
	walk->todo[walk->n_todo++] = what;
	return 0;
}

static int note_same(struct walk *walk, const struct here *here, const char *name)
{
	struct drafts *drafts = walk->drafts;
	char *path;

	if (grow((void **)&drafts->same, drafts->n_same, &drafts->room_same, sizeof(char *)) < 0)
		return error_oom(drafts->err);
	path = make_path(walk, here->path, name);
	if (!path)
		return -ENOMEM;
	drafts->same[drafts->n_same++] = path;
	return 0;
}

/* The base's object of that name; false if there is none. */
static bool find_before(const struct here *here, const char *name, struct side *ret)
{
	*ret = (struct side){.dir_fd = here->base_fd, .name = name};
	return here->base_fd >= 0 && tree_stat_at(here->base_fd, name, false, &ret->st) == 0;
}

/* On another file system than the base: the run saw what lies beneath the mount, and we do not. */
static bool is_mounted_over(const struct walk *walk, const struct stat *st)
{
	return st->st_dev != walk->base_dev;
}

static int visit_deleted(struct walk *walk, const struct here *here, const char *name,
			 const struct side *before)
{
	struct draft *draft;
	int r = add_draft(walk, here, name, ATOLL_DELETED, &draft);

	if (r < 0)
		return r;
	draft->change.before = before->st;
	draft->change.conflict = host_changed(walk->drafts, here->path, before, false);
	if (is_mounted_over(walk, &before->st))
		draft->change.conflict = words_mounted;
	else if (S_ISDIR(before->st.st_mode))
		return add_pending(walk, here, name, (struct pending){.has_base = true});
	return 0;
}

static struct draft_origin *read_origin(const struct side *side)
{
	cleanup_fd int fd = -1;
	struct draft_origin origin, *copy;

	/* What was made new has none, and that is most of what is added. */
	if (!S_ISREG(side->st.st_mode) ||
	    tree_lacks_xattr(side->dir_fd, side->name, "user.overlay.origin"))
		return NULL;
	fd = tree_open_object(side->dir_fd, side->name, side->is_ours);
	if (fd < 0 || !origin_read(fd, &origin))
		return NULL;
	copy = malloc(sizeof *copy);
	if (copy)
		*copy = origin;
	return copy;
}

static int visit_added(struct walk *walk, const struct here *here, const struct side *after,
		       size_t layer)
{
	struct draft *draft;
	int r = add_draft(walk, here, after->name, ATOLL_ADDED, &draft);

	if (r < 0)
		return r;
	draft->change.after = after->st;
	draft->layer = layer;
	draft->origin = read_origin(after);
	return 0;
}

/* Both are there, and not both are directories, which are compared when they are open. */
static int visit_both(struct walk *walk, const struct here *here, const struct side *before,
		      const struct side *after, size_t layer)
{
	unsigned parts = draft_compare(before, after);
	const char *conflict = host_changed(walk->drafts, here->path, before, true);
	struct draft *draft;
	int r;

	if (conflict && !((before->st.st_mode ^ after->st.st_mode) & 07777) &&
	    host_is_as_kept(walk->drafts, here->path, before))
		conflict = NULL;
	if (is_mounted_over(walk, &before->st))
		conflict = words_mounted;
	/* The host has made the same of it meanwhile; the times of that are its own. */
	if (parts == 0 || (parts == ATOLL_PART_TIME && conflict))
		return S_ISREG(before->st.st_mode) ? note_same(walk, here, before->name) : 0;
	r = add_draft(walk, here, after->name, ATOLL_CHANGED, &draft);
	if (r < 0)
		return r;
	draft->change.before = before->st;
	draft->change.after = after->st;
	draft->change.parts = parts;
	draft->change.conflict = conflict;
	draft->layer = layer;
	return 0;
}

/* Which layers join in the directory `name`, from `layer` down, and does the base? */
static int join(struct walk *walk, const struct here *here, const char *name, size_t layer,
		struct pending *ret)
{
	const struct layer_stack *stack = walk->drafts->stack;
	cleanup_free char *path = NULL;

	if (asprintf(&path, "%s%s%s", here->path, *here->path ? "/" : "", name) < 0)
		return error_oom(walk->drafts->err);
	*ret = (struct pending){
		.layers = 1ULL << layer, .shows = here->shows, .is_mounted = here->is_mounted};
	for (size_t i = layer + 1; i < stack->n; i++) {
		struct stat st;
		int r;

		if (!(here->layers & 1ULL << i))
			continue;
		r = stack_stat(stack, i, path, here->fds[i], name, &st);
		if (r == -ENOENT)
			continue;
		if (r != 0 || !S_ISDIR(st.st_mode)) {
			ret->shows = false;
			return 0;
		}
		ret->layers |= 1ULL << i;
	}
	return 0;
}

static int visit_directory(struct walk *walk, const struct here *here, const struct side *after,
			   size_t layer, const struct side *before)
{
	struct pending next;
	int r = join(walk, here, after->name, layer, &next);

	if (r < 0)
		return r;
	next.has_base =
		before && S_ISDIR(before->st.st_mode) && !is_mounted_over(walk, &before->st);
	if (before && is_mounted_over(walk, &before->st))
		next.is_mounted = true;
	if (!before)
		r = visit_added(walk, here, after, layer);
	else if (!next.has_base)
		r = visit_both(walk, here, before, after, layer);
	return r < 0 ? r : add_pending(walk, here, after->name, next);
}

static int visit_present(struct walk *walk, const struct here *here, const struct side *after,
			 size_t layer, const struct side *before)
{
	int r;

	if (S_ISDIR(after->st.st_mode))
		return visit_directory(walk, here, after, layer, before);
	if (!before)
		return visit_added(walk, here, after, layer);
	r = visit_both(walk, here, before, after, layer);
	if (r == 0 && S_ISDIR(before->st.st_mode) && !is_mounted_over(walk, &before->st))
		r = add_pending(walk, here, after->name, (struct pending){.has_base = true});
	return r;
}

/* `layer` is the topmost that speaks of `name`. */
static int visit_name(struct walk *walk, const struct here *here, const char *name, size_t layer,
		      bool is_deleted)
{
	struct side before, after = {here->fds[layer], name, true};
	bool is_before = find_before(here, name, &before);
	int r;

	if (!is_deleted) {
		r = tree_stat_at(after.dir_fd, name, true, &after.st);
		if (r == -ENOENT)
			return 0; /* it is being changed */
		if (r < 0)
			return error_set(walk->drafts->err, ATOLL_FAULT_HOST, -r,
					 "look at '%s' in directory '%s' of the layer", name,
					 here->path);
		is_deleted = stack_is_whiteout(&after.st);
	}
	if (is_deleted)
		return is_before ? visit_deleted(walk, here, name, &before) : 0;
	return visit_present(walk, here, &after, layer, is_before ? &before : NULL);
}

/* A name, and the topmost layer that speaks of it. */
struct name {
	const char *text;
	unsigned layer;
	bool is_deleted; /* says the layer's file `gone` */
};

static int compare_names(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	int by_text = strcmp(x->text, y->text);

	if (by_text)
		return by_text;
	/* In one layer what is there counts before what the list says. */
	return x->layer != y->layer ? (x->layer > y->layer) - (x->layer < y->layer)
				    : x->is_deleted - y->is_deleted;
}

/* Everything that the layers and the base say about one directory. */
struct names {
	struct tree_names of[STACK_LAYERS_MAX + 1]; /* the last: of the base */
	struct name *all;
	size_t n;
};

static void names_done(struct names *names)
{
	for (size_t i = 0; i <= STACK_LAYERS_MAX; i++)
		tree_names_done(&names->of[i]);
	free(names->all);
}

static void take_names(struct names *names, const struct tree_names *from, size_t layer)
{
	const char *text = from->text;

	for (size_t i = 0; i < from->n; i++, text += strlen(text) + 1)
		names->all[names->n++] = (struct name){text, (unsigned)layer, false};
}

static int read_names(struct walk *walk, const struct here *here, struct names *names)
{
	const struct layer_stack *stack = walk->drafts->stack;
	size_t n = 0, first;

	for (size_t i = 0; i < stack->n; i++) {
		int r;

		if (!(here->layers & 1ULL << i))
			continue;
		r = tree_list(here->fds[i], &names->of[i]);
		if (r < 0)
			return error_set(walk->drafts->err, ATOLL_FAULT_HOST, -r,
					 "read directory '%s' of the layer", here->path);
		n += names->of[i].n + gone_find(stack->gone[i], here->path, &first);
	}
	/* Another's directory on the host may not be readable; then the run has not seen it either.
	 */
	if (here->base_fd >= 0 && !here->shows &&
	    tree_list(here->base_fd, &names->of[STACK_LAYERS_MAX]) == 0)
		n += names->of[STACK_LAYERS_MAX].n;
	names->all = calloc(n ? n : 1, sizeof *names->all);
	return names->all ? 0 : error_oom(walk->drafts->err);
}

static void merge_names(const struct walk *walk, const struct here *here, struct names *names)
{
	const struct layer_stack *stack = walk->drafts->stack;

	for (size_t i = 0; i < stack->n; i++) {
		size_t first, n;

		if (!(here->layers & 1ULL << i))
			continue;
		take_names(names, &names->of[i], i);
		n = gone_find(stack->gone[i], here->path, &first);
		for (size_t k = first; k < first + n; k++)
			names->all[names->n++] =
				(struct name){gone_name(stack->gone[i], k), (unsigned)i, true};
	}
	take_names(names, &names->of[STACK_LAYERS_MAX], STACK_LAYERS_MAX);
	qsort(names->all, names->n, sizeof *names->all, compare_names);
}

static int visit_names(struct walk *walk, const struct here *here)
{
	cleanup_with(names_done) struct names names = {0};
	int r = read_names(walk, here, &names);

	if (r < 0)
		return r;
	merge_names(walk, here, &names);
	for (size_t i = 0; i < names.n && r == 0; i++) {
		const struct name *name = &names.all[i];

		if (i > 0 && streq(name->text, names.all[i - 1].text))
			continue;
		if (name->layer == STACK_LAYERS_MAX) {
			struct side before;

			if (find_before(here, name->text, &before))
				r = visit_deleted(walk, here, name->text, &before);
		} else {
			r = visit_name(walk, here, name->text, name->layer, name->is_deleted);
		}
	}
	return r;
}

/* The directory itself, which is on both sides. */
static int compare_directories(struct walk *walk, const struct here *here, size_t top)
{
	const struct here above = {.path = "", .base_fd = -1};
	struct side before = {here->base_fd, ".", false}, after = {here->fds[top], ".", true};
	struct draft *draft;
	unsigned parts;
	int r;

	if (fstat(here->base_fd, &before.st) < 0 || fstat(here->fds[top], &after.st) < 0)
		return 0;
	parts = draft_compare(&before, &after);
	if (parts == 0)
		return 0;
	r = add_draft(walk, &above, here->path, ATOLL_CHANGED, &draft);
	if (r < 0)
		return r;
	draft->change.before = before.st;
	draft->change.after = after.st;
	draft->change.parts = parts;
	draft->layer = top;
	return 0;
}

/* The base had it when it was copied up, for a directory is never moved once it has an origin. */
static void note_lost_base(struct walk *walk, const struct here *here, size_t lowest)
{
	struct drafts *drafts = walk->drafts;
	struct draft_origin origin;

	if (!origin_read(here->fds[lowest], &origin))
		return;
	for (size_t i = drafts->n; i-- > 0;) {
		struct atoll_change *change = &drafts->items[i].change;

		if (streq(change->path, here->path)) {
			change->conflict = change->kind == ATOLL_ADDED
						   ? "deleted on the host since"
						   : "replaced on the host since";
			return;
		}
	}
}

static void close_here(struct here *here)
{
	for (size_t i = 0; i < STACK_LAYERS_MAX; i++)
		if (here->layers & 1ULL << i)
			close(here->fds[i]);
	if (here->base_fd >= 0)
		close(here->base_fd);
}

/* Open the directory wherever it is; layers beneath an opaque one do not count. */
static int open_here(struct walk *walk, const struct pending *what, struct here *here)
{
	const struct layer_stack *stack = walk->drafts->stack;

	*here = (struct here){.path = what->path,
			      .base_fd = -1,
			      .shows = what->shows,
			      .is_mounted = what->is_mounted};
	for (size_t i = 0; i < stack->n; i++) {
		int fd;

		if (!(what->layers & 1ULL << i))
			continue;
		fd = tree_open_dir(stack->layer_fds[i], what->path, true);
		if (layer_has_moved(fd))
			return error_set(walk->drafts->err, ATOLL_FAULT_POLICY, EAGAIN,
					 "directory '%s' of the layer was changed meanwhile",
					 what->path);
		if (fd < 0)
			return error_set(walk->drafts->err, ATOLL_FAULT_HOST, -fd,
					 "open directory '%s' of the layer", what->path);
		here->fds[i] = fd;
		here->layers |= 1ULL << i;
		if (stack_is_opaque(stack, i, what->path, fd)) {
			here->shows = false;
			break;
		}
	}
	if (what->has_base)
		here->base_fd = tree_open_dir(stack->base_fd, what->path, false);
	return 0;
}

static int visit(struct walk *walk, const struct pending *what)
{
	cleanup_with(close_here) struct here here;
	size_t top, lowest;
	int r = open_here(walk, what, &here);

	if (r < 0)
		return r;
	if (here.layers && *what->path) {
		top = (size_t)__builtin_ctzll(here.layers);
		lowest = 63 - (size_t)__builtin_clzll(here.layers);
		if (here.base_fd >= 0)
			r = compare_directories(walk, &here, top);
		else if (here.shows)
			note_lost_base(walk, &here, lowest);
	}
	return r < 0 ? r : visit_names(walk, &here);
}

int drafts_walk(struct drafts *drafts)
{
	const struct layer_stack *stack = drafts->stack;
	const struct here above = {.path = "", .base_fd = -1};
	struct walk walk = {.drafts = drafts};
	struct stat st;
	int r;

	if (stack->base_fd >= 0 && fstat(stack->base_fd, &st) == 0)
		walk.base_dev = st.st_dev;
	r = add_pending(&walk, &above, "",
			(struct pending){
				.layers = stack->n == 64 ? ~0ULL : (1ULL << stack->n) - 1,
				.has_base = stack->base_fd >= 0,
				.shows = true,
			});
	while (r == 0 && walk.n_todo > 0) {
		struct pending next = walk.todo[--walk.n_todo];

		r = visit(&walk, &next);
		free_pending(&walk, next.path);
	}
	while (walk.n_todo > 0)
		free(walk.todo[--walk.n_todo].path);
	free(walk.todo);
	return r;
}
