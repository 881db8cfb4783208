/* SPDX-License-Identifier: Apache-2.0 */
#include "init/watch.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define LOOK_MOST_MS  100
#define LOOK_IDLE_MS  1000  /* while nobody inside gets anything done */
#define LOOK_ALONE_MS 60000 /* while nobody but us is inside: watch_wake() ends that */
#define LOOK_LEAST_MS 10
#define LOOK_COST     4 /* times its own CPU time pass until the next: at most a fifth of a CPU */

/* The fastest that memory or a disk is thought to fill up. */
#define BYTES_PER_MS (4 << 20)

/* Fields of /proc/PID/stat, counted behind the name, which may hold anything. */
enum {
	STAT_UTIME = 11,
	STAT_CSTIME = 14,
	STAT_THREADS = 17,
};

/* ---- one process ---- */

/* A small file beneath /proc/PID, as text. A negative errno if it cannot be read. */
static int read_proc(int proc_fd, const char *pid, const char *name, char *ret, size_t size)
{
	cleanup_fd int fd = -1;
	char path[48];
	ssize_t got;

	snprintf(path, sizeof path, "%.20s/%s", pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, ret, size - 1);
	if (got <= 0)
		return got < 0 ? -errno : -ESRCH;
	ret[got] = '\0';
	return 0;
}

static uint64_t read_field(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static bool add_times(const struct watch *watch, const char *pid, struct watch_sum *sum)
{
	char text[1024];
	const char *at;
	uint64_t ticks = 0, threads = 0;

	if (read_proc(watch->proc_fd, pid, "stat", text, sizeof text) < 0)
		return false; /* it has ended meanwhile */
	at = strrchr(text, ')');
	for (int field = 0; at && field <= STAT_THREADS; field++) {
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
		if (field >= STAT_UTIME && field <= STAT_CSTIME)
			ticks += strtoull(at, NULL, 10);
		if (field == STAT_THREADS)
			threads = strtoull(at, NULL, 10);
	}
	sum->cpu_ms += ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	sum->threads += threads;
	return true;
}

static uint64_t read_mask(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 16) : 0;
}

/* What was written, alone or shared; not what is mapped of files, which is nobody's. */
static void add_memory(const struct watch *watch, const char *pid, struct watch_sum *sum)
{
	char text[4096];

	if (read_proc(watch->proc_fd, pid, "status", text, sizeof text) < 0)
		return;
	sum->anon += 1024 * (read_field(text, "\nRssAnon:") + read_field(text, "\nVmSwap:"));
	sum->shmem += 1024 * read_field(text, "\nRssShmem:");
	if (read_mask(text, "\nSigIgn:") & 1ULL << (SIGCHLD - 1))
		sum->loses_children = true;
}

/* The same by shares; where they cannot be had, without. */
static void add_shares(const struct watch *watch, const char *pid, struct watch_sum *sum)
{
	char text[4096];

	if (read_proc(watch->proc_fd, pid, "smaps_rollup", text, sizeof text) < 0) {
		add_memory(watch, pid, sum);
		return;
	}
	sum->anon += 1024 * (read_field(text, "\nPss_Anon:") + read_field(text, "\nSwapPss:"));
	sum->shmem += 1024 * read_field(text, "\nPss_Shmem:");
}

static void add_written(const struct watch *watch, const char *pid, struct watch_sum *sum)
{
	char text[512];
	int r = read_proc(watch->proc_fd, pid, "io", text, sizeof text);

	if (r == 0)
		sum->written += read_field(text, "\nwrite_bytes: ");
	else if (r == -EACCES || r == -EPERM)
		sum->hides_written = true;
}

/* ---- memory that is a file's ---- */

struct memfds {
	uint64_t inodes[WATCH_MEMFDS_MAX];
	size_t n;
};

static void add_memfd(int dir_fd, const char *name, struct memfds *seen, struct watch_sum *sum)
{
	struct stat st;
	char link[16];

	if (readlinkat(dir_fd, name, link, sizeof link) < 8 || memcmp(link, "/memfd:", 7) != 0 ||
	    fstatat(dir_fd, name, &st, 0) < 0)
		return;
	for (size_t i = 0; i < seen->n; i++) {
		if (seen->inodes[i] == st.st_ino)
			return;
	}
	if (seen->n == WATCH_MEMFDS_MAX)
		return;
	seen->inodes[seen->n++] = st.st_ino;
	sum->stored += (uint64_t)st.st_blocks * 512;
}

