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
	STAT_PARENT = 1,
	STAT_SESSION = 3,
	STAT_FLAGS = 6,
	STAT_UTIME = 11,
	STAT_CSTIME = 14,
	STAT_THREADS = 17,
	STAT_START = 19,
};

/* How long a process that has ended may be waited for before what it wrote is guessed. */
#define ZOMBIE_NS (250 * INT64_C(1000000))

/* How many looks in a row may be too low; see watch_count_add(). */
#define LOW_MAX 16

/* PF_EXITING of the kernel: the thread executes no instruction of its program any more. */
#define FLAG_EXITS 0x4

/* PF_FORKNOEXEC of the kernel: the process has not executed a program since it was forked. */
#define FLAG_HAS_NOT_EXECUTED 0x40

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

static bool read_times(const struct watch *watch, const char *pid, struct watch_process *ret)
{
	char text[1024];
	const char *at;
	uint64_t ticks = 0, flags = 0;

	if (read_proc(watch->proc_fd, pid, "stat", text, sizeof text) < 0)
		return false; /* it has ended meanwhile */
	at = strrchr(text, ')');
	for (int field = 0; at && field <= STAT_START; field++) {
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
		if (field == STAT_PARENT)
			ret->parent = (pid_t)strtol(at, NULL, 10);
		if (field == STAT_FLAGS)
			flags = strtoull(at, NULL, 10);
		if (field >= STAT_UTIME && field <= STAT_CSTIME)
			ticks += strtoull(at, NULL, 10);
		if (field == STAT_THREADS)
			ret->threads = strtoull(at, NULL, 10);
		if (field == STAT_START)
			ret->start = strtoull(at, NULL, 10);
	}
	ret->cpu_ms = ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
	/* Of a process whose first thread alone has ended the others may write. */
	ret->has_ended = flags & FLAG_EXITS && ret->threads <= 1;
	return true;
}

static uint64_t read_mask(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 16) : 0;
}

/* By shares; false where they cannot be had. */
static bool add_rollup(const struct watch *watch, const char *pid, struct watch_sum *sum)
{
	char text[4096];

	if (read_proc(watch->proc_fd, pid, "smaps_rollup", text, sizeof text) < 0)
		return false;
	sum->anon += 1024 * (read_field(text, "\nPss_Anon:") + read_field(text, "\nSwapPss:"));
	sum->shmem += 1024 * read_field(text, "\nPss_Shmem:");
	return true;
}

/* What was written, alone or shared; not what is mapped of files, which is nobody's. A process with
 * hundreds of groups has a list of these in the midst of its status, which then does not fit: its
 * memory is found elsewhere, and nothing is known of its signals. */
static void add_memory(const struct watch *watch, const char *pid, struct watch_sum *sum)
{
	char text[4096];

	if (read_proc(watch->proc_fd, pid, "status", text, sizeof text) < 0)
		return;
	if (!strstr(text, "\nSigIgn:")) {
		sum->loses_children = true;
		/* The second number of statm is the whole, in pages. */
		if (!add_rollup(watch, pid, sum) &&
		    read_proc(watch->proc_fd, pid, "statm", text, sizeof text) == 0)
			sum->anon += read_field(text, " ") * (uint64_t)sysconf(_SC_PAGESIZE);
		return;
	}
	sum->anon += 1024 * (read_field(text, "\nRssAnon:") + read_field(text, "\nVmSwap:"));
	sum->shmem += 1024 * read_field(text, "\nRssShmem:");
	if (read_mask(text, "\nSigIgn:") & 1ULL << (SIGCHLD - 1))
		sum->loses_children = true;
}

/* The same by shares; where they cannot be had, without. */
static void add_shares(const struct watch *watch, const char *pid, struct watch_sum *sum)
{
	if (!add_rollup(watch, pid, sum))
		add_memory(watch, pid, sum);
}

/*
 * Does this process run atoll's own code, which writes no files? Such processes are undumpable:
 * steps before their execve(), the leader of a terminal's session, and helpers of the guard. The
 * number alone is not enough, because a step keeps its number when it executes.
 */
static bool runs_own_code(const struct watch *watch, const char *pid)
{
	uint64_t session = 0, flags = 0;
	const char *at;
	char text[1024];

	if (!watch->is_own || read_proc(watch->proc_fd, pid, "stat", text, sizeof text) < 0)
		return false;
	at = strrchr(text, ')');
	for (int field = 0; at && field <= STAT_FLAGS; field++) {
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
		if (field == STAT_SESSION)
			session = strtoull(at, NULL, 10);
		if (field == STAT_FLAGS)
			flags = strtoull(at, NULL, 10);
	}
	return at && flags & FLAG_HAS_NOT_EXECUTED &&
	       watch->is_own(watch->own_data, (pid_t)strtol(pid, NULL, 10), (pid_t)session);
}

