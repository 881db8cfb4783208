/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/xattr.h>

static const char prefix[] = GUEST_METADATA_PREFIX;
/* XATTR_NAME_MAX, which not every C library has. */
#define NAME_BYTES    255
#define PREFIX_LENGTH (sizeof prefix - 1)

/* ---- metadata: extended attributes ---- */

struct attributes {
	struct buf text; /* of the packet: names and values */
	uint16_t n;
	size_t bytes;
};

static void add_attribute(struct attributes *attributes, const char *file, const char *name)
{
	char value[GUEST_METADATA_MAX];
	ssize_t size = lgetxattr(file, name, value, sizeof value);
	size_t more = strlen(name) + (size < 0 ? 0 : (size_t)size);

	/* Programs inside may have set more than the daemon would: what is too much is left out. */
	if (size < 0 || attributes->n >= GUEST_METADATA_PAIRS ||
	    attributes->bytes + more > 2 * GUEST_METADATA_MAX)
		return;
	guest_put(&attributes->text, name + PREFIX_LENGTH);
	guest_put_bytes(&attributes->text, value, (size_t)size);
	attributes->bytes += more;
	attributes->n++;
}

/* Most have none, or few: the kernel clears as much as it is offered. */
#define FEW_BYTES 512

int entry_look(const char *name, struct look *ret)
{
	char few[FEW_BYTES];
	ssize_t size = 0;

	if (lstat(name, &ret->st) < 0)
		return -errno;
	if (S_ISREG(ret->st.st_mode) || S_ISDIR(ret->st.st_mode))
		size = llistxattr(name, few, sizeof few);
	ret->may_have_attributes = size > 0 || (size < 0 && errno == ERANGE);
	return 0;
}

static void read_attributes(const char *file, struct attributes *ret)
{
	static char names[65536]; /* as much as the kernel gives */
	ssize_t size = llistxattr(file, names, sizeof names);

	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(names + at) + 1)
		if (strncmp(names + at, prefix, PREFIX_LENGTH) == 0 &&
		    names[at + (ssize_t)PREFIX_LENGTH])
			add_attribute(ret, file, names + at);
}

/* What was there goes; a file system without attributes is no failure. */
int set_metadata(int fd, const char *const *pairs, size_t n)
{
	char names[GUEST_METADATA_MAX * 4], name[NAME_BYTES + 1];
	ssize_t size = flistxattr(fd, names, sizeof names);

	for (ssize_t at = 0; at < size; at += (ssize_t)strlen(names + at) + 1)
		if (strncmp(names + at, prefix, PREFIX_LENGTH) == 0)
			fremovexattr(fd, names + at);
	for (size_t i = 0; i + 1 < n; i += 2) {
		if (strlen(pairs[i]) + PREFIX_LENGTH > NAME_BYTES)
			return -EINVAL;
		memcpy(name, prefix, PREFIX_LENGTH);
		strcpy(name + PREFIX_LENGTH, pairs[i]);
		if (fsetxattr(fd, name, pairs[i + 1], strlen(pairs[i + 1]), 0) < 0 &&
		    (errno == ENOSPC || errno == EDQUOT))
			return -errno;
	}
	return 0;
}

/* ---- the entry ---- */

static char type_of(mode_t mode)
{
	if (S_ISREG(mode))
		return 'f';
	return S_ISDIR(mode) ? 'd' : '?';
}

/* Where a link leads in the end; a link that leads nowhere is told with its own path. */
static void look_through(const char *name, const char *path, struct guest_wire_entry *entry,
			 char target[PATH_MAX])
{
	struct stat st;

	entry->is_link = true;
	if (stat(name, &st) == 0 && realpath(name, target)) {
		entry->type = (uint8_t)type_of(st.st_mode);
		entry->permissions = st.st_mode & 07777;
		return;
	}
	entry->type = 'l';
	strncpy(target, path, PATH_MAX - 1);
	target[PATH_MAX - 1] = '\0';
}

int put_entry(struct buf *packet, const char *name, const char *path, const struct look *look,
	      struct stat *ret)
{
	cleanup_with(buf_done) struct buf metadata = BUF_INIT(GUEST_PACKET_MAX / 2);
	struct attributes attributes = {.text = metadata};
	struct guest_wire_entry entry = {0};
	char target[PATH_MAX];
	struct look found;
	struct stat st;
	int r = look ? 0 : entry_look(name, &found);

	if (r < 0)
		return r;
	target[0] = '\0'; /* not all of it, for ten thousand files */
	if (!look)
		look = &found;
	st = look->st;
	entry.size = (uint64_t)st.st_size;
	entry.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	entry.mode = st.st_mode;
	entry.permissions = st.st_mode & 07777;
	entry.type = (uint8_t)type_of(st.st_mode);
	if (S_ISLNK(st.st_mode))
		look_through(name, path, &entry, target);
	if (look->may_have_attributes)
		read_attributes(name, &attributes);
	metadata = attributes.text;
	entry.n_metadata = attributes.n;
	buf_add(packet, &entry, sizeof entry);
	guest_put(packet, path);
	guest_put(packet, target);
	guest_put(packet, user_name(st.st_uid));
	guest_put(packet, group_name(st.st_gid));
	if (attributes.n)
		buf_add(packet, metadata.data, metadata.used);
	if (ret)
		*ret = st;
	return buf_error(&metadata) < 0 ? buf_error(&metadata) : buf_error(packet);
}
