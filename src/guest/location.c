/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include "base/fd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/syscall.h>

/*
 * Where a name is, for root inside
 *
 * Every question that changes or opens a file calls location_find() first, and works on what it
 * found: a directory's descriptor and a name in it.
 *
 * An ordinary user inside may do what the kernel lets him do: the place is the path. Root inside is
 * asked to write to paths that an ordinary user inside may have prepared: "~/out.txt" as a link to
 * /etc/ld.so.preload made that user root. So root walks each path by descriptors:
 *   - acting for another user (the question names an owner): no link is followed at all;
 *   - acting for itself: only links that nobody but root can have made or put there, which are
 *     root's own, and to which only directories of root's lead that others cannot write to, such
 *     as /bin.
 * Links are not all. A user renames root's directories and files too, where they lie in a directory
 * of his. So root acting for him, in a directory that others can have chosen (LOCATION_OTHERS),
 * enters only directories that this user may enter as well. Questions whose answer goes to the
 * client alone (LOCATION_TELLS) are free of that.
 * What did exist keeps its owner. What is made is the owner's from the moment when everything is
 * made, the innermost first: until then each new directory is root's, and nobody can put a link or
 * another directory in the place of the next one.
 */

#define LINKS_MAX 40

static bool is_dotted(const char *name)
{
	return strcmp(name, "..") == 0;
}

/*
 * Who can have chosen what lies in this directory under any name? rename(2) needs no right to the
 * file that it moves, only to both directories. A sticky directory (/tmp) keeps others from moving
 * root's files away, not from moving root's files in from a directory of their own. A directory
 * cannot be moved in so: its new parent is written into it, which needs the right to write to it.
 */
static enum location_hands hands_of(enum location_hands above, const struct stat *dir)
{
	if (above == LOCATION_OTHERS || dir->st_uid != 0)
		return LOCATION_OTHERS;
	if (!(dir->st_mode & 022))
		return LOCATION_ROOT;
	return dir->st_mode & S_ISVTX && above == LOCATION_ROOT ? LOCATION_STICKY : LOCATION_OTHERS;
}

static bool may_enter(const struct owner *owner, const struct stat *dir)
{
	return dir->st_uid == owner->uid || dir->st_mode & S_IXOTH ||
	       (dir->st_gid == owner->gid && dir->st_mode & S_IXGRP);
}

/* Takes the directory, which is the next one on the way. */
static int enter(struct location *place, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		close(fd);
		return -EIO;
	}
	/* Where a directory was made, all further ones are new. */
	if (place->hands == LOCATION_OTHERS && place->owner.is_other && !place->tells &&
	    place->n_made == 0 && !may_enter(&place->owner, &st)) {
		close(fd);
		return -EACCES;
	}
	place->hands = hands_of(place->hands, &st);
	if (place->fd >= 0)
		close(place->fd);
	place->fd = fd;
	return 0;
}

static int enter_root(struct location *place)
{
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	place->hands = LOCATION_ROOT;
	return fd < 0 ? -errno : enter(place, fd);
}