static bool is_there(const struct watch *watch, pid_t pid)
{
	char name[16];

	snprintf(name, sizeof name, "%d", pid);
	return faccessat(watch->proc_fd, name, F_OK, 0) == 0;
}

/* What children of a process had written by the last look that have vanished since: it has waited
 * for them. */
static uint64_t inherited(const struct watch *watch, pid_t parent)
{
	uint64_t written = 0;

	for (size_t i = 0; i < watch->last.n; i++) {
		const struct watch_process *last = &watch->last.list[i];

		if (last->parent == parent && !last->is_gone && !is_there(watch, last->pid))
			written += last->written + inherited(watch, last->pid);
	}
	return written;
}

/*
 * Since Linux 6.18.44 only the machine's root can read the count of a process that has ended and
 * was not waited for. It writes no more, and its parent gets the count when it waits, or we do. The
 * look before knows what it had written by then; for the rest see check_zombies().
 */
static void recall_written(const struct watch *watch, struct watch_process *ret)
{
	ret->written = inherited(watch, ret->pid);
	ret->guess = 0;
	ret->ended_ns = clock_monotonic_ns();
	ret->is_new = true;
	for (size_t i = 0; i < watch->last.n; i++) {
		const struct watch_process *last = &watch->last.list[i];

		if (last->pid != ret->pid || last->start != ret->start)
			continue;
		ret->written += last->written;
		ret->guess = last->guess;
		if (last->ended_ns) {
			ret->ended_ns = last->ended_ns;
			ret->is_new = false;
		}
		return;
	}
}

/* False if the process has vanished. */
static bool read_written(const struct watch *watch, const char *pid, struct watch_process *ret,
			 struct watch_sum *sum)
{
	char text[512];
	int r = read_proc(watch->proc_fd, pid, "io", text, sizeof text);

	ret->written = r == 0 ? read_field(text, "\nwrite_bytes: ") : 0;
	ret->guess = 0;
	ret->ended_ns = 0;
	if (r != -EACCES && r != -EPERM)
		return r != -ENOENT && r != -ESRCH;
	/* Its end may have come after read_times(). */
	if (!ret->has_ended && !read_times(watch, pid, ret))
		return false;
	if (ret->has_ended)
		recall_written(watch, ret);
	else if (!runs_own_code(watch, pid))
		sum->hides_written = true;
	return true;
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

/* The sum of the last two numbers of a line, which is cut meanwhile. */
static uint64_t sum_last_two(char *line)
{
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		char *space = strrchr(line, ' ');

		if (!space)
			break;
		sum += strtoull(space + 1, NULL, 10);
		while (space > line && space[-1] == ' ')
			space--;
		*space = '\0';
	}
	return sum;
}

/* Segments exist without anybody who has them attached: `rss` and `swap` are the last columns. All
 * lines count, of which there may be thousands (kernel.shmmni). */
