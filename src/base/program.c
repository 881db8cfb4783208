/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"

#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool find_near(char *file, const char *const *places, const char *name, char *ret,
		      size_t size)
{
	char *slash = strrchr(file, '/');

	if (!slash)
		return false;
	*slash = '\0';
	for (; *places; places++) {
		if ((size_t)snprintf(ret, size, "%s%s%s", file, *places, name) < size &&
		    access(ret, X_OK) == 0)
			return true;
	}
	return false;
}

/* The file that this very code was loaded from: the program, or the library in somebody else's. */
static bool find_own_file(char *ret, size_t size)
{
	uintptr_t here = (uintptr_t)&find_own_file;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];
	bool is_found = false;

	while (maps && !is_found && fgets(line, sizeof line, maps)) {
		uintptr_t first, end;
		char *path = strchr(line, '/');

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &first, &end) != 2 || here < first ||
		    here >= end || !path)
			continue;
		path[strcspn(path, "\n")] = '\0';
		is_found = (size_t)snprintf(ret, size, "%s", path) < size;
	}
	if (maps)
		fclose(maps);
	return is_found;
}

static char own_path[PATH_MAX];

static ssize_t read_own_path(char *ret, size_t size)
{
	const size_t known = strlen(own_path);
	ssize_t length;

	if (known > 0 && known < size) {
		memcpy(ret, own_path, known + 1);
		return (ssize_t)known;
	}
	length = readlink("/proc/self/exe", ret, size - 1);
	if (length >= 0)
		ret[length] = '\0';
	return length;
}

void program_remember(void)
{
	char path[PATH_MAX];

	if (read_own_path(path, sizeof path) > 0)
		memcpy(own_path, path, strlen(path) + 1);
}

int program_find(const char *name, char *ret, size_t size)
{
	static const char *const beside_program[] = {"/../libexec/atoll/", "/", NULL};
	/* A library lies in lib or lib/ARCHITECTURE; in a build tree one step below programs. */
	static const char *const beside_library[] = {"/../libexec/atoll/", "/../../libexec/atoll/",
						     "/../", NULL};
	char self[PATH_MAX];

	if (read_own_path(self, sizeof self) < 0)
		return -errno;
	if (find_near(self, beside_program, name, ret, size))
		return 0;
	if (find_own_file(self, sizeof self) && find_near(self, beside_library, name, ret, size))
		return 0;
	return -ENOENT;
}

/* ---- all of them ---- */

/* The programs of a build tree, which lie side by side, and of bin and libexec. */
static const char *const own_names[] = {
	"atoll",       "atoll-archive", "atoll-audit",	 "atoll-daemon", "atoll-egress",
	"atoll-guest", "atoll-monitor", "atoll-spawner", "atoll-remote", "atoll-setup",
	NULL,
};

/* `path` is a directory and a way from there; what is asked about has neither links nor "..". */
static int tell_place(const char *path, int (*each)(const char *path, void *data), void *data)
{
	char plain[PATH_MAX], real[PATH_MAX];
	struct stat st;
	int r;

	if ((size_t)snprintf(plain, sizeof plain, "%s", path) >= sizeof plain)
		return 0;
	path_normalize(plain);
	r = each(plain, data);
	/* The way there has no links: it comes from /proc/self/exe. */
	if (r >= 0 && lstat(plain, &st) == 0 && S_ISLNK(st.st_mode) && realpath(plain, real))
		r = each(real, data);
	return r < 0 ? r : 0;
}

static int tell_places(const char *file, const char *const *ways,
		       int (*each)(const char *path, void *data), void *data)
{
	const char *slash = strrchr(file, '/');
	const int length = slash ? (int)(slash - file) : 0;
	char path[2 * PATH_MAX];
	int r = tell_place(file, each, data);

	for (; r == 0 && *ways; ways++) {
		const size_t end = strlen(*ways);
		bool is_shared = (*ways)[end - 1] == '/' && !strstr(*ways, "libexec");

		snprintf(path, sizeof path, "%.*s%s", length, file, *ways);
		if (!is_shared)
			r = tell_place(path, each, data);
		for (size_t i = 0; r == 0 && is_shared && own_names[i]; i++) {
			snprintf(path, sizeof path, "%.*s%s%s", length, file, *ways, own_names[i]);
			r = tell_place(path, each, data);
		}
	}
	return r;
}

