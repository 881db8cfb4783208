/* SPDX-License-Identifier: Apache-2.0 */
#include "init/watch.h"

#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

/* Fields of /proc/PID/stat, counted behind the name, which may hold anything. */
enum {
	STAT_UTIME = 11,
	STAT_CSTIME = 14,
};

/* A small file beneath /proc/PID, as text. */
static bool read_proc(int proc_fd, const char *pid, const char *name, char *ret, size_t size)
{
	cleanup_fd int fd = -1;
	char path[48];
	ssize_t got;

	snprintf(path, sizeof path, "%.20s/%s", pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, ret, size - 1);
	if (got <= 0)
		return false; /* it has ended meanwhile */
	ret[got] = '\0';
	return true;
}

static uint64_t read_field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void add_process(int proc_fd, const char *pid, struct watch_sum *sum)
{
	char text[4096];
	const char *at;
	uint64_t ticks = 0;

	if (!read_proc(proc_fd, pid, "stat", text, sizeof text))
		return;
	at = strrchr(text, ')');
	for (int field = 0; at && field <= STAT_CSTIME; field++) {
		at = strchr(at, ' ');
		if (!at)
			return;
		at++;
		if (field >= STAT_UTIME)
			ticks += strtoull(at, NULL, 10);
	}
	sum->cpu_ms += ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	/* What was written, alone or shared; not what is mapped of files, which is nobody's. */
	if (read_proc(proc_fd, pid, "status", text, sizeof text))
		sum->memory +=
			1024 * (read_field(text, "\nRssAnon:") + read_field(text, "\nRssShmem:"));
}

int watch_sum_up(struct watch_sum *ret)
{
	cleanup_fd int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct rusage ended;
	char entries[8192];
	ssize_t got;

	if (fd < 0 || getrusage(RUSAGE_CHILDREN, &ended) < 0)
		return -errno;
	*ret = (struct watch_sum){0};
	ret->cpu_ms = (uint64_t)(ended.ru_utime.tv_sec + ended.ru_stime.tv_sec) * 1000 +
		      (uint64_t)(ended.ru_utime.tv_usec + ended.ru_stime.tv_usec) / 1000;
	while ((got = getdents64(fd, (void *)entries, sizeof entries)) > 0) {
		for (ssize_t at = 0; at < got;) {
			struct dirent64 *entry = (struct dirent64 *)(void *)(entries + at);

			if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			    !streq(entry->d_name, "1"))
				add_process(fd, entry->d_name, ret);
			at += entry->d_reclen;
		}
	}
	return 0;
}
