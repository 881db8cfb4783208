/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Who owns what, by name
 *
 * /etc/passwd and /etc/group inside, read by hand: the C library's functions would also ask a name
 * service, which is a socket, and somebody inside may answer on it. The files are the sandbox's and
 * may hold anything; what is not understood is passed over, and there is an end to it.
 */

#define FILE_BYTES_MAX (1U << 20)
#define NAME_MAX_BYTES 63 /* what the daemon has room for */

struct table {
	const char *path;
	struct stat seen;
	bool is_read;
	struct buf text;
	/* The last that was asked for: a directory's files mostly have one owner. */
	bool has_last;
	uint32_t last_id;
	char last[NAME_MAX_BYTES + 1];
};

static struct table users = {.path = "/etc/passwd", .text = BUF_INIT(FILE_BYTES_MAX)};
static struct table groups = {.path = "/etc/group", .text = BUF_INIT(FILE_BYTES_MAX)};

static void forget(struct table *table)
{
	buf_done(&table->text);
	table->text.failed = 0;
	table->is_read = false;
	table->has_last = false;
}

static void refresh(struct table *table)
{
	struct stat st;

	if (!table->is_read && !table->has_last)
		return;
	if (stat(table->path, &st) < 0 || st.st_ino != table->seen.st_ino ||
	    st.st_dev != table->seen.st_dev || st.st_size != table->seen.st_size ||
	    st.st_mtim.tv_sec != table->seen.st_mtim.tv_sec ||
	    st.st_mtim.tv_nsec != table->seen.st_mtim.tv_nsec)
		forget(table);
}

void owners_refresh(void)
{
	refresh(&users);
	refresh(&groups);
}

static void read_table(struct table *table)
{
	/* Not to wait for a FIFO that somebody put there. */
	cleanup_fd int fd = open(table->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (table->is_read)
		return;
	table->is_read = true;
	if (fd < 0 || fstat(fd, &table->seen) < 0 || !S_ISREG(table->seen.st_mode))
		return;
	/* Of a file that is too long, what fits is kept. */
	fd_read_all(fd, &table->text);
	table->text.failed = 0;
}

/* One line: "NAME:x:ID:ID2:...". `*ret_other` is the second number, of users. */
struct line {
	const char *name;
	size_t length;
	unsigned long id, other;
};

static bool read_line(const char **at, struct line *ret)
{
	const char *end = strchrnul(*at, '\n'), *colon = strchr(*at, ':');
	char *rest;

	ret->name = *at;
	*at = *end ? end + 1 : end;
	if (!colon || colon >= end)
		return false;
	ret->length = (size_t)(colon - ret->name);
	colon = strchr(colon + 1, ':');
	if (!colon || colon >= end || colon[1] < '0' || colon[1] > '9')
		return false;
	ret->id = strtoul(colon + 1, &rest, 10);
	if (*rest != ':')
		return false;
	ret->other = strtoul(rest + 1, NULL, 10);
	return ret->length > 0 && ret->length <= NAME_MAX_BYTES && ret->id < UINT32_MAX;
}

static const char *name_of(struct table *table, uint32_t id)
{
	const char *at;
	struct line line;

	if (table->has_last && table->last_id == id)
		return table->last;
	read_table(table);
	table->has_last = true;
	table->last_id = id;
	snprintf(table->last, sizeof table->last, "%u", id);
	for (at = table->text.data ? table->text.data : ""; *at;) {
		if (!read_line(&at, &line) || line.id != id)
			continue;
		memcpy(table->last, line.name, line.length);
		table->last[line.length] = '\0';
		break;
	}
	return table->last;
}

const char *user_name(uid_t uid)
{
	return name_of(&users, uid);
}

const char *group_name(gid_t gid)
{
	return name_of(&groups, gid);
}

bool user_find(const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
	const char *at;
	struct line line;

	read_table(&users);
	for (at = users.text.data ? users.text.data : ""; *at;) {
		if (!read_line(&at, &line) || line.length != strlen(name) ||
		    memcmp(line.name, name, line.length) != 0)
			continue;
		*ret_uid = (uid_t)line.id;
		*ret_gid = (gid_t)line.other;
		return true;
	}
	return false;
}