/* Only root can have made it, and have put it here. */
static bool is_link_of_root(const struct location *place, const char *name)
{
	struct stat link;

	return place->hands == LOCATION_ROOT &&
	       fstatat(place->fd, name, &link, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(link.st_mode) &&
	       link.st_uid == 0;
}

/* The way that is left: what stands in the link, and then what stood behind its name. */
static int follow(struct location *place, const char *name, char rest[PATH_SIZE])
{
	char target[PATH_SIZE], whole[2 * PATH_SIZE];
	ssize_t n = readlinkat(place->fd, name, target, sizeof target - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (snprintf(whole, sizeof whole, "%s/%s", target, rest) >= PATH_SIZE)
		return -ENAMETOOLONG;
	strcpy(rest, whole);
	return target[0] == '/' ? enter_root(place) : 0;
}

/* The next name of `rest` to `ret`; false: there is none. */
static bool take_name(char rest[PATH_SIZE], char ret[NAME_MAX + 1], bool *ret_is_last)
{
	size_t skip = strspn(rest, "/"), length = strcspn(rest + skip, "/");

	if (length == 0 || length > NAME_MAX)
		return false;
	memcpy(ret, rest + skip, length);
	ret[length] = '\0';
	memmove(rest, rest + skip + length, strlen(rest + skip + length) + 1);
	*ret_is_last = rest[strspn(rest, "/")] == '\0';
	return true;
}

static bool is_empty(int dir_fd)
{
	char records[512];
	ssize_t size = syscall(SYS_getdents64, dir_fd, records, sizeof records);

	/* "." and "..", in 24 bytes each. */
	return size >= 0 && size <= 48 && lseek(dir_fd, 0, SEEK_SET) == 0;
}

int location_make(const struct location *place, const char *name, mode_t mode)
{
	cleanup_fd int fd = -1;
	struct stat st;

	if (mkdirat(place->fd, name, mode) < 0)
		return -errno;
	fd = openat(place->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* In a directory of another user's, that user may have put another one there meanwhile. */
	if (place->is_strict &&
	    (fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_mode & 0022 || !is_empty(fd)))
		return -EBUSY;
	return take_fd(&fd);
}

static int make_next(struct location *place, const char *name)
{
	int fd;

	if (place->n_made == LOCATION_MADE_MAX)
		return -ENAMETOOLONG;
	fd = location_make(place, name, 0755);
	if (fd >= 0)
		place->made[place->n_made++] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd;
}

/* Down into a directory. 1: it was a link, and `rest` begins with what it leads to. */
static int go_down(struct location *place, const char *name, char rest[PATH_SIZE])
{
	int fd = openat(place->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOTDIR && place->follows && is_link_of_root(place, name)) {
		int r = follow(place, name, rest);

		return r < 0 ? r : 1;
	}
	if (fd < 0 && errno == ENOTDIR) {
		struct stat st;

		return fstatat(place->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
				       S_ISLNK(st.st_mode)
			       ? -ELOOP
			       : -ENOTDIR;
	}
	if (fd < 0 && errno == ENOENT && place->makes && !is_dotted(name))
		fd = make_next(place, name);
	else if (fd < 0)
		return -errno;
	return fd < 0 ? fd : enter(place, fd);
}

/* By descriptors, to the directory that the last name is in. */
static int walk(struct location *place, char rest[PATH_SIZE])
{
	char name[NAME_MAX + 1];
	bool is_last;
	unsigned n_links = 0;

	while (take_name(rest, name, &is_last)) {
		int r;

		if (is_last && !is_dotted(name) &&
		    !(place->follows_last && place->follows && is_link_of_root(place, name))) {
			strcpy(place->name, name);
			return 0;
		}
		r = is_last && !is_dotted(name) ? follow(place, name, rest)
						: go_down(place, name, rest);
		if (r < 0)
			return r;
		if (r == 1 || (is_last && !is_dotted(name)))
			n_links++;
		if (n_links > LINKS_MAX)
			return -ELOOP;
	}
	/* "/", or a name that is too long. */
	strcpy(place->name, ".");
	return rest[strspn(rest, "/")] ? -ENAMETOOLONG : 0;
}

int location_find(const struct question *question, const char *path, unsigned flags,
		  struct location *ret)
{
	char rest[PATH_SIZE];
	int r = owner_of(question, &ret->owner);

	ret->fd = AT_FDCWD;
	ret->n_made = 0;
	ret->is_strict = geteuid() == 0;
	ret->makes = flags & LOCATION_MAKES;
	ret->follows = !question->owner[0];
	ret->follows_last = !(flags & LOCATION_KEEPS_LINK);
	ret->tells = flags & LOCATION_TELLS;
	/* Nothing changes, so it does not matter for whom. */
	if (r < 0 && !ret->tells)
		return r;
	snprintf(ret->name, sizeof ret->name, "%s", path);
	if (!ret->is_strict)
		return ret->makes ? make_parents(path, &ret->owner) : 0;
	r = enter_root(ret);
	snprintf(rest, sizeof rest, "%s", path);
	return r < 0 ? r : walk(ret, rest);
}

/* Only what was made here, and is still as it was made. */
void location_give(struct location *place)
{
	struct stat st;

	for (size_t i = place->n_made; i-- > 0 && place->owner.is_other;) {
		if (fstat(place->made[i], &st) == 0 && st.st_uid == geteuid() &&
		    fchown(place->made[i], place->owner.uid, place->owner.gid) < 0)
			return;
	}
}

void location_done(struct location *place)
{
	if (place->fd >= 0)
		close(place->fd);
	place->fd = AT_FDCWD;
	while (place->n_made > 0)
		if (place->made[--place->n_made] >= 0)
			close(place->made[place->n_made]);
}

void location_take(struct location *from, struct location *ret)
{
	*ret = *from;
	from->fd = AT_FDCWD;
	from->n_made = 0;
}

int location_open(const struct location *place, int flags, mode_t mode)
{
	int fd = openat(place->fd, place->name,
			flags | O_CLOEXEC | (place->is_strict ? O_NOFOLLOW : 0), mode);

	return fd < 0 ? -errno : fd;
}

bool location_may_take(const struct location *place)
{
	struct stat st;

	if (!place->is_strict || !place->owner.is_other || place->hands != LOCATION_OTHERS)
		return true;
	return fstat(place->fd, &st) == 0 &&
	       (st.st_uid == place->owner.uid || st.st_mode & S_IWOTH);
}

int location_check(const struct question *question, const char *path, bool may_be_link)
{
	const unsigned flags = LOCATION_TELLS | (may_be_link ? LOCATION_KEEPS_LINK : 0);
	struct location place;
	struct stat st;
	int r = location_find(question, path, flags, &place);

	if (r == 0 && !may_be_link && place.is_strict &&
	    fstatat(place.fd, place.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		r = -ELOOP;
	location_done(&place);
	return r;
}