/* The first object is the program itself. */
static int look_for(struct dl_phdr_info *object, size_t size, void *data)
{
	const uintptr_t here = (uintptr_t)data;

	(void)size;
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const uintptr_t first = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;

		if (object->dlpi_phdr[i].p_type == PT_LOAD && here >= first &&
		    here - first < object->dlpi_phdr[i].p_memsz)
			return 1;
	}
	return -1;
}

/* Is this code in the program, and not in a library of somebody else's? Reading /proc/self/maps
 * would tell as well, and takes longer than all else here. */
static bool is_in_program(void)
{
	return dl_iterate_phdr(look_for, (void *)&look_for) > 0;
}

int program_each_place(int (*each)(const char *path, void *data), void *data)
{
	/* Those of program_find(), and the way back from libexec to the program itself. */
	static const char *const beside_program[] = {"/../libexec/atoll", "/", "/../../bin/atoll",
						     NULL};
	static const char *const beside_library[] = {"/../libexec/atoll", "/../../libexec/atoll",
						     "/../", NULL};
	char self[PATH_MAX], library[PATH_MAX];
	int r;

	if (read_own_path(self, sizeof self) < 0)
		return -errno;
	r = tell_places(self, beside_program, each, data);
	if (r == 0 && !is_in_program() && find_own_file(library, sizeof library))
		r = tell_places(library, beside_library, each, data);
	return r;
}

bool program_called_as(char *ret, size_t size)
{
	const char *path = (const char *)getauxval(AT_EXECFN); // NOLINT(performance-no-int-to-ptr)
	char cwd[PATH_MAX];

	if (!path || !path[0] || !is_in_program())
		return false;
	if (path[0] == '/')
		return (size_t)snprintf(ret, size, "%s", path) < size;
	return getcwd(cwd, sizeof cwd) && cwd[0] == '/' &&
	       (size_t)snprintf(ret, size, "%s/%s", cwd, path) < size;
}

/* ---- starting one ---- */

struct child {
	const char *path;
	char *const *argv, *const *env;
	int fd, null_fd; /* both above 3; -1: streams stay as they are */
	sigset_t mask;
	int errnum;
};

/* No handler of ours may run in it. What is ignored stays so, if it has our streams. */
static void reset_signals(bool is_alone)
{
	struct sigaction now;

	for (int number = 1; number < NSIG; number++) {
		if (is_alone || (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_IGN))
			signal(number, SIG_DFL);
	}
}

/* In a child that shares our memory until it executes. Alone, it has no terminal, so Ctrl-C is not
 * for it, and not even standard error: whoever reads ours to its end must not wait for it. */
