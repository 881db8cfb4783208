/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "base/share.h"
#include "base/str.h"
#include "base/uapi.h"
#include "job/record-inner.h"
#include "layer/layer.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kinds[] = {[ATOLL_ADDED] = "added",
				    [ATOLL_CHANGED] = "changed",
				    [ATOLL_DELETED] = "deleted",
				    [ATOLL_RENAMED] = "renamed"};

/* ---- one line ---- */

struct change {
	const char *path, *from; /* `from` NULL mostly */
	enum atoll_change_kind kind;
	const struct stat *st; /* as it is, or was if it is gone; NULL: not known */
	const unsigned char *before, *after;
	const char *mark, *why;
};

static const char *type_word(mode_t mode)
{
	return S_ISREG(mode)   ? "file"
	       : S_ISDIR(mode) ? "directory"
	       : S_ISLNK(mode) ? "link"
			       : "other";
}

static void tell(struct recorder *recorder, uint32_t step, uint64_t time_ns,
		 const struct change *change)
{
	struct json *json = record_begin(recorder, "change", time_ns, step);
	char mode[8];

	json_str(json, "path", change->path);
	if (change->from)
		json_str(json, "from", change->from);
	json_str(json, "change", kinds[change->kind]);
	if (change->st) {
		snprintf(mode, sizeof mode, "%04o", change->st->st_mode & 07777);
		json_str(json, "type", type_word(change->st->st_mode));
		json_str(json, "mode", mode);
		json_uint(json, "size",
			  S_ISREG(change->st->st_mode) ? (uint64_t)change->st->st_size : 0);
	}
	record_add_hash(json, "before", change->before);
	record_add_hash(json, "after", change->after);
	if (change->why)
		json_str(json, "why", change->why);
	json_str(json, "mark", change->mark);
	record_commit(recorder);
}

/* Of a file its content, of a link where it leads; others have none. */
static int hash_object(int fd, unsigned char ret[HASH_SIZE])
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t length;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode))
		return hash_fd_sized(fd, (uint64_t)st.st_size, ret);
	if (!S_ISLNK(st.st_mode))
		return -EISDIR;
	length = readlinkat(fd, "", target, sizeof target);
	if (length < 0)
		return -errno;
	hash_sha256(target, (size_t)length, ret);
	return 0;
}