/* Call `each` for the entries of a directory that are numbers. */
#define for_each_number(fd, entry)                                                                 \
	for (char room_[4096] __attribute__((aligned(8))), *at_ = room_, *end_ = room_;            \
	     next_number(fd, room_, sizeof room_, &at_, &end_, &(entry));)

static bool next_number(int fd, char *room, size_t size, char **at, char **end,
			struct dirent64 **ret)
{
	for (;;) {
		if (*at >= *end) {
			ssize_t got = getdents64(fd, (void *)room, size);

			if (got <= 0)
				return false;
			*at = room;
			*end = room + got;
		}
		*ret = (struct dirent64 *)(void *)*at;
		*at += (*ret)->d_reclen;
		if ((*ret)->d_name[0] >= '0' && (*ret)->d_name[0] <= '9')
			return true;
	}
}

static void add_memfds(const struct watch *watch, const char *pid, struct memfds *seen,
		       struct watch_sum *sum)
{
	cleanup_fd int fd = -1;
	struct dirent64 *entry;
	char path[48];

	snprintf(path, sizeof path, "%.20s/fd", pid);
	fd = openat(watch->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	for_each_number(fd, entry) add_memfd(fd, entry->d_name, seen, sum);
}

/* Segments exist without anybody who has them attached. The column before the last is `rss`. */
static void add_segments(const struct watch *watch, struct watch_sum *sum)
{
	char text[8192];
	char *line;

	if (read_proc(watch->proc_fd, "sysvipc", "shm", text, sizeof text) < 0)
		return;
	line = strchr(text, '\n');
	while (line && line[1]) {
		char *next = strchr(line + 1, '\n'), *column;

		if (!next)
			return;
		*next = '\0';
		column = strrchr(line + 1, ' ');
		while (column && column > line && column[-1] == ' ')
			column--;
		if (column)
			*column = '\0';
		column = column ? strrchr(line + 1, ' ') : NULL;
		if (column)
			sum->stored += strtoull(column, NULL, 10);
		line = next;
	}
}

static void add_storage(const struct watch *watch, struct watch_sum *sum)
{
	struct statfs st;

	if (watch->storage_fd >= 0 && fstatfs(watch->storage_fd, &st) == 0)
		sum->stored += (uint64_t)(st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
}

/* ---- all processes ---- */

/* Of the sandbox, and not one of those that keep it. Without a pid namespace these are the ones
 * that we may signal: Landlock keeps our signals to the sandbox. */
static bool is_inside(const struct watch *watch, const char *pid)
{
	pid_t number = (pid_t)strtol(pid, NULL, 10);

	if (!watch->is_bare)
		return number != 1;
	return number > 1 && number != getpid() && number != getppid() && kill(number, 0) == 0;
}

/* Those that keep the sandbox are undumpable and write nothing. Somebody inside may kill one, but
 * its number is nobody else's before we have waited for it. */
static bool is_ours(const struct watch *watch, const char *pid)
{
	pid_t number = (pid_t)strtol(pid, NULL, 10);

	return number == watch->keeper || (watch->steps && number == *watch->steps);
}

static bool watches_memory(const struct watch *watch)
{
	return !watch->limits->is_memory_counted;
}

static bool watches_disk(const struct watch *watch)
{
	return watch->n_roots > 0;
}

static int rewind_proc(const struct watch *watch)
{
	return lseek(watch->proc_fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

/* Ours, and of those that we have waited for. */
static bool read_own(const struct watch *watch, uint64_t *sum)
{
	char text[512];
	ssize_t got = watch->own_io_fd < 0 ? -1 : pread(watch->own_io_fd, text, sizeof text - 1, 0);

	if (got <= 0)
		return false;
	text[got] = '\0';
	*sum += read_field(text, "\nwrite_bytes: ");
	return true;
}

static int sum_up(const struct watch *watch, struct watch_sum *ret)
{
	struct memfds seen;
	struct dirent64 *entry;
	struct rusage ended;
	int r = rewind_proc(watch);

	if (r < 0 || getrusage(RUSAGE_CHILDREN, &ended) < 0)
		return r < 0 ? r : -errno;
	*ret = (struct watch_sum){0};
	seen.n = 0;
	ret->cpu_ms = (uint64_t)(ended.ru_utime.tv_sec + ended.ru_stime.tv_sec) * 1000 +
		      (uint64_t)(ended.ru_utime.tv_usec + ended.ru_stime.tv_usec) / 1000;
	for_each_number(watch->proc_fd, entry)
	{
		const char *pid = entry->d_name;

		if (!is_inside(watch, pid) || !add_times(watch, pid, ret))
			continue;
		add_memory(watch, pid, ret);
		if (watches_memory(watch) && watch->uses_memfd)
			add_memfds(watch, pid, &seen, ret);
		if (watches_disk(watch) && !is_ours(watch, pid))
			add_written(watch, pid, ret);
	}
	if (watches_memory(watch)) {
		add_storage(watch, ret);
		if (!watch->is_bare) /* the host's, and not to be had inside */
			add_segments(watch, ret);
	}
	/* Last, so that what is handed over meanwhile is rather counted twice than not at all. */
	if (!read_own(watch, &ret->written))
		ret->hides_written = true;
	return 0;
}

/* Memory by shares. What is mapped of private storage and its like is counted there already, and
 * which of it that is nobody says: the larger of the two is certainly used. */
static int sum_shares(const struct watch *watch, const struct watch_sum *sum, uint64_t *ret)
{
	struct watch_sum shares = {0};
	struct dirent64 *entry;
	int r = rewind_proc(watch);

	if (r < 0)
		return r;
	for_each_number(watch->proc_fd, entry)
	{
		if (is_inside(watch, entry->d_name))
			add_shares(watch, entry->d_name, &shares);
	}
	*ret = shares.anon + (shares.shmem > sum->stored ? shares.shmem : sum->stored);
	return 0;
}

uint64_t watch_count_add(struct watch_count *count, uint64_t sum, bool *is_losing)
{
	uint64_t total = sum + count->lost;

	if (total >= count->total) {
		count->total = total;
		count->is_low = false;
		return total;
	}
	/* One look can miss what is on its way from a child to its parent; two in a row do not. */
	if (count->is_low) {
		count->lost += count->total - (total > count->last ? total : count->last);
		*is_losing = true;
	}
	count->is_low = !count->is_low;
	count->last = total;
	return count->total;
}

/* ---- limits ---- */

static void say(struct watch_verdict *verdict, enum spec_limit_id limit, uint64_t value,
		uint64_t used)
{
	verdict->limit = limit;
	verdict->value = value;
	verdict->used = used;
}

static void leave(struct watch *watch, uint64_t limit, uint64_t used)
{
	uint64_t left = limit > used ? limit - used : 0;

	if (limit != SPEC_UNLIMITED && left < watch->headroom)
		watch->headroom = left;
}

static int check_memory(struct watch *watch, const struct watch_sum *sum,
			struct watch_verdict *verdict)
{
	uint64_t limit = watch->limits->memory, used = sum->anon + sum->shmem + sum->stored;
	int r;

	if (!watches_memory(watch))
		return 0;
	if (used > limit) {
		r = sum_shares(watch, sum, &used);
		if (r < 0)
			return r;
	}
	watch->usage->memory = used;
	if (used > watch->usage->memory_peak)
		watch->usage->memory_peak = used;
	if (used > limit)
		say(verdict, SPEC_MEMORY, limit, used);
	leave(watch, limit, used);
	return 0;
}

/* What is free on a root's file system; UINT64_MAX if nobody knows. */
static uint64_t free_space(const struct watch_root *root, uint64_t *ret_size)
{
	struct statfs st;

	if (fstatfs(root->fd, &st) < 0)
		return UINT64_MAX;
	*ret_size = (uint64_t)st.f_blocks * (uint64_t)st.f_bsize;
	return (uint64_t)st.f_bavail * (uint64_t)st.f_bsize;
}

static void check_disk(struct watch *watch, const struct watch_sum *sum,
		       struct watch_verdict *verdict)
{
	uint64_t limit = watch->limits->disk, gone = 0, size, used;

	watch->is_losing = watch->is_losing || sum->loses_children;
	used = watch->reserved + watch_count_add(&watch->written, sum->written, &watch->is_losing);
	for (size_t i = 0; i < watch->n_roots; i++) {
		const struct watch_root *root = &watch->roots[i];
		uint64_t left = free_space(root, &size);

		if (left < root->free_at_start) {
			gone += root->free_at_start - left;
			used += root->is_uncounted ? root->free_at_start - left : 0;
		}
		if (limit != SPEC_UNLIMITED && left < root->floor) {
			say(verdict, SPEC_DISK, limit, used);
			snprintf(verdict->note, sizeof verdict->note,
				 "less than %llu MiB were left free at %.40s",
				 (unsigned long long)(root->floor >> 20), root->path);
		}
		leave(watch, left, root->floor);
	}
	/* Others write there, too: so only where something is surely missing from our own count. A
	 * program that is just being started hides it for a moment. */
	if (((sum->hides_written && watch->was_hidden) || watch->is_losing) && gone > used)
		used = gone;
	watch->was_hidden = sum->hides_written;
	watch->usage->written = used;
	/* All of it is used: one file ends there by itself (RLIMIT_FSIZE), and no byte beyond it.
	 */
	if (used >= limit)
		say(verdict, SPEC_DISK, limit, used);
	leave(watch, limit, used);
}

/* ---- files in a layer ---- */

/* Until they are counted again, where the file system has not said so: at least, and in times of
 * what counting took. */
#define COUNT_LEAST_NS 1000000000
#define COUNT_COST     20

/*
 * No call tells us of a file that is made in a layer. That there may be too many the file system
 * tells, which has others' as well; then they are counted, and not again before there could be. As
 * others may remove some of theirs meanwhile they are counted now and then all the same. A
 * directory that is closed to us or too deep hides some: what was made altogether stands for it.
 */
static void check_files(struct watch *watch, struct watch_verdict *verdict)
{
	const uint64_t limit = watch->limits->files;
	const int64_t now_ns = clock_monotonic_ns();
	bool is_partial, is_due;
	struct statfs st;
	uint64_t have;
	int64_t took_ns;

	if (watch->layer_fd < 0 || limit == SPEC_UNLIMITED || fstatfs(watch->layer_fd, &st) < 0)
		return;
	have = (uint64_t)st.f_files - (uint64_t)st.f_ffree;
	is_due = st.f_files && have >= watch->files_due;
	if (!is_due && (watch->is_idle || now_ns < watch->count_ns))
		return;
	if (!watch->files_due)
		watch->files_at_start = have;
	watch->n_files = watch_count_names(watch->layer_fd, "upper", limit, &is_partial);
	if (is_partial && have - watch->files_at_start > watch->n_files)
		watch->n_files = have - watch->files_at_start;
	took_ns = COUNT_COST * (clock_monotonic_ns() - now_ns);
	watch->count_ns = now_ns + (took_ns > COUNT_LEAST_NS ? took_ns : COUNT_LEAST_NS);
	if (watch->n_files > limit)
		say(verdict, SPEC_FILES, limit, watch->n_files);
	else
		watch->files_due = have + (limit - watch->n_files) + 1;
}

void watch_take_layer(struct watch *watch, int layer_fd)
{
	if (watch->layer_fd >= 0)
		close(watch->layer_fd);
	watch->layer_fd = layer_fd;
	watch->files_due = watch->n_files = 0;
}

/* By CPU time and not by the clock: on a busy machine a look may take long without costing much. */
static int64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void plan_next(struct watch *watch, int64_t cost_ns)
{
	/* Thousands of sandboxes that wait must not keep a machine busy. What wakes up just after a
	 * look has the whole time until the next, which the headroom is for. */
	int64_t wait_ns = watch->is_idle ? LOOK_IDLE_MS : LOOK_MOST_MS;

	if (watch->headroom / BYTES_PER_MS < (uint64_t)wait_ns)
		wait_ns = (int64_t)(watch->headroom / BYTES_PER_MS);
	/* At first more often: most runs are short, and a first look tells what there is. */
	if (watch->n_looks < 4 && wait_ns > LOOK_LEAST_MS << watch->n_looks)
		wait_ns = LOOK_LEAST_MS << watch->n_looks;
	if (wait_ns < LOOK_LEAST_MS ||
	    ((watch->is_losing || watch->is_losing_cpu) && !watch->is_idle))
		wait_ns = LOOK_LEAST_MS;
	if (watch->is_idle && watch->n_own && watch->usage->processes == 0 && watch->n_looks > 4)
		wait_ns = LOOK_ALONE_MS;
	wait_ns *= 1000000;
	if (wait_ns < LOOK_COST * cost_ns)
		wait_ns = LOOK_COST * cost_ns;
	watch->next_ns = clock_monotonic_ns() + wait_ns;
}

int watch_look(struct watch *watch, struct watch_verdict *ret)
{
	int64_t began_ns = cpu_ns();
	struct watch_sum sum;
	uint64_t cpu_ms;
	int r = sum_up(watch, &sum);

	if (r < 0)
		return r;
	*ret = (struct watch_verdict){.limit = SPEC_LIMIT_COUNT};
	watch->headroom = UINT64_MAX;
	if (sum.threads > watch->usage->processes_peak)
		watch->usage->processes_peak = sum.threads;
	watch->usage->processes = sum.threads > watch->n_own ? sum.threads - watch->n_own : 0;
	cpu_ms = watch_count_add(&watch->cpu, sum.cpu_ms, &watch->is_losing_cpu);
	watch->is_idle = cpu_ms == watch->usage->cpu_ms;
	watch->usage->cpu_ms = cpu_ms;
	if (cpu_ms > watch->limits->cpu_time_ms)
		say(ret, SPEC_CPU_TIME, watch->limits->cpu_time_ms, cpu_ms);
	if (watches_disk(watch))
		check_disk(watch, &sum, ret);
	check_files(watch, ret);
	r = check_memory(watch, &sum, ret);
	watch->n_looks++;
	watch->woken_ns = 0;
	plan_next(watch, cpu_ns() - began_ns);
	return r;
}

void watch_wake(struct watch *watch)
{
	const int64_t soon_ns = clock_monotonic_ns() + LOOK_LEAST_MS * 1000000;

	if (watch->next_ns <= soon_ns + (LOOK_MOST_MS - LOOK_LEAST_MS) * 1000000)
		return;
	watch->next_ns = soon_ns;
	watch->woken_ns = soon_ns - LOOK_LEAST_MS * 1000000;
}

void watch_leave(struct watch *watch)
{
	const int64_t late_ns = watch->woken_ns + LOOK_MOST_MS * 1000000;

	if (watch->woken_ns && watch->next_ns < late_ns)
		watch->next_ns = late_ns;
}

void watch_rest(struct watch *watch)
{
	watch->next_ns = clock_monotonic_ns() + LOOK_ALONE_MS * INT64_C(1000000);
}

bool watch_reserve(struct watch *watch, uint64_t bytes)
{
	uint64_t used = watch->usage->written;

	if (used > watch->limits->disk || bytes > watch->limits->disk - used)
		return false;
	watch->reserved += bytes;
	watch->usage->written += bytes;
	return true;
}

void watch_end(struct watch *watch)
{
	uint64_t written = 0;
	bool is_partial;

	read_own(watch, &written);
	written += watch->reserved;
	if (watches_disk(watch) && written > watch->usage->written)
		watch->usage->written = written;
	/* After each of many steps that would be too much, and looks count them as well. */
	if (watch->layer_fd >= 0 && !watch->n_own)
		watch->n_files = watch_count_names(watch->layer_fd, "upper", watch->limits->files,
						   &is_partial);
}

/* ---- the start ---- */

/* The descriptor is the watch's. */
static void add_root(struct watch *watch, int fd, const char *path)
{
	struct watch_root *root = &watch->roots[watch->n_roots];
	struct stat st;
	struct statfs fs;
	uint64_t size = 0;

	if (fd < 0)
		return;
	if (watch->n_roots == WATCH_ROOTS_MAX) {
		close(fd);
		return;
	}
	root->fd = fd;
	if (fstat(root->fd, &st) == 0) {
		root->dev = st.st_dev;
		for (size_t i = 0; i < watch->n_roots; i++) {
			if (watch->roots[i].dev == root->dev) {
				close(root->fd);
				return;
			}
		}
	}
	root->path = path;
	/* What no disk will see is not counted as written. */
	root->is_uncounted = fstatfs(root->fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
	root->free_at_start = free_space(root, &size);
	root->floor = init_space_floor(size);
	watch->n_roots++;
}

void watch_open(struct watch *watch)
{
	*watch = (struct watch){.layer_fd = -1};
	watch->own_io_fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
}

void watch_init(struct watch *watch, const struct init_config *config)
{
	watch->limits = &config->limits;
	watch->usage = config->usage;
	watch->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	watch->is_bare = config->is_bare;
	watch->keeper = config->keeper;
	/* Without a root of its own private storage is a directory of the host's: what is written
	 * there is on a disk, and counts as that. */
	watch->storage_fd = watch->is_bare ? -1 : open("/", O_PATH | O_CLOEXEC);
	for (size_t i = 0; i < config->n_zones; i++) {
		const struct init_zone *zone = &config->zones[i];

		if (zone->kind == INIT_ZONE_GUARDED ||
		    (zone->kind == INIT_ZONE_OWN && watch->is_bare))
			add_root(watch, open(zone->path, O_PATH | O_CLOEXEC), zone->path);
	}
	/* Not by the workspace's path: that would keep layers which others have replaced. */
	watch->layer_fd = config->layer_fd;
	if (config->layer_fd >= 0)
		add_root(watch, fcntl(config->layer_fd, F_DUPFD_CLOEXEC, 0), "the store of layers");
	watch->next_ns = clock_monotonic_ns() + LOOK_LEAST_MS * 1000000;
}
