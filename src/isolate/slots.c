/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/slots.h"

#include "base/error.h"
#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

const struct slots_class slots_classes[SLOTS_CLASSES] = {
	{"atoll-offline", 0x70000000},
	{"atoll-online", 0x78000000},
};

/* With fewer than this many runs at once a search cannot fail; with more it would only get slow. */
#define TRIES_MAX 65536

static int open_file(const char *dir, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	struct stat st;
	char path[256];

	snprintf(path, sizeof path, "%s/%s", dir, SLOTS_FILE);
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			return error_set(err, ATOLL_FAULT_HOST, errno, "create '%s'", dir);
		fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", path);
	/* Whoever else could open it could hold every slot. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    st.st_mode & 077)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "'%s' is not a file of root's alone; remove it", path);
	return take_fd(&fd);
}

bool slots_are_ours(void)
{
	cleanup_fd int fd = -1;
	unsigned long inside, outside, count;
	char text[128];
	ssize_t got;

	if (geteuid() != 0)
		return false;
	fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (got <= 0)
		return false;
	text[got] = '\0';
	return sscanf(text, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 &&
	       count == 4294967295ul;
}

int slots_take(const char *dir, unsigned class, uint32_t *ret_first_id, struct atoll_error *err)
{
	cleanup_fd int fd = open_file(dir, err);
	/* Where to look first: nobody else who is alive has our number, so thousands at once do not
	 * get in each other's way, and a number is not used again until pids have gone round. */
	uint32_t slot = (uint32_t)getpid() % SLOTS_NUMBER;

	if (fd < 0)
		return fd;
	for (int i = 0; i < TRIES_MAX; i++, slot = (slot + 1) % SLOTS_NUMBER) {
		struct flock lock = {
			.l_type = F_WRLCK,
			.l_whence = SEEK_SET,
			.l_start = (off_t) class * SLOTS_NUMBER + slot,
			.l_len = 1,
		};

		if (fcntl(fd, F_OFD_SETLK, &lock) == 0) {
			*ret_first_id = slots_classes[class].first + slot * SLOTS_IDS;
			return take_fd(&fd);
		}
		if (errno != EAGAIN && errno != EACCES)
			return error_set(err, ATOLL_FAULT_HOST, errno, "lock '%s/%s'", dir,
					 SLOTS_FILE);
	}
	return error_set(err, ATOLL_FAULT_HOST, 0, "no free host id for the identity '%s'",
			 slots_classes[class].account);
}
