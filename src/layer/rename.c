/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/draft.h"
#include "layer/layer-tree.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

/*
 * A deleted file and an added one that were one file
 *
 * In this order, each with what the earlier left over:
 *   by origin     the overlay noted what an added file was copied up from
 *   by content    of the same size and the same hash; of several the one of the same name
 *   by likeness   texts that have more than half in common, if there are few
 * All three are bounded: what is not found is told as deleted and added, which is as true.
 */

#define HASH_BYTES_MAX ((uint64_t)512 << 20) /* of all files that are read for a hash */
#define HASH_FILES_MAX 20000
#define TWINS_MAX      256 /* of one size that one file is compared with */
#define LIKE_SIZE_MAX  (256 << 10)
#define LIKE_BYTES_MAX ((uint64_t)16 << 20)
#define LIKE_PAIRS_MAX 2500
#define LIKE_LEAST     50 /* of a hundred */
#define LINE_LEAST     4  /* a closing brace alone makes nothing alike */

enum {
	SHA_SIZE = crypto_generichash_BYTES_MIN,
};

/* One half of a possible rename. */
struct half {
	struct draft *draft;
	unsigned char hash[SHA_SIZE];
	bool is_hashed;
	uint64_t *lines; /* hashes of its lines, sorted; each with its length in the low bits */
	size_t n_lines;
};

struct halves {
	struct half *items;
	size_t n;
};

struct search {
	struct drafts *drafts;
	struct halves deleted, added;
	uint64_t bytes_left, files_left;
};

static void halves_done(struct halves *halves)
{
	for (size_t i = 0; i < halves->n; i++)
		free(halves->items[i].lines);
	free(halves->items);
}

static int open_half(const struct search *search, const struct half *half)
{
	const struct draft *draft = half->draft;
	const struct layer_stack *stack = search->drafts->stack;
	bool is_after = draft->change.kind == ATOLL_ADDED;
	int root = is_after ? stack->layer_fds[draft->layer] : stack->base_fd;
	const char *name;
	cleanup_fd int parent = tree_open_parent(root, draft->change.path, is_after, &name);

	return parent < 0 ? parent : tree_open_object(parent, name, is_after);
}

static const struct stat *stat_of(const struct half *half)
{
	const struct atoll_change *change = &half->draft->change;

	return change->kind == ATOLL_ADDED ? &change->after : &change->before;
}

/* Compared once more, since `from` is what it was. */
static unsigned parts_between(const struct search *search, const struct half *from,
			      const struct half *to)
{
	const struct layer_stack *stack = search->drafts->stack;
	struct side before = {.st = from->draft->change.before};
	struct side after = {.st = to->draft->change.after, .is_ours = true};
	cleanup_fd int old =
		tree_open_parent(stack->base_fd, from->draft->change.path, false, &before.name);
	cleanup_fd int new = tree_open_parent(stack->layer_fds[to->draft->layer],
					      to->draft->change.path, true, &after.name);

	if (old < 0 || new < 0)
		return ATOLL_PART_CONTENT;
	before.dir_fd = old;
	after.dir_fd = new;
	return draft_compare(&before, &after);
}

static void join(const struct search *search, struct half *from, struct half *to)
{
	struct atoll_change *change = &to->draft->change, *old = &from->draft->change;

	change->parts = parts_between(search, from, to);
	change->kind = ATOLL_RENAMED;
	change->from = take_ptr(old->path);
	change->before = old->before;
	if (old->conflict)
		change->conflict = old->conflict;
	from->draft->is_gone = true;
	from->draft = to->draft = NULL;
}

/* Of what is neither joined nor to be left alone. */
static bool is_candidate(const struct draft *draft, enum atoll_change_kind kind)
{
	const struct atoll_change *change = &draft->change;
	const struct stat *st = kind == ATOLL_ADDED ? &change->after : &change->before;

	return !draft->is_gone && change->kind == kind && S_ISREG(st->st_mode) && st->st_size > 0 &&
	       (kind == ATOLL_DELETED || st->st_nlink == 1);
}

static int collect(struct drafts *drafts, enum atoll_change_kind kind, struct halves *ret)
{
	ret->items = calloc(drafts->n ? drafts->n : 1, sizeof *ret->items);
	if (!ret->items)
		return error_oom(drafts->err);
	for (size_t i = 0; i < drafts->n; i++)
		if (is_candidate(&drafts->items[i], kind)) {
			ret->items[ret->n++].draft = &drafts->items[i];
			drafts->items[i].half = ret->n;
		}
	return 0;
}

/* Drop those that are joined. */
static void shrink(struct halves *halves)
{
	size_t kept = 0;

	for (size_t i = 0; i < halves->n; i++) {
		if (halves->items[i].draft)
			halves->items[kept++] = halves->items[i];
		else
			free(halves->items[i].lines);
	}
	halves->n = kept;
}

/* ---- by origin ---- */

struct known_origin {
	struct draft_origin origin;
	struct half *half; /* a deleted file, or NULL: another that the layers speak of */
};

