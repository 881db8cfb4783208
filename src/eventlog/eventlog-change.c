/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "eventlog/eventlog-inner.h"
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

static void tell(struct eventlog *recorder, uint32_t step, uint64_t time_ns,
		 const struct change *change)
{
	struct json *json =
		eventlog_begin_event(recorder, &(struct eventlog_event){.kind = "change",
									.time_ns = time_ns,
									.step = step,
									.rule = kinds[change->kind],
									.object = change->path,
									.count = 1});
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
	eventlog_add_hash(json, "before", change->before);
	eventlog_add_hash(json, "after", change->after);
	if (change->why)
		json_str(json, "why", change->why);
	json_str(json, "mark", change->mark);
	eventlog_commit(recorder);
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

/* ---- of a layer ---- */

/* Mostly it is a file that one call finds. Links, shut modes, deeper layers and long paths are not.
 */
static int hash_side(const struct layer_stack *stack, const char *path, mode_t mode, bool is_before,
		     unsigned char ret[HASH_SIZE])
{
	struct stat st;
	cleanup_fd int fd =
		S_ISREG(mode) ? layer_stack_open_quickly(stack, path, is_before, &st) : -EAGAIN;

	if (fd >= 0)
		return hash_fd_sized(fd, (uint64_t)st.st_size, ret);
	fd = is_before ? layer_stack_open_before(stack, path) : layer_stack_open_after(stack, path);
	return fd < 0 ? fd : hash_object(fd, ret);
}

static void tell_layered(struct eventlog *recorder, uint32_t step,
			 const struct layer_changes *changes, const struct atoll_change *from)
{
	unsigned char before[HASH_SIZE], after[HASH_SIZE];
	struct change change = {.path = from->path,
				.from = from->from,
				.kind = from->kind,
				.st = from->after.st_mode ? &from->after : &from->before,
				.mark = from->mark};
	const bool is_same = from->before.st_mode && from->after.st_mode &&
			     !(from->parts & (ATOLL_PART_CONTENT | ATOLL_PART_TYPE));
	int r = 0;

	if (from->after.st_mode && has_content(from->after.st_mode)) {
		r = hash_side(&changes->stack, from->path, from->after.st_mode, false, after);
		change.after = r < 0 ? NULL : after;
	}
	if (is_same && change.after) {
		change.before = after;
	} else if (from->before.st_mode && has_content(from->before.st_mode)) {
		int s = hash_side(&changes->stack, from->from ? from->from : from->path,
				  from->before.st_mode, true, before);

		change.before = s < 0 ? NULL : before;
		r = r < 0 ? r : s;
	}
	if (r < 0)
		change.why = strerror(-r);
	tell(recorder, step, 0, &change);
}

void eventlog_change(struct eventlog *recorder, uint32_t step, const struct layer_changes *changes,
		     size_t i)
{
	if (recorder)
		tell_layered(recorder, step, changes, &changes->list.items[i]);
}

void eventlog_changes(struct eventlog *recorder, uint32_t step, const struct layer_changes *changes)
{
	for (size_t i = 0; recorder && i < changes->list.n; i++)
		tell_layered(recorder, step, changes, &changes->list.items[i]);
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

static struct changed_name *add_name(const struct eventlog *recorder, const struct notice *notice,
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
	name->step = eventlog_step_of(recorder, notice);
	name->time_ns = notice->time_ns;
	name->was_new = notice->flags & NOTICE_WAS_NEW;
	name->has_before = notice->flags & NOTICE_HAS_BEFORE;
	memcpy(name->before, notice->before, HASH_SIZE);
	*at = name;
	changed->n++;
	return name;
}

static void tell_now(struct eventlog *recorder, const struct notice *notice, const char *path,
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

	tell(recorder, eventlog_step_of(recorder, notice), notice->time_ns, &change);
}

/* What had a name before has another one now. */
static void take_rename(struct eventlog *recorder, const struct notice *notice, const char *path,
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

void eventlog_note_change(struct eventlog *recorder, const struct notices_told *told)
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

static void tell_direct(struct eventlog *recorder, const struct changed_name *name)
{
	unsigned char hash[HASH_SIZE];
	struct stat st = {0};
	int r = hash_now(recorder->spec, name->path, &st, hash);
	const bool is_there = st.st_mode != 0;
	struct change change = {.path = name->path,
				.from = name->from,
				.kind = name->from		     ? ATOLL_RENAMED
					: name->was_new && is_there  ? ATOLL_ADDED
					: !name->was_new && is_there ? ATOLL_CHANGED
								     : ATOLL_DELETED,
				.st = is_there ? &st : NULL,
				.before = name->has_before ? name->before : NULL,
				.after = r == 0 ? hash : NULL};

	/* Came and went. */
	if (!is_there && name->was_new)
		return;
	if (is_there && r < 0 && has_content(st.st_mode))
		change.why = strerror(-r);
	tell(recorder, name->step, name->time_ns, &change);
}

static int compare(const void *a, const void *b)
{
	const struct changed_name *x = *(struct changed_name *const *)a,
				  *y = *(struct changed_name *const *)b;

	return strcmp(x->path, y->path);
}

void eventlog_direct_changes(struct eventlog *recorder, uint32_t step)
{
	struct changed *changed = recorder ? recorder->changed : NULL;
	struct changed_name **list;
	size_t n = 0;

	if (!changed || !(list = calloc(changed->n + 1, sizeof *list)))
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct changed_name *name = changed->buckets[i]; name; name = name->next)
			if (name->step == step || step == 0)
				list[n++] = name;
	qsort(list, n, sizeof *list, compare);
	for (size_t i = 0; i < n; i++) {
		tell_direct(recorder, list[i]);
		take_out(changed, list[i]->path);
		free_name(list[i]);
	}
	free(list);
}

void eventlog_forget_changed(struct eventlog *recorder)
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
