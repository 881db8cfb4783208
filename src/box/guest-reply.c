/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest-reply.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/guest-types.h"
#include "box/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* ---- packets ---- */

int part_new(const struct guest_head *head, const char *packet, struct guest_part **ret)
{
	struct guest_part *part;

	/* So that a count cannot ask for more memory than the packet was worth. */
	if ((size_t)head->n * GUEST_ENTRY_MIN > head->size - sizeof *head)
		return -EBADMSG;
	part = malloc(sizeof *part + head->size);
	if (!part)
		return -ENOMEM;
	*part = (struct guest_part){.n = head->n, .at = sizeof *head, .size = head->size};
	memcpy(part->data, packet, head->size);
	*ret = part;
	return 0;
}

void parts_free(struct guest_part *part)
{
	while (part) {
		struct guest_part *next = part->next;

		free(part);
		part = next;
	}
}

/* ---- entries ---- */

/* Absolute, and nothing else is asked of it: it is shown, and goes nowhere but back inside. */
static bool read_path(struct guest_cursor *cursor, struct guest_entry *ret)
{
	char *path = (char *)guest_get(cursor);

	if (path[0] != '/')
		return false;
	ret->path = path;
	ret->name = strrchr(path, '/') + 1;
	if (!ret->name[0])
		ret->name = path;
	return true;
}

static bool read_owner(struct guest_cursor *cursor, char ret[64])
{
	const char *name = guest_get(cursor);
	size_t size = strlen(name);

	if (size == 0 || size > 63)
		return false;
	memcpy(ret, name, size + 1);
	return true;
}

static bool read_entry(struct guest_cursor *cursor, struct guest_entry *ret, size_t *ret_pairs)
{
	struct guest_wire_entry entry;
	char *target;

	if (!guest_get_bytes(cursor, &entry, sizeof entry) || !memchr("fdl?", entry.type, 4) ||
	    entry.is_link > 1 || entry.rest || entry.n_metadata > GUEST_METADATA_PAIRS ||
	    entry.permissions > 07777 || entry.size > INT64_MAX || !read_path(cursor, ret))
		return false;
	target = (char *)guest_get(cursor);
	ret->target = target[0] ? target : NULL;
	if (!read_owner(cursor, ret->owner) || !read_owner(cursor, ret->group))
		return false;
	if (entry.is_link != (target[0] == '/') || entry.is_link != S_ISLNK(entry.mode))
		return false;
	ret->type = (char)entry.type;
	ret->is_link = entry.is_link;
	ret->mode = entry.mode;
	ret->permissions = entry.permissions;
	ret->size = entry.size;
	ret->mtime_ns = entry.mtime_ns;
	ret->metadata.n = entry.n_metadata;
	*ret_pairs += entry.n_metadata;
	for (size_t i = 0; i < 2 * ret->metadata.n; i++)
		guest_get(cursor);
	return !cursor->is_bad;
}

/* Behind an entry's four strings; it has been read once. */
static void read_pairs(struct guest_cursor *cursor, struct guest_entry *entry,
		       struct box_pair *pairs)
{
	cursor->at += sizeof(struct guest_wire_entry);
	for (int i = 0; i < 4; i++)
		guest_get(cursor);
	entry->metadata.items = pairs;
	for (size_t i = 0; i < entry->metadata.n; i++) {
		pairs[i].name = (char *)guest_get(cursor);
		pairs[i].value = (char *)guest_get(cursor);
	}
}

/* Once to see that all is well and how many pairs there are, once for these. */
static int read_entries(struct guest_part *part, struct guest_reply *reply, size_t *n_pairs)
{
	struct guest_cursor cursor = {part->data + part->at, part->data + part->size, false};

	*n_pairs = 0;
	for (size_t i = 0; i < part->n; i++) {
		struct guest_entry *entry = &reply->entries[i];

		if (reply->pairs) {
			read_pairs(&cursor, entry, reply->pairs + *n_pairs);
			*n_pairs += entry->metadata.n;
		} else if (!read_entry(&cursor, entry, n_pairs)) {
			return -EBADMSG;
		}
	}
	return cursor.is_bad || cursor.at != cursor.end ? -EBADMSG : 0;
}