static void add_segments(const struct watch *watch, struct watch_sum *sum)
{
	cleanup_fd int fd = openat(watch->proc_fd, "sysvipc/shm", O_RDONLY | O_CLOEXEC);
	bool is_head = true;
	char text[8192];
	size_t used = 0;
	ssize_t got;

	while (fd >= 0 && (got = read(fd, text + used, sizeof text - 1 - used)) > 0) {
		char *line = text, *end;

		text[used + (size_t)got] = '\0';
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			if (!is_head)
				sum->stored += sum_last_two(line);
			is_head = false;
		}
		used = strlen(line);
		memmove(text, line, used);
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

/*
 * When a process is waited for, the kernel adds its counts to its parent's, and then the process
 * vanishes. So children are read before their parents, which mostly have the lower number. The
 * counts of a child that has vanished are taken back, because its parent's have them, if the parent
 * is read after that: it is read again until none of its children vanishes meanwhile. So each count
 * is in the sum once, although processes end all the time.
 */
/* Take back the counts of children that have vanished. False if there were none. */
static bool take_back_children(const struct watch *watch, struct watch_processes *counted,
			       pid_t parent, struct watch_sum *sum)
{
	bool has_any = false;

	for (size_t i = 0; i < counted->n; i++) {
		struct watch_process *one = &counted->list[i];

		if (one->parent != parent || one->is_gone || is_there(watch, one->pid))
			continue;
		one->is_gone = has_any = true;
		one->ended_ns = 0;
		sum->written -= one->written;
		sum->cpu_ms -= one->cpu_ms;
		/* It may have waited for children of its own before it vanished. */
		take_back_children(watch, counted, one->pid, sum);
	}
	return has_any;
}

static bool read_one(const struct watch *watch, const char *pid, struct watch_process *ret,
		     struct watch_sum *sum)
{
	return read_times(watch, pid, ret) &&
	       (!watches_disk(watch) || is_ours(watch, pid) || read_written(watch, pid, ret, sum));
}

static void add_one(const struct watch *watch, struct watch_processes *counted, pid_t pid,
		    struct memfds *seen, struct watch_sum *sum)
{
	struct watch_process one = {.pid = pid};
	char name[16];
	bool is_read;

	snprintf(name, sizeof name, "%d", pid);
	do {
		is_read = read_one(watch, name, &one, sum);
	} while (take_back_children(watch, counted, pid, sum) && is_read);
	if (!is_read) {
		sum->has_vanished = true;
		return;
	}
	sum->has_younger_parent |= one.parent > pid;
	sum->has_unread |= one.ended_ns != 0;
	sum->cpu_ms += one.cpu_ms;
	sum->threads += one.threads;
	sum->written += one.written;
	if (counted->n < WATCH_PROCESSES_MAX)
		counted->list[counted->n++] = one;
	else if (one.ended_ns)
		sum->hides_written = true;
	add_memory(watch, name, sum);
	if (watches_memory(watch) && watch->uses_memfd)
		add_memfds(watch, name, seen, sum);
}

static int sum_up(struct watch *watch, struct watch_sum *ret)
{
	pid_t pids[WATCH_PROCESSES_MAX];
	struct watch_processes counted;
	struct memfds seen;
	struct dirent64 *entry;
	struct rusage ended;
	size_t n = 0;
	int r = rewind_proc(watch);

	if (r < 0 || getrusage(RUSAGE_CHILDREN, &ended) < 0)
		return r < 0 ? r : -errno;
	*ret = (struct watch_sum){0};
	seen.n = counted.n = 0;
	ret->cpu_ms = (uint64_t)(ended.ru_utime.tv_sec + ended.ru_stime.tv_sec) * 1000 +
		      (uint64_t)(ended.ru_utime.tv_usec + ended.ru_stime.tv_usec) / 1000;
	for_each_number(watch->proc_fd, entry)
	{
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (!is_inside(watch, entry->d_name))
			continue;
		if (n < WATCH_PROCESSES_MAX) {
			pids[n++] = pid;
		} else { /* in any order: a count that moves may be missed, or be there twice */
			ret->has_younger_parent = true;
			add_one(watch, &counted, pid, &seen, ret);
		}
	}
	while (n > 0)
		add_one(watch, &counted, pids[--n], &seen, ret);
	if (watches_memory(watch)) {
		add_storage(watch, ret);
		if (!watch->is_bare) /* the host's, and not to be had inside */
			add_segments(watch, ret);
	}
	/* Last: processes that ended are waited for between looks only. */
	if (!read_own(watch, &ret->written))
		ret->hides_written = true;
	watch->last.n = counted.n;
	memcpy(watch->last.list, counted.list, counted.n * sizeof *counted.list);
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

/* A process that vanished before it was read is in its parent's counts, if that was read later. */
static bool is_settled(const struct watch_sum *sum)
{
	return !sum->hides_written && !sum->has_unread &&
	       (!sum->has_vanished || !sum->has_younger_parent);
}

/*
 * A sum that is lower than one before has missed what is on its way from a process to its parent,
 * or what vanished with a process for good. Two settled looks in a row miss nothing; of others it
 * takes many.
 */
uint64_t watch_count_add(struct watch_count *count, uint64_t sum, bool is_settled, bool *is_losing)
{
	uint64_t total = sum + count->lost;

	if (total >= count->total) {
		count->total = total;
		count->low = 0;
		return total;
	}
	if (count->low == 0 || total > count->best)
		count->best = total;
	count->low += is_settled ? LOW_MAX / 2 : 1;
	if (count->low >= LOW_MAX) {
		count->lost += count->total - count->best;
		count->low = 0;
		*is_losing = true;
	}
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

/* Without those that keep the sandbox, and those that wait in the guard's stead. */
static void check_processes(const struct watch *watch, const struct watch_sum *sum,
			    struct watch_verdict *verdict)
{
	const uint64_t own = (watch->n_own ? watch->n_own : watch->keeper > 0) + watch->n_helpers;
	const uint64_t used = sum->threads > own ? sum->threads - own : 0;

	if (used > watch->limits->pids)
		say(verdict, SPEC_PIDS, watch->limits->pids, used);
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

/*
 * Processes that ended since the last look, whose counts cannot be read, and which nobody has
 * waited for. Mostly somebody does soon. Otherwise `gone`, what the file systems have
 * lost between the looks before and after its end beyond what was counted, is taken for what it
 * wrote then, until somebody waits for it. Returns the sum of these guesses.
 */
static uint64_t check_zombies(struct watch *watch, uint64_t gone)
{
	const int64_t late_ns = clock_monotonic_ns() - ZOMBIE_NS;
	uint64_t guessed = 0;

	for (size_t i = 0; i < watch->last.n; i++) {
		struct watch_process *one = &watch->last.list[i];

		if (!one->ended_ns)
			continue;
		if (one->is_new) {
			one->guess = gone;
			gone = 0; /* one of them stands for all */
		} else if (one->ended_ns <= late_ns) {
			guessed += one->guess;
		}
	}
	return guessed;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/*
 * Others write to the same file systems. So the loss of free space stands for what was written only
 * while something is surely missing from the counts of the processes inside, and only from the last
 * look on that had all of them.
 */
static void check_disk(struct watch *watch, const struct watch_sum *sum,
		       struct watch_verdict *verdict)
{
	uint64_t limit = watch->limits->disk, gone = 0, gone_now = 0, size, used, counted;
	bool has_all;

	watch->is_losing = watch->is_losing || sum->loses_children;
	used = watch->reserved +
	       watch_count_add(&watch->written, sum->written, is_settled(sum), &watch->is_losing);
	has_all = !sum->hides_written && !watch->is_losing && !watch->written.low;
	for (size_t i = 0; i < watch->n_roots; i++) {
		struct watch_root *root = &watch->roots[i];
		uint64_t left = free_space(root, &size);

		used += root->is_uncounted ? less(root->free_at_start, left) : 0;
		gone_now += less(root->free_last, left);
		gone += less(root->free_when_all, left);
		root->free_last = left;
		if (has_all)
			root->free_when_all = left;
		if (limit != SPEC_UNLIMITED && left < root->floor) {
			say(verdict, SPEC_DISK, limit, used);
			snprintf(verdict->note, sizeof verdict->note,
				 "less than %llu MiB were left free at %.40s",
				 (unsigned long long)(root->floor >> 20), root->path);
		}
		leave(watch, left, root->floor);
	}
	counted = used;
	used += check_zombies(watch, less(gone_now, less(counted, watch->used_last)));
	watch->used_last = counted;
	/* In two looks in a row: a program is undumpable for a moment within execve(). */
	if (has_all)
		watch->used_when_all = counted;
	else if (((sum->hides_written && watch->was_hidden) || watch->is_losing) &&
		 watch->used_when_all + gone > counted)
		used += watch->used_when_all + gone - counted;
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
	have = st.f_files > st.f_ffree ? (uint64_t)st.f_files - (uint64_t)st.f_ffree : 0;
	is_due = st.f_files && have >= watch->files_due;
	if (!is_due && (watch->is_idle || now_ns < watch->count_ns))
		return;
	if (!watch->files_due)
		watch->files_at_start = have;
	watch->n_files = watch_count_names(watch->layer_fd, "upper", limit, &is_partial);
	/* Others may have removed more than was made here. */
	if (is_partial && have > watch->files_at_start &&
	    have - watch->files_at_start > watch->n_files)
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
	if (watch->is_idle && watch->n_own && !watch->has_steps && watch->usage->processes == 0 &&
	    watch->n_looks > 4)
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
	cpu_ms = watch_count_add(&watch->cpu, sum.cpu_ms, is_settled(&sum), &watch->is_losing_cpu);
	watch->is_idle = cpu_ms == watch->usage->cpu_ms;
	watch->usage->cpu_ms = cpu_ms;
	check_processes(watch, &sum, ret);
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
	uint64_t size;
	const int64_t soon_ns = clock_monotonic_ns() + LOOK_LEAST_MS * 1000000;

	if (watch->next_ns <= soon_ns + (LOOK_MOST_MS - LOOK_LEAST_MS) * 1000000)
		return;
	watch->next_ns = soon_ns;
	watch->woken_ns = soon_ns - LOOK_LEAST_MS * 1000000;
	/* Nobody was inside: what has gone of the disk since the last look was others'. */
	if (watch->usage->processes == 0 && !watch->has_steps && !watch->is_losing &&
	    !watch->was_hidden)
		for (size_t i = 0; i < watch->n_roots; i++) {
			struct watch_root *root = &watch->roots[i];

			root->free_when_all = root->free_last = free_space(root, &size);
		}
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
	root->free_at_start = root->free_when_all = root->free_last = free_space(root, &size);
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
	watch->reserved = watch->used_when_all = watch->used_last = config->limits.disk_kept;
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