static _Noreturn void execute(volatile struct child *child)
{
	const int null_fd = child->null_fd;
	sigset_t mask = child->mask;

	reset_signals(null_fd >= 0);
	if (null_fd >= 0) {
		setsid();
		/* The end of its channel tells it, too; this one also where it hangs. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigemptyset(&mask);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if ((null_fd < 0 || (chdir("/") == 0 && dup2(null_fd, 0) == 0 && dup2(null_fd, 1) == 1 &&
			     dup2(null_fd, 2) == 2)) &&
	    dup2(child->fd, 3) == 3 && fd_close_range(4, ~0U, true) == 0)
		execve(child->path, child->argv, child->env);
	child->errnum = errno;
	_exit(127);
}

/* A function of its own, because of what vfork() may do to variables. */
static pid_t fork_it(volatile struct child *child)
{
	sigset_t all, old;
	pid_t pid;

	/* No handler may run while two processes share memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	child->mask = old;
	pid = vfork();
	if (pid == 0)
		execute(child);
	if (pid < 0)
		child->errnum = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid;
}

/* Above 3, so that no dup2() overwrites it, or finds it in its place with its flag. */
static int lift(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 4);
}

pid_t program_start(const char *path, const char *name, int fd, enum program_ties ties)
{
	char *argv[] = {(char *)name, NULL}, *empty[] = {NULL};
	cleanup_fd int own = lift(fd), opened = -1, null_fd = -1;
	volatile struct child child = {
		.path = path, .argv = argv, .env = environ, .fd = own, .null_fd = -1};
	pid_t pid;

	if (own < 0)
		return -errno;
	if (ties == PROGRAM_ALONE) {
		opened = open("/dev/null", O_RDWR | O_CLOEXEC);
		null_fd = opened < 0 ? -1 : lift(opened);
		if (null_fd < 0)
			return -errno;
		child.env = empty;
		child.null_fd = null_fd;
	}
	pid = fork_it(&child);
	if (pid > 0 && child.errnum)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	return child.errnum ? -child.errnum : pid;
}

/* Where the arguments lie: fields 48 and 49. */
static void find_arguments(uint64_t bounds[2])
{
	char text[2048];
	FILE *stat = fopen("/proc/self/stat", "re");
	const char *at = NULL;

	if (stat && fgets(text, sizeof text, stat))
		at = strrchr(text, ')');
	if (stat)
		fclose(stat);
	/* Behind the name field 2 ends. */
	for (int field = 3; at && field <= 49; field++) {
		at = strchr(at + 1, ' ');
		if (at && field >= 48)
			bounds[field - 48] = strtoull(at + 1, NULL, 10);
	}
}

void program_set_title(const char *title)
{
	static uint64_t bounds[2]; /* a fork's are the same */

	if (!bounds[0])
		find_arguments(bounds);
	if (!bounds[0] || bounds[1] <= bounds[0])
		return;
	memset((void *)(uintptr_t)bounds[0], 0, bounds[1] - bounds[0]);
	for (size_t i = 0; title[i] && i + 1 < bounds[1] - bounds[0]; i++)
		((char *)(uintptr_t)bounds[0])[i] = title[i];
}

/* ---- memory ---- */

#define PAGE	   PROGRAM_PAGE
#define FRAME_HEAD 64	/* what a call has put there, of the one who was called */
#define STACK_LEFT 1024 /* for whom we call */
#define STACK_MOST (128 * PAGE)
#define STACK_ROOM (64 << 20) /* the kernel leaves twice that free beneath the first stack */

/* Of the C library; musl has none, and no header for it. */
int malloc_trim(size_t left) __attribute__((weak));
/* libc.c's, where the heap is ours. */
int heap_trim(void) __attribute__((weak));

/* The program's name lies at the upper end of its first thread's stack. */
static bool is_first_stack(uintptr_t here)
{
	const uintptr_t top = getauxval(AT_EXECFN);

	return here < top && top - here < STACK_ROOM;
}

void program_trim_stack(void)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	const uintptr_t end = (here - STACK_LEFT) & ~(uintptr_t)(PAGE - 1);

	/* Beneath what was ever used there is nothing; that is told, and fine. */
	if (is_first_stack(here))
		madvise((void *)(end - STACK_MOST), STACK_MOST, MADV_DONTNEED);
}

void program_trim_own(void)
{
	program_trim_stack();
	if (heap_trim)
		heap_trim();
}

void program_trim(void)
{
	program_trim_own();
	if (!heap_trim && malloc_trim)
		malloc_trim(0);
}

void program_drop(void *memory, size_t size)
{
	const uintptr_t from = ((uintptr_t)memory + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	const uintptr_t to = ((uintptr_t)memory + size) & ~(uintptr_t)(PAGE - 1);

	if (from < to)
		madvise((void *)from, to - from, MADV_DONTNEED);
}

void program_forget_callers(void *frame)
{
	const uintptr_t here = (uintptr_t)frame, end = (uintptr_t)environ;

	/* Up to what the kernel has put there; elsewhere it is where a variable was set. */
	if (is_first_stack(here) && here < end && is_first_stack(end))
		program_drop((char *)frame + FRAME_HEAD, end - here - FRAME_HEAD);
}
