/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/eventlog-change.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/uapi.h"
#include "eventlog/eventlog-count.h"
#include "eventlog/eventlog-line.h"
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

/*
 * Changed files
 *
 * In a layer, the list of changes is read when the step has ended (eventlog_changes()). Direct
 * changes come as notices while the step runs: eventlog_note_change() remembers each name with the
 * hash of its content before, and eventlog_direct_changes() compares it with the file at the end.
 */

/* ---- one line ---- */

struct change {
	const char *path, *from; /* `from`: the old name of a renamed file, else NULL */
	enum atoll_change_kind kind;
	const struct stat *st; /* of the file, or before its deletion; NULL: unknown */
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

static void write_change(struct eventlog *eventlog, uint32_t step, uint64_t time_ns,
			 const struct change *change)
{
	struct json *json =
		eventlog_begin_event(eventlog, &(struct eventlog_event){.kind = "change",
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
	eventlog_commit(eventlog);
}

/* The hash of a file's content or of a link's target; -EISDIR for other types. */
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

/* ---- changes in a layer ---- */

/* The quick open finds most files with one call. Links, files without read permission, files of
 * deeper layers and long paths take the second one. */
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

static void write_layer_change(struct eventlog *eventlog, uint32_t step,
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
	write_change(eventlog, step, 0, &change);
}

void eventlog_change(struct eventlog *eventlog, uint32_t step, const struct layer_changes *changes,
		     size_t i)
{
	if (eventlog)
		write_layer_change(eventlog, step, changes, &changes->list.items[i]);
}

void eventlog_changes(struct eventlog *eventlog, uint32_t step, const struct layer_changes *changes)
{
	for (size_t i = 0; eventlog && i < changes->list.n; i++)
		write_layer_change(eventlog, step, changes, &changes->list.items[i]);
}

/* ---- direct changes ---- */

/* Names that are remembered until the end of a step. Further changes are written at once, without
 * the hash of the new content. */
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

static struct changed_name *remove_name(struct changed *changed, const char *path)
{
	struct changed_name **at = find(changed, path), *name = *at;

	if (name) {
		*at = name->next;
		changed->n--;
	}
	return name;
}

static struct changed_name *add_name(const struct eventlog *eventlog, const struct notice *notice,
				     const char *path)
{
	struct changed *changed = eventlog->changed;
	struct changed_name **at = find(changed, path), *name = *at;

	if (name)
		return name;
	if (changed->n >= CHANGED_MAX)
		return NULL;
	name = calloc(1, sizeof *name + strlen(path) + 1);
	if (!name)
		return NULL;
	strcpy(name->path, path);
	name->step = eventlog_step_of(eventlog, notice);
	name->time_ns = notice->time_ns;
	name->was_new = notice->flags & NOTICE_WAS_NEW;
	name->has_before = notice->flags & NOTICE_HAS_BEFORE;
	memcpy(name->before, notice->before, HASH_SIZE);
	*at = name;
	changed->n++;
	return name;
}

static void write_without_content(struct eventlog *eventlog, const struct notice *notice,
				  const char *path, const char *from)
{
	const struct change change = {.path = path,
				      .from = from,
				      .kind = from			       ? ATOLL_RENAMED
					      : notice->flags & NOTICE_WAS_NEW ? ATOLL_ADDED
									       : ATOLL_CHANGED,
				      .before = notice->flags & NOTICE_HAS_BEFORE ? notice->before
										  : NULL,
				      .why = "too many were changed"};

	write_change(eventlog, eventlog_step_of(eventlog, notice), notice->time_ns, &change);
}

/* A rename: the entry of the old name becomes that of the new one. */
static void handle_rename(struct eventlog *eventlog, const struct notice *notice, const char *path,
			  const char *from)
{
	struct changed *changed = eventlog->changed;
	struct changed_name *old = remove_name(changed, from), *over = remove_name(changed, path);
	struct changed_name *name = add_name(eventlog, notice, path);
	/* A rename over an existing file is a change of that file. */
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
		write_without_content(eventlog, notice, path, from);
	if (old)
		free_name(old);
}

void eventlog_note_change(struct eventlog *eventlog, const struct parsed_notice *parsed)
{
	const struct notice *notice = parsed->notice;
	const char *const *texts = parsed->texts;

	if (notice->n_texts < 2)
		return;
	if (!eventlog->changed)
		eventlog->changed = calloc(1, sizeof *eventlog->changed);
	if (!eventlog->changed)
		write_without_content(eventlog, notice, texts[1],
				      notice->n_texts > 2 ? texts[2] : NULL);
	else if (notice->n_texts > 2 && texts[2][0])
		handle_rename(eventlog, notice, texts[1], texts[2]);
	else if (!add_name(eventlog, notice, texts[1]))
		write_without_content(eventlog, notice, texts[1], NULL);
}

/* The hash of the file as it is now. No symbolic link is followed. */
static int hash_now(const struct spec *spec, const char *inside, struct stat *ret,
		    unsigned char hash[HASH_SIZE])
{
	char host[PATH_MAX];
	const char *path = spec_host_path(spec, inside, host, sizeof host) ? host : inside;
	cleanup_fd int fd = fd_openat2(AT_FDCWD, path, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
	cleanup_fd int file = -1;
	char again[32];

	/* Before Linux 5.6, which has no openat2(): links on the way are followed. */
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

static void write_direct_change(struct eventlog *eventlog, const struct changed_name *name)
{
	unsigned char hash[HASH_SIZE];
	struct stat st = {0};
	int r = hash_now(eventlog->spec, name->path, &st, hash);
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

	/* Created and deleted within the step. */
	if (!is_there && name->was_new)
		return;
	if (is_there && r < 0 && has_content(st.st_mode))
		change.why = strerror(-r);
	write_change(eventlog, name->step, name->time_ns, &change);
}

static int compare(const void *a, const void *b)
{
	const struct changed_name *x = *(struct changed_name *const *)a,
				  *y = *(struct changed_name *const *)b;

	return strcmp(x->path, y->path);
}

void eventlog_direct_changes(struct eventlog *eventlog, uint32_t step)
{
	struct changed *changed = eventlog ? eventlog->changed : NULL;
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
		write_direct_change(eventlog, list[i]);
		remove_name(changed, list[i]->path);
		free_name(list[i]);
	}
	free(list);
}

void eventlog_forget_changed(struct eventlog *eventlog)
{
	for (size_t i = 0; eventlog->changed && i < BUCKETS; i++) {
		for (struct changed_name *name = eventlog->changed->buckets[i], *next; name;
		     name = next) {
			next = name->next;
			free_name(name);
		}
	}
	free(eventlog->changed);
	eventlog->changed = NULL;
}