static int compare_origins(const void *a, const void *b)
{
	const struct draft_origin *x = a, *y = b;

	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return memcmp(x->data, y->data, x->size);
}

static bool add_origin(const struct search *search, const char *path, struct half *half,
		       struct known_origin *ret)
{
	const char *name;
	cleanup_fd int parent =
		tree_open_parent(search->drafts->stack->base_fd, path, false, &name);

	ret->half = half;
	return parent >= 0 && origin_of(parent, name, &ret->origin);
}

/* Of every file of the base that the layers speak of. */
static size_t list_origins(const struct search *search, struct known_origin *ret)
{
	struct drafts *drafts = search->drafts;
	size_t n = 0;

	for (size_t i = 0; i < search->deleted.n; i++) {
		struct half *half = &search->deleted.items[i];

		n += add_origin(search, half->draft->change.path, half, &ret[n]);
	}
	for (size_t i = 0; i < drafts->n; i++)
		if (drafts->items[i].change.kind != ATOLL_ADDED &&
		    S_ISREG(drafts->items[i].change.before.st_mode) &&
		    !is_candidate(&drafts->items[i], ATOLL_DELETED))
			n += add_origin(search, drafts->items[i].change.path, NULL, &ret[n]);
	for (size_t i = 0; i < drafts->n_same; i++)
		n += add_origin(search, drafts->same[i], NULL, &ret[n]);
	qsort(ret, n, sizeof *ret, compare_origins);
	return n;
}

static struct half *half_of(struct search *search, const struct draft *draft)
{
	return draft->half ? &search->added.items[draft->half - 1] : NULL;
}

static bool has_handle(const struct draft *draft)
{
	return draft->origin && draft->origin->size > 0;
}

static int join_by_origin(struct search *search)
{
	struct drafts *drafts = search->drafts;
	cleanup_free struct known_origin *known = NULL;
	size_t n, n_with = 0;

	for (size_t i = 0; i < drafts->n; i++)
		n_with += has_handle(&drafts->items[i]);
	if (n_with == 0 || drafts->stack->base_fd < 0)
		return 0;
	known = calloc(drafts->n + drafts->n_same + 1, sizeof *known);
	if (!known)
		return error_oom(drafts->err);
	n = list_origins(search, known);
	for (size_t i = 0; i < drafts->n; i++) {
		struct draft *draft = &drafts->items[i];
		struct known_origin *found;
		struct half *to;

		if (!has_handle(draft))
			continue;
		found = bsearch(draft->origin, known, n, sizeof *known, compare_origins);
		to = found ? half_of(search, draft) : NULL;
		draft->is_found = found != NULL;
		if (to && found->half && found->half->draft)
			join(search, found->half, to);
	}
	return 0;
}

/* ---- by content ---- */

static int compare_sizes(const void *a, const void *b)
{
	const struct half *x = a, *y = b;
	off_t s = stat_of(x)->st_size, t = stat_of(y)->st_size;

	if (s != t)
		return s < t ? -1 : 1;
	return strcmp(x->draft->change.path, y->draft->change.path);
}

static bool hash_half(struct search *search, struct half *half)
{
	uint64_t size = (uint64_t)stat_of(half)->st_size;
	cleanup_fd int fd = -1;
	crypto_generichash_state state;
	char chunk[16384];
	ssize_t got;

	if (half->is_hashed)
		return true;
	if (search->files_left == 0 || search->bytes_left < size)
		return false;
	search->files_left--;
	search->bytes_left -= size;
	fd = open_half(search, half);
	if (fd < 0)
		return false;
	crypto_generichash_init(&state, NULL, 0, sizeof half->hash);
	while ((got = read(fd, chunk, sizeof chunk)) > 0)
		crypto_generichash_update(&state, (unsigned char *)chunk, (unsigned long long)got);
	crypto_generichash_final(&state, half->hash, sizeof half->hash);
	half->is_hashed = got == 0;
	return half->is_hashed;
}

static bool is_same_name(const struct half *a, const struct half *b)
{
	return streq(path_name(a->draft->change.path), path_name(b->draft->change.path));
}

/* Among deleted ones from `first` on, all of one size, which one is `to`? */
static struct half *find_twin(struct search *search, size_t first, struct half *to)
{
	struct halves *deleted = &search->deleted;
	off_t size = stat_of(to)->st_size;
	struct half *best = NULL;

	for (size_t i = first; i < deleted->n && i < first + TWINS_MAX; i++) {
		struct half *from = &deleted->items[i];

		if (!from->draft)
			continue;
		if (stat_of(from)->st_size != size)
			break;
		if (!hash_half(search, from) || !hash_half(search, to) ||
		    memcmp(from->hash, to->hash, sizeof to->hash) != 0)
			continue;
		if (is_same_name(from, to))
			return from;
		if (!best)
			best = from;
	}
	return best;
}

