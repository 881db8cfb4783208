/* SPDX-License-Identifier: Apache-2.0 */
#include "eventlog/notices.h"

#include "base/fd.h"
#include "base/program.h"
#include "base/scope.h"
#include "isolate/isolate.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Packets that one notices_read() reads. */
#define PACKETS_MAX 8

/* Host paths that are checked in one run. A program that is refused more paths than that is
 * searching: its further denials count without a check. */
#define LOOKS_MAX 4096

void notices_init(struct notices *notices, const struct cell_handle *cell,
		  void (*handle)(void *data, const struct parsed_notice *parsed), void *data)
{
	*notices = (struct notices){.fd = cell->notice_fd,
				    .last = cell->notice_fd >= 0 ? cell->notice_rest : NULL,
				    .handle = handle,
				    .data = data};
	if (notices->fd >= 0)
		notices->room = malloc(sizeof *notices->room);
}

/* ---- does the host have this path? ---- */

static uint64_t hash_path(const char *path)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (; *path; path++)
		hash = (hash ^ (unsigned char)*path) * UINT64_C(1099511628211);
	return hash | 2; /* never 0 */
}

/* A look-up on these file systems sends the name, which the command chose, to a server, a FUSE
 * program or an automounter. That would be a channel out of the sandbox: do not look there. */
static bool is_remote(int fd)
{
	static const uint32_t kinds[] = {AUTOFS_SUPER_MAGIC, NFS_SUPER_MAGIC,  FUSE_SUPER_MAGIC,
					 SMB_SUPER_MAGIC,    CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
					 V9FS_MAGIC,	     CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,
					 AFS_FS_MAGIC,	     CODA_SUPER_MAGIC};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if ((uint32_t)fs.f_type == kinds[i])
			return true;
	}
	return false;
}

/* Open one component after the other, without following links or triggering mounts. */
static bool host_path_exists(const char *path)
{
	cleanup_fd int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];

	for (path += strspn(path, "/"); at >= 0 && *path; path += strspn(path, "/")) {
		size_t length = strcspn(path, "/");
		int next;

		if (length > NAME_MAX || is_remote(at))
			return false;
		memcpy(name, path, length);
		name[length] = '\0';
		path += length;
		next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		close(at);
		at = next;
	}
	return at >= 0;
}

static bool host_has(struct notices *notices, const char *path)
{
	uint64_t hash = hash_path(path) & ~UINT64_C(1);
	uint64_t *place = &notices->room->looked[(hash >> 8) % NOTICES_LOOKED];
	char host[PATH_MAX];
	bool found;

	if (!notices->n_looks)
		memset(notices->room->looked, 0, sizeof notices->room->looked);
	if ((*place & ~UINT64_C(1)) == hash)
		return *place & 1;
	if (notices->n_looks == LOOKS_MAX)
		return true;
	notices->n_looks++;
	if (!notices->spec)
		found = path[0] == '/' && host_path_exists(path);
	else
		found = path[0] == '/' && spec_host_path(notices->spec, path, host, sizeof host) &&
			host_path_exists(host);
	*place = hash | found;
	return found;
}

/* A denial of something that the host does not have either is no denial. */
static bool should_report(struct notices *notices, const struct notice *notice,
			  const char *const *texts)
{
	char dir[PATH_MAX];
	size_t length;

	if (notice->type != NOTICE_DENIAL || notice->n_texts < 3)
		return true;
	if (notice->flags & NOTICE_ASKS_HOST)
		return host_has(notices, texts[2]);
	if (!(notice->flags & NOTICE_ASKS_ABOVE))
		return true;
	length = strlen(texts[2]);
	while (length > 1 && texts[2][length - 1] != '/')
		length--;
	if (length < 2 || length > sizeof dir)
		return true;
	memcpy(dir, texts[2], length - 1);
	dir[length - 1] = '\0';
	return host_has(notices, dir);
}

/* ---- packets ---- */

static void handle_packet(struct notices *notices, const void *data, size_t size, const int *fds,
			  size_t n_fds)
{
	const char **texts = notices->room->texts;
	const struct notice *notice;
	size_t offset = 0, used = 0;

	while ((notice = notice_next(data, size, &offset, texts, NOTICES_TEXTS))) {
		struct parsed_notice parsed = {.notice = notice, .texts = texts, .fd = -1};

		if (notice->n_texts > NOTICES_TEXTS)
			break; /* pid 1 never sends that many */
		parsed.n_texts = notice->n_texts;
		if (notice->flags & NOTICE_HAS_FD && used < n_fds)
			parsed.fd = fds[used++];
		if (notices->handle && should_report(notices, notice, texts))
			notices->handle(notices->data, &parsed);
	}
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
}

static ssize_t read_packet(struct notices *notices)
{
	struct notices_room *room = notices->room;
	int fds[NOTICE_FDS_MAX];
	size_t n = NOTICE_FDS_MAX;
	ssize_t got;

	if (notices->fd < 0 || !room || notices->has_ended)
		return 0;
	got = fd_receive(notices->fd, room->data, sizeof room->data, MSG_DONTWAIT, fds, &n);
	if (got > 0) {
		notices->n_packets++;
		handle_packet(notices, room->data, (size_t)got, fds, n);
	}
	notices->has_ended = got <= 0 && got != -EAGAIN;
	return got;
}

bool notices_read(struct notices *notices)
{
	ssize_t got = 1;

	for (int i = 0; i < PACKETS_MAX && got > 0; i++)
		got = read_packet(notices);
	return got > 0 || got == -EAGAIN;
}

void notices_idle(struct notices *notices)
{
	if (notices->room)
		program_drop(notices->room, offsetof(struct notices_room, looked));
}

void notices_read_all(struct notices *notices)
{
	while (read_packet(notices) > 0)
		;
}

void notices_finish(struct notices *notices)
{
	const struct notice_packet *last = notices->last;

	notices_read_all(notices);
	/* The packet that pid 1 was filling when it was killed. Its descriptors are lost. */
	if (last && notices->room && last->size <= sizeof last->data &&
	    notices->n_packets < last->number)
		handle_packet(notices, last->data, last->size, NULL, 0);
	free(notices->room);
	notices->room = NULL;
	notices->last = NULL;
	notices->fd = -1;
}

/* ---- results ---- */

void notices_fill_denial(const struct parsed_notice *parsed, struct atoll_denial *ret)
{
	const char *object = parsed->n_texts > 2 ? parsed->texts[2] : "";
	size_t length = strlen(object), room = sizeof ret->path;

	*ret = (struct atoll_denial){.pid = parsed->notice->pid};
	ret->count = parsed->notice->value < INT32_MAX ? (int32_t)parsed->notice->value : INT32_MAX;
	if (ret->count < 1)
		ret->count = 1;
	snprintf(ret->action, sizeof ret->action, "%s",
		 parsed->n_texts > 0 ? parsed->texts[0] : "");
	snprintf(ret->rule, sizeof ret->rule, "%s", parsed->n_texts > 1 ? parsed->texts[1] : "");
	snprintf(ret->allow, sizeof ret->allow, "%s", parsed->n_texts > 3 ? parsed->texts[3] : "");
	snprintf(ret->program, sizeof ret->program, "%.15s", parsed->notice->program);
	if (length < room)
		memcpy(ret->path, object, length + 1);
	else
		snprintf(ret->path, room, "...%s", object + length - (room - 4));
}