static bool has_content(mode_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

/*
 * Much of what the record costs at the end of a run is reading what was changed. From some files on
 * two do it (base/share.h), so many changes at a time that what they find needs little memory. Then
 * all is told in its order.
 */
#define AT_ONCE	  1024
#define SHARE_MIN 16

/* ---- of a layer ---- */

/* What the sides of a change hold: 0 with a hash, or a negative errno. */
enum {
	HAS_NONE = 1,
	NOT_READ = 2,
};

struct contents {
	int before_code, after_code;
	unsigned char before[HASH_SIZE], after[HASH_SIZE];
};

/* `is_shared`: somebody else reads, too, and what cannot be had quickly is left for later. */
static int hash_side(const struct layer_stack *stack, const char *path, mode_t mode, bool is_before,
		     bool is_shared, unsigned char ret[HASH_SIZE])
{
	struct stat st;
	cleanup_fd int fd =
		S_ISREG(mode) ? layer_stack_open_quickly(stack, path, is_before, &st) : -EAGAIN;

	if (!has_content(mode))
		return HAS_NONE;
	if (fd >= 0)
		return hash_fd_sized(fd, (uint64_t)st.st_size, ret);
	if (is_shared)
		return NOT_READ;
	fd = is_before ? layer_stack_open_before(stack, path) : layer_stack_open_after(stack, path);
	return fd < 0 ? fd : hash_object(fd, ret);
}

static void read_sides(const struct layer_changes *changes, const struct atoll_change *change,
		       bool is_shared, struct contents *contents)
{
	const bool is_same = change->before.st_mode && change->after.st_mode &&
			     !(change->parts & (ATOLL_PART_CONTENT | ATOLL_PART_TYPE));

	if (contents->after_code == NOT_READ)
		contents->after_code =
			hash_side(&changes->stack, change->path, change->after.st_mode, false,
				  is_shared, contents->after);
	if (is_same && contents->after_code == NOT_READ)
		return;
	if (is_same && contents->after_code == 0) {
		memcpy(contents->before, contents->after, HASH_SIZE);
		contents->before_code = 0;
	} else if (contents->before_code == NOT_READ) {
		contents->before_code =
			hash_side(&changes->stack, change->from ? change->from : change->path,
				  change->before.st_mode, true, is_shared, contents->before);
	}
}

static void tell_layered(struct recorder *recorder, uint32_t step, const struct atoll_change *from,
			 const struct contents *contents)
{
	const int problem = contents->after_code < 0 ? contents->after_code : contents->before_code;
	const struct change change = {.path = from->path,
				      .from = from->from,
				      .kind = from->kind,
				      .st = from->after.st_mode ? &from->after : &from->before,
				      .before =
					      contents->before_code == 0 ? contents->before : NULL,
				      .after = contents->after_code == 0 ? contents->after : NULL,
				      .mark = from->mark,
				      .why = problem < 0 ? strerror(-problem) : NULL};

	tell(recorder, step, 0, &change);
}

void record_change(struct recorder *recorder, uint32_t step, const struct layer_changes *changes,
		   size_t i)
{
	struct contents contents = {.before_code = NOT_READ, .after_code = NOT_READ};

	if (!recorder)
		return;
	read_sides(changes, &changes->list.items[i], false, &contents);
	tell_layered(recorder, step, &changes->list.items[i], &contents);
}

/* Some changes of a list, and what was found of each. */
struct part {
	const struct layer_changes *changes;
	size_t first;
	struct contents *found;
};

static void read_shared(size_t i, void *data)
{
	const struct part *part = data;

	read_sides(part->changes, &part->changes->list.items[part->first + i], true,
		   &part->found[i]);
}

static size_t count_files(const struct atoll_change *items, size_t n)
{
	size_t n_files = 0;

	for (size_t i = 0; i < n; i++)
		n_files += S_ISREG(items[i].after.st_mode) || S_ISREG(items[i].before.st_mode);
	return n_files;
}

static void tell_part(struct recorder *recorder, uint32_t step, struct part *part, size_t n)
{
	const struct atoll_change *items = part->changes->list.items + part->first;

	for (size_t i = 0; i < n; i++)
		part->found[i] = (struct contents){.before_code = NOT_READ, .after_code = NOT_READ};
	if (count_files(items, n) >= SHARE_MIN)
		share_work(n, read_shared, part);
	for (size_t i = 0; i < n; i++) {
		read_sides(part->changes, &items[i], false, &part->found[i]);
		tell_layered(recorder, step, &items[i], &part->found[i]);
	}
}

void record_changes(struct recorder *recorder, uint32_t step, const struct layer_changes *changes)
{
	const size_t n = changes->list.n, room = n < AT_ONCE ? n : AT_ONCE;
	cleanup_free struct contents *found =
		recorder && n > 1 ? calloc(room, sizeof *found) : NULL;
	struct part part = {.changes = changes, .found = found};

	for (; found && part.first < n; part.first += AT_ONCE)
		tell_part(recorder, step, &part,
			  n - part.first < AT_ONCE ? n - part.first : AT_ONCE);
	/* A single one, or there is no memory. */
	for (size_t i = 0; !found && i < n; i++)
		record_change(recorder, step, changes, i);
}

/* ---- directly ---- */

/* So many names are remembered until the end; others are told of at once, without what they hold
 * then. */
#define CHANGED_MAX 16384
#define BUCKETS	    1024

struct changed_name {
	struct changed_name *next;
	uint32_t step;
	uint64_t time_ns;
	bool was_new, has_before;
	unsigned char before[HASH_SIZE];
	char *from;
	char path[];
};

struct changed {
	struct changed_name *buckets[BUCKETS];
	size_t n;
};

static struct changed_name **find(struct changed *changed, const char *path)
{
	uint64_t x = 14695981039346656037U;
	struct changed_name **at;

	for (const char *c = path; *c; c++)
		x = (x ^ (unsigned char)*c) * 1099511628211U;
	at = &changed->buckets[x % BUCKETS];
	while (*at && !streq((*at)->path, path))
		at = &(*at)->next;
	return at;
}

static void free_name(struct changed_name *name)
{
	free(name->from);
	free(name);
}

static struct changed_name *take_out(struct changed *changed, const char *path)
{
	struct changed_name **at = find(changed, path), *name = *at;

	if (name) {
		*at = name->next;
		changed->n--;
	}
	return name;
}

static struct changed_name *add_name(const struct recorder *recorder, const struct notice *notice,
				     const char *path)
{
	struct changed *changed = recorder->changed;
	struct changed_name **at = find(changed, path), *name = *at;

	if (name)
		return name;
	if (changed->n >= CHANGED_MAX)
		return NULL;
	name = calloc(1, sizeof *name + strlen(path) + 1);
	if (!name)
		return NULL;
	strcpy(name->path, path);
	name->step = record_step_of(recorder, notice);
	name->time_ns = notice->time_ns;
	name->was_new = notice->flags & NOTICE_WAS_NEW;
	name->has_before = notice->flags & NOTICE_HAS_BEFORE;
	memcpy(name->before, notice->before, HASH_SIZE);
	*at = name;
	changed->n++;
	return name;
}

static void tell_now(struct recorder *recorder, const struct notice *notice, const char *path,
		     const char *from)
{
	const struct change change = {.path = path,
				      .from = from,
				      .kind = from			       ? ATOLL_RENAMED
					      : notice->flags & NOTICE_WAS_NEW ? ATOLL_ADDED
									       : ATOLL_CHANGED,
				      .before = notice->flags & NOTICE_HAS_BEFORE ? notice->before
										  : NULL,
				      .why = "too many were changed"};

	tell(recorder, record_step_of(recorder, notice), notice->time_ns, &change);
}

/* What had a name before has another one now. */
static void take_rename(struct recorder *recorder, const struct notice *notice, const char *path,
			const char *from)
{
	struct changed *changed = recorder->changed;
	struct changed_name *old = take_out(changed, from), *over = take_out(changed, path);
	struct changed_name *name = add_name(recorder, notice, path);
	/* Over something that was there, its own or another's, it is a change of that. */
	const bool is_plain = (notice->flags & NOTICE_WAS_NEW) && (!over || over->was_new);
	const struct changed_name *as = is_plain ? old : over;

	if (name && as) {
		name->was_new = as->was_new;
		name->has_before = as->has_before;
		memcpy(name->before, as->before, HASH_SIZE);
	}
	if (name && is_plain && !(old && old->was_new))
		name->from = strdup(old && old->from ? old->from : from);
	if (over)
		free_name(over);
	if (!name)
		tell_now(recorder, notice, path, from);
	if (old)
		free_name(old);
}

void record_note_change(struct recorder *recorder, const struct notices_told *told)
{
	const struct notice *notice = told->notice;
	const char *const *texts = told->texts;

	if (notice->n_texts < 2)
		return;
	if (!recorder->changed)
		recorder->changed = calloc(1, sizeof *recorder->changed);
	if (!recorder->changed)
		tell_now(recorder, notice, texts[1], notice->n_texts > 2 ? texts[2] : NULL);
	else if (notice->n_texts > 2 && texts[2][0])
		take_rename(recorder, notice, texts[1], texts[2]);
	else if (!add_name(recorder, notice, texts[1]))
		tell_now(recorder, notice, texts[1], NULL);
}

/* What it is now, without going through any link. */
static int hash_now(const struct spec *spec, const char *inside, struct stat *ret,
		    unsigned char hash[HASH_SIZE])
{
	char host[PATH_MAX];
	const char *path = spec_host_path(spec, inside, host, sizeof host) ? host : inside;
	cleanup_fd int fd = fd_openat2(AT_FDCWD, path, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
	cleanup_fd int file = -1;
	char again[32];

	/* Only for kernels that have no such call: a link on the way is none of the run's files. */
	if (fd == -ENOSYS)
		fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		errno = fd == -ELOOP ? ENOENT : fd == -1 ? errno : -fd;
	if (fd < 0 || fstat(fd, ret) < 0)
		return -errno;
	if (!S_ISREG(ret->st_mode))
		return hash_object(fd, hash);
	snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
	file = open(again, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return file < 0 ? -errno : hash_fd_sized(file, (uint64_t)ret->st_size, hash);
}

/* What there is now of some names. */
struct names_now {
	const struct spec *spec;
	struct changed_name *const *names;
	struct now {
		struct stat st;
		int code;
		unsigned char hash[HASH_SIZE];
	} * found;
};

static void look_now(size_t i, void *data)
{
	const struct names_now *now = data;
	struct now *found = &now->found[i];

	found->st = (struct stat){0};
	found->code = hash_now(now->spec, now->names[i]->path, &found->st, found->hash);
}

static void tell_direct(struct recorder *recorder, const struct changed_name *name,
			const struct now *now)
{
	const bool is_there = now->st.st_mode != 0;
	struct change change = {.path = name->path,
				.from = name->from,
				.kind = name->from		     ? ATOLL_RENAMED
					: name->was_new && is_there  ? ATOLL_ADDED
					: !name->was_new && is_there ? ATOLL_CHANGED
								     : ATOLL_DELETED,
				.st = is_there ? &now->st : NULL,
				.before = name->has_before ? name->before : NULL,
				.after = now->code == 0 ? now->hash : NULL};

	/* Came and went. */
	if (!is_there && name->was_new)
		return;
	if (is_there && now->code < 0 && has_content(now->st.st_mode))
		change.why = strerror(-now->code);
	tell(recorder, name->step, name->time_ns, &change);
}

static int compare(const void *a, const void *b)
{
	const struct changed_name *x = *(struct changed_name *const *)a,
				  *y = *(struct changed_name *const *)b;

	return strcmp(x->path, y->path);
}

static void tell_some(struct recorder *recorder, struct names_now *now, size_t n)
{
	if (n >= SHARE_MIN)
		share_work(n, look_now, now);
	for (size_t i = 0; i < n; i++) {
		if (n < SHARE_MIN)
			look_now(i, now);
		tell_direct(recorder, now->names[i], &now->found[i]);
	}
}

void record_direct_changes(struct recorder *recorder, uint32_t step)
{
	struct changed *changed = recorder ? recorder->changed : NULL;
	struct changed_name **list;
	struct now *found;
	size_t n = 0;

	if (!changed || !(list = calloc(changed->n + 1, sizeof *list)))
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct changed_name *name = changed->buckets[i]; name; name = name->next)
			if (name->step == step || step == 0)
				list[n++] = name;
	qsort(list, n, sizeof *list, compare);
	found = calloc(n < AT_ONCE ? n + 1 : AT_ONCE, sizeof *found);
	for (size_t at = 0; found && at < n; at += AT_ONCE) {
		struct names_now now = {recorder->spec, list + at, found};

		tell_some(recorder, &now, n - at < AT_ONCE ? n - at : AT_ONCE);
	}
	for (size_t i = 0; found && i < n; i++) {
		take_out(changed, list[i]->path);
		free_name(list[i]);
	}
	free(found);
	free(list);
}

void record_forget_changed(struct recorder *recorder)
{
	for (size_t i = 0; recorder->changed && i < BUCKETS; i++) {
		for (struct changed_name *name = recorder->changed->buckets[i], *next; name;
		     name = next) {
			next = name->next;
			free_name(name);
		}
	}
	free(recorder->changed);
	recorder->changed = NULL;
}