int part_read(struct guest_part *part, struct guest_reply *ret)
{
	struct guest_reply reply = {.n = part->n};
	size_t n_pairs = 0;
	int r = 0;

	if (reply.n && !(reply.entries = calloc(reply.n, sizeof *reply.entries)))
		r = -ENOMEM;
	if (r == 0)
		r = read_entries(part, &reply, &n_pairs);
	if (r == 0 && n_pairs && !(reply.pairs = calloc(n_pairs, sizeof *reply.pairs)))
		r = -ENOMEM;
	if (r == 0 && n_pairs)
		r = read_entries(part, &reply, &n_pairs);
	if (r < 0)
		reply_done(&reply);
	else
		*ret = reply;
	return r;
}

/* An answer has a string before its entries. */
int part_read_path(struct guest_part *part, const char **ret)
{
	struct guest_cursor cursor = {part->data + part->at, part->data + part->size, false};

	*ret = guest_get(&cursor);
	part->at = (size_t)(cursor.at - part->data);
	return cursor.is_bad ? -EBADMSG : 0;
}

int reply_read(struct guest_part *part, struct guest_reply *ret)
{
	const char *path = "";
	int r = part ? part_read_path(part, &path) : -EBADMSG;

	if (r == 0)
		r = part_read(part, ret);
	if (r == 0)
		ret->path = path;
	return r;
}

void reply_done(struct guest_reply *reply)
{
	free(reply->entries);
	free(reply->pairs);
	*reply = (struct guest_reply){0};
}

/* ---- errors ---- */

static enum atoll_fault fault_of(int errnum)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
	case EISDIR:
	case EEXIST:
	case EINVAL:
	case ELOOP:
	case ENAMETOOLONG:
	case ENOTEMPTY:
	case E2BIG:
	case ESRCH:
	case ECONNREFUSED:
		return ATOLL_FAULT_REQUEST;
	case EACCES:
	case EPERM:
	case EROFS:
		return ATOLL_FAULT_POLICY;
	default:
		return ATOLL_FAULT_HOST;
	}
}

/* The words of the E2B protocol, where it has some. */
static const char *words_of(int errnum)
{
	switch (errnum) {
	case ENOENT:
		return "path '%s' does not exist";
	case EISDIR:
		return "path '%s' is a directory";
	case ENOTDIR:
		return "path '%s' is not a directory";
	case EEXIST:
		return "path '%s' already exists";
	case EINVAL:
		return "path '%s' makes no sense here";
	case E2BIG:
		return "path '%s' has too many entries for one list: ask for less of it";
	default:
		return NULL;
	}
}

void reply_error(int errnum, const char *path, struct atoll_error *err)
{
	const char *words;
	char shown[300];

	if (errnum == ESRCH)
		errnum = ENOENT; /* what a link in /proc leads to is gone */
	else if (errnum == EKEYREJECTED)
		errnum = ESRCH; /* no such user */
	words = words_of(errnum);
	str_show(path, shown, sizeof shown);
	/* A number from inside may be any. */
	if (errnum <= 0 || errnum > 4095)
		errnum = EIO;
	if (words) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* one of the above, each with one %s */
		error_set(err, fault_of(errnum), 0, words, shown);
#pragma GCC diagnostic pop
	} else if (errnum == ENOSPC || errnum == EDQUOT) {
		error_set(err, ATOLL_FAULT_HOST, 0, "not enough disk space available");
	} else if (shown[0]) {
		error_set(err, fault_of(errnum), errnum, "path '%s'", shown);
	} else {
		error_set(err, fault_of(errnum), errnum, "in the sandbox");
	}
	err->errnum = errnum;
}

/* ---- descriptors ---- */

/*
 * A plain file, open to be used. Reading or writing one does not wait for anybody inside: pages of
 * a file that somebody has mapped are shared with him, not faulted in by him (userfaultfd(2) does
 * not reach read(2), and is refused inside anyway); and there is no file system inside that a
 * program there serves, because mounting is refused to all of them, FUSE included. What is mounted
 * from the host is the host's. The unreal file systems are another matter: see guest-wire.h.
 */
bool reply_fd_is_file(int fd)
{
	struct statfs fs;
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_PATH) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       fstatfs(fd, &fs) == 0 && !guest_is_unreal((long)fs.f_type);
}

bool reply_fd_is_connection(int fd)
{
	int domain = 0, type = 0, protocol = 0, flags = fcntl(fd, F_GETFL);
	socklen_t size = sizeof(int);

	return flags >= 0 && !(flags & O_PATH) &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
	       (domain == AF_INET || domain == AF_INET6) && type == SOCK_STREAM &&
	       protocol == IPPROTO_TCP;
}
