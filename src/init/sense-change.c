/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/hash.h"
#include "base/str.h"
#include "init/call.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * What has been changed on the host
 *
 * Where the workspace is written directly there is no layer to compare with afterwards: what a file
 * held before is known only by whoever looks before it is changed for the first time. So the guard
 * does, for files that are not too large to be read meanwhile. Each object is told of once for each
 * kind of change; what has become of it is for the supervisor to see at the end.
 */

#define CONTENT_MAX (1 << 20)

static bool is_content(const char *action)
{
	return streq(action, "create") || streq(action, "write");
}

static uint64_t change_hash(const struct call *call, const char *path)
{
	uint64_t hash = sense_hash(UINT64_C(14695981039346656037), path);

	hash = sense_hash(hash, is_content(call->action) ? "content" : call->action);
	return hash ? hash : 1;
}

static uint64_t *find_change(struct sense *sense, uint64_t hash)
{
	size_t at = hash % SENSE_CHANGES;

	while (sense->changes[at] && sense->changes[at] != hash)
		at = (at + 1) % SENSE_CHANGES;
	return &sense->changes[at];
}

/* Nothing is remembered for ever: some will be told of twice then. */
static void remember_change(struct sense *sense, uint64_t hash)
{
	uint64_t *place = find_change(sense, hash);

	if (*place)
		return;
	if (sense->n_changes++ > SENSE_CHANGES * 3 / 4) {
		memset(sense->changes, 0, sizeof sense->changes);
		sense->n_changes = 1;
		place = find_change(sense, hash);
	}
	*place = hash;
}

static bool hash_content(int fd, off_t size, unsigned char ret[32])
{
	static unsigned char data[64 * 1024];
	struct hash hash;
	ssize_t got;

	hash_init(&hash);
	while ((got = read(fd, data, sizeof data)) > 0) {
		hash_update(&hash, data, (size_t)got);
		size -= got;
	}
	hash_final(&hash, ret);
	return got == 0 && size == 0; /* or it was changed meanwhile */
}

static int open_content(const struct target *target, struct stat *ret)
{
	const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	char link[64];

	if (target->object < 0) {
		if (fstatat(target->parent, target->name, ret, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (!S_ISREG(ret->st_mode) || ret->st_size > CONTENT_MAX)
			return -EFBIG;
		return openat(target->parent, target->name, flags | O_NOFOLLOW);
	}
	if (fstat(target->object, ret) < 0 || !S_ISREG(ret->st_mode) || ret->st_size > CONTENT_MAX)
		return -EFBIG;
	snprintf(link, sizeof link, "/proc/self/fd/%d", target->object);
	return open(link, flags);
}

static bool is_of_the_host(const struct call *call, const struct target *target)
{
	const struct init_zone *zone;

	if (!tell_is_on(&call->guard->tell) || target->is_foreign)
		return false;
	zone = guard_zone(call->guard, target->path);
	return zone && zone->kind == INIT_ZONE_GUARDED;
}

void sense_look_before(struct call *call, const struct target *target, struct sense_before *ret)
{
	cleanup_fd int fd = -1;
	struct stat st;

	*ret = (struct sense_before){0};
	/* A name that goes back and forth has each time another content. */
	if (!is_of_the_host(call, target) ||
	    (!streq(call->action, "rename") &&
	     *find_change(&call->guard->sense, change_hash(call, target->path))))
		return;
	ret->is_wanted = true;
	/* What a mode or an attribute says is not content. */
	if (!is_content(call->action) && !streq(call->action, "remove") &&
	    !streq(call->action, "rename"))
		return;
	fd = open_content(target, &st);
	ret->was_new = fd == -ENOENT;
	ret->has_content = fd >= 0 && hash_content(fd, st.st_size, ret->content);
}

void sense_changed(struct call *call, const struct target *target, const char *from,
		   const struct sense_before *before)
{
	struct tell *tell = &call->guard->tell;
	struct notice *notice;

	if (!before->is_wanted)
		return;
	remember_change(&call->guard->sense, change_hash(call, target->path));
	notice = tell_begin(tell, NOTICE_CHANGE);
	sense_fill_caller(call->guard, call->tid, notice);
	if (before->was_new)
		notice->flags |= NOTICE_WAS_NEW;
	if (before->has_content) {
		notice->flags |= NOTICE_HAS_BEFORE;
		memcpy(notice->before, before->content, sizeof notice->before);
	}
	tell_text(tell, call->action);
	tell_text(tell, target->path);
	if (from)
		tell_text(tell, from);
	tell_end(tell);
}

void sense_made(struct call *call, const struct target *target)
{
	const struct sense_before before = {.is_wanted = true, .was_new = true};

	if (is_of_the_host(call, target) &&
	    !*find_change(&call->guard->sense, change_hash(call, target->path)))
		sense_changed(call, target, NULL, &before);
}