static void join_by_content(struct search *search)
{
	struct halves *deleted = &search->deleted, *added = &search->added;
	size_t first = 0;

	qsort(deleted->items, deleted->n, sizeof *deleted->items, compare_sizes);
	qsort(added->items, added->n, sizeof *added->items, compare_sizes);
	for (size_t i = 0; i < added->n; i++) {
		struct half *to = &added->items[i], *from;

		while (first < deleted->n &&
		       (!deleted->items[first].draft ||
			stat_of(&deleted->items[first])->st_size < stat_of(to)->st_size))
			first++;
		from = find_twin(search, first, to);
		if (from)
			join(search, from, to);
	}
}

/* ---- by likeness ---- */

static int compare_lines(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

#define LINE_BITS 18 /* enough for LIKE_SIZE_MAX */

static uint64_t hash_line(const char *line, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (unsigned char)line[i]) * 0x100000001b3;
	return hash << LINE_BITS | (length & ((1U << LINE_BITS) - 1));
}

/* Lines of a text; false if it is none, or too much. */
static bool read_lines(struct search *search, struct half *half)
{
	cleanup_buf struct buf text = BUF_INIT(LIKE_SIZE_MAX);
	cleanup_fd int fd = -1;
	size_t n = 1;

	if (half->lines)
		return true;
	if (search->bytes_left < (uint64_t)stat_of(half)->st_size)
		return false;
	search->bytes_left -= (uint64_t)stat_of(half)->st_size;
	fd = open_half(search, half);
	if (fd < 0 || tree_read_file(fd, LIKE_SIZE_MAX, &text) < 0 || text.used == 0 ||
	    memchr(text.data, '\0', text.used))
		return false;
	for (size_t i = 0; i < text.used; i++)
		n += text.data[i] == '\n';
	half->lines = calloc(n, sizeof *half->lines);
	if (!half->lines)
		return false;
	for (const char *line = text.data, *end = line + text.used; line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t length = (size_t)((newline ? newline + 1 : end) - line);

		half->lines[half->n_lines++] = hash_line(line, length);
		line += length;
	}
	qsort(half->lines, half->n_lines, sizeof *half->lines, compare_lines);
	return true;
}

/* Bytes of the lines that both have, of a hundred of the larger one. */
static unsigned likeness(const struct half *a, const struct half *b)
{
	uint64_t common = 0, size_a = (uint64_t)stat_of(a)->st_size;
	uint64_t size_b = (uint64_t)stat_of(b)->st_size;

	for (size_t i = 0, k = 0; i < a->n_lines && k < b->n_lines;) {
		uint64_t length = a->lines[i] & ((1U << LINE_BITS) - 1);

		if (a->lines[i] != b->lines[k]) {
			a->lines[i] < b->lines[k] ? i++ : k++;
			continue;
		}
		common += length > LINE_LEAST ? length : 0;
		i++, k++;
	}
	return (unsigned)(common * 100 / (size_a > size_b ? size_a : size_b));
}

static bool can_be_alike(const struct half *a, const struct half *b)
{
	off_t s = stat_of(a)->st_size, t = stat_of(b)->st_size;

	return s < LIKE_SIZE_MAX && t < LIKE_SIZE_MAX && s <= 2 * t && t <= 2 * s;
}

static void join_by_likeness(struct search *search)
{
	struct halves *deleted = &search->deleted, *added = &search->added;

	if (deleted->n * added->n > LIKE_PAIRS_MAX)
		return;
	search->bytes_left = LIKE_BYTES_MAX;
	for (size_t i = 0; i < added->n; i++) {
		struct half *to = &added->items[i], *best = NULL;
		unsigned most = LIKE_LEAST;

		for (size_t k = 0; k < deleted->n; k++) {
			struct half *from = &deleted->items[k];
			unsigned like;

			if (!from->draft || !can_be_alike(from, to) || !read_lines(search, from) ||
			    !read_lines(search, to))
				continue;
			like = likeness(from, to);
			if (like > most || (like == most && best && is_same_name(from, to))) {
				most = like;
				best = from;
			}
		}
		if (best)
			join(search, best, to);
	}
}

static void drop_joined(struct drafts *drafts)
{
	size_t kept = 0;

	for (size_t i = 0; i < drafts->n; i++) {
		if (drafts->items[i].is_gone)
			free(drafts->items[i].origin);
		else
			drafts->items[kept++] = drafts->items[i];
	}
	drafts->n = kept;
}

int drafts_find_renames(struct drafts *drafts)
{
	struct search search = {
		.drafts = drafts, .bytes_left = HASH_BYTES_MAX, .files_left = HASH_FILES_MAX};
	int r = collect(drafts, ATOLL_DELETED, &search.deleted);

	if (r == 0)
		r = collect(drafts, ATOLL_ADDED, &search.added);
	if (r == 0)
		r = join_by_origin(&search);
	shrink(&search.deleted);
	shrink(&search.added);
	if (r == 0 && search.deleted.n && search.added.n) {
		join_by_content(&search);
		shrink(&search.deleted);
		shrink(&search.added);
		join_by_likeness(&search);
	}
	halves_done(&search.deleted);
	halves_done(&search.added);
	drop_joined(drafts);
	return r;
}
