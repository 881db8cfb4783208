/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/archive.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/program.h"
#include "base/str.h"
#include "base/uapi.h"
#include "init/init.h"
#include "layer/layer.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

/* The caller's side: what is trusted, and what has to be cleaned up. */

extern char **environ;

#define GIB	      (UINT64_C(1) << 30)
#define LOOK_EVERY_MS 500 /* at whether an export is wanted still */

static const struct atoll_import_options usual = {
	.max_bytes = 20 * GIB,
	.max_entries = 1000000,
	.max_ratio = 1000,
};

/* ---- the program ---- */

/* What it gets as 0, 1, 3 and 4; -1: nothing. */
struct call {
	char **argv;
	char **env;
	int in_fd, out_fd, dir_fd;
	const struct atoll_export_limits *limits; /* NULL */
};

/* Above those that the program knows by number, so that no dup2() overwrites one. */
static int lift(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, ARC_ANSWER_FD + 1);
}

static _Noreturn void execute(const char *program, const struct call *call, int null_fd,
			      int answer_fd)
{
	int in = lift(call->in_fd >= 0 ? call->in_fd : null_fd);
	int out = lift(call->out_fd >= 0 ? call->out_fd : null_fd);
	int dir = lift(call->dir_fd >= 0 ? call->dir_fd : null_fd);
	int answer = lift(answer_fd);
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (in >= 0 && out >= 0 && dir >= 0 && answer >= 0 && dup2(in, 0) == 0 &&
	    dup2(out, 1) == 1 && dup2(dir, ARC_DIR_FD) == ARC_DIR_FD &&
	    dup2(answer, ARC_ANSWER_FD) == ARC_ANSWER_FD)
		execve(program, call->argv, call->env);
	_exit(127);
}

static volatile sig_atomic_t interrupted_pid;

/* Somebody wants us to end: it ends first, and then what it has made is removed. */
static void on_signal(int number)
{
	int saved = errno;

	(void)number;
	if (interrupted_pid > 0)
		kill(interrupted_pid, SIGKILL);
	errno = saved;
}

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* Until it answers or ends; kills it when nobody wants the answer any more. */
static void await_answer(pid_t pid, int answer_fd, const struct atoll_export_limits *limits)
{
	struct pollfd poller = {.fd = answer_fd, .events = POLLIN};

	while (limits && limits->is_wanted && poll(&poller, 1, LOOK_EVERY_MS) <= 0) {
		if (!limits->is_wanted(limits->data)) {
			kill(pid, SIGKILL);
			return;
		}
	}
}

static int wait_for(pid_t pid, int answer_fd, const struct atoll_export_limits *limits,
		    struct arc_answer *ret)
{
	struct sigaction old[ARRAY_SIZE(signals)];
	const struct sigaction ours = {.sa_handler = on_signal};
	int status, r;

	interrupted_pid = pid;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &ours, &old[i]);
	await_answer(pid, answer_fd, limits);
	r = fd_read_exact(answer_fd, ret, sizeof *ret);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	interrupted_pid = 0;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &old[i], NULL);
	return r < 0 ? r : WIFEXITED(status) ? 0 : -EPIPE;
}

/* What it says is not believed further than it goes: it may have been taken over. */
static void distrust(struct arc_answer *answer)
{
	answer->err.text[sizeof answer->err.text - 1] = '\0';
	answer->report.dropped[sizeof answer->report.dropped - 1] = '\0';
	if (answer->code > 0 || answer->code < -4095)
		answer->code = -EPROTO;
	if ((unsigned)answer->err.fault > ATOLL_FAULT_BUG ||
	    (answer->code < 0 && answer->err.fault == ATOLL_FAULT_NONE))
		answer->err.fault = ATOLL_FAULT_BUG;
}

static int call_program(const struct call *call, struct atoll_archive_report *ret,
			struct atoll_error *err)
{
	cleanup_fd int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	cleanup_fd int answer_read = -1, answer_write = -1;
	struct arc_answer answer = {0};
	char program[PATH_MAX];
	int ends[2], r;
	pid_t pid;

	r = program_find(ARC_PROGRAM, program, sizeof program);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "find '" ARC_PROGRAM "', which is installed beside atoll");
	if (null_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make a pipe");
	answer_read = ends[0];
	answer_write = ends[1];
	pid = fork();
	if (pid < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "fork");
	if (pid == 0)
		execute(program, call, null_fd, answer_write);
	close(take_fd(&answer_write));
	r = wait_for(pid, answer_read, call->limits, &answer);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, EINTR, "'%s' was ended", program);
	distrust(&answer);
	if (answer.code < 0 && err)
		*err = answer.err;
	else if (answer.code == 0)
		*ret = answer.report;
	return answer.code;
}

/* ---- export ---- */

int atoll_export_tar(const char *id, enum atoll_tar form, const struct atoll_export_limits *limits,
		     int fd, struct atoll_archive_report *ret, struct atoll_error *err)
{
	static char name[] = ARC_PROGRAM, what[] = "export", oci[] = "oci", plain[] = "tar";
	cleanup_free char *copy = strdup(id ? id : "");
	char bytes[24];
	char *argv[] = {name, what, form == ATOLL_TAR_OCI ? oci : plain, bytes, id ? copy : NULL,
			NULL};
	/* It finds the store as we do, and the latest record by the current directory. */
	struct call call = {.argv = argv,
			    .env = environ,
			    .in_fd = -1,
			    .out_fd = fd,
			    .dir_fd = -1,
			    .limits = limits};
	struct layer_record *record;
	struct atoll_error unheard;
	int r;

	if (!copy)
		return error_oom(err);
	snprintf(bytes, sizeof bytes, "%" PRIu64, limits ? limits->max_bytes : 0);
	r = call_program(&call, ret, err);
	/* The archive program is confined and cannot remove the copies: the caller does. */
	if (layer_record_open(id, &record, &unheard) == 0) {
		layer_freeze_sweep(record);
		layer_record_close(record);
	}
	return r;
}

/* ---- import ---- */

/* Where it goes: a name in a directory, and for the time being another name beside it. */
struct place {
	int parent_fd, temp_fd;
	char name[NAME_MAX + 1];
	char temp[32];
	mode_t mode;
	bool is_there;
};

static int split(const char *dir, struct place *place, struct atoll_error *err)
{
	cleanup_free char *copy = strdup(dir);
	char *slash;

	if (!copy)
		return error_oom(err);
	while ((slash = strrchr(copy, '/')) && slash[1] == '\0' && slash != copy)
		*slash = '\0';
	slash = strrchr(copy, '/');
	if ((size_t)snprintf(place->name, sizeof place->name, "%s", slash ? slash + 1 : copy) >=
	    sizeof place->name)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "directory '%s'", dir);
	if (place->name[0] == '\0' || streq(place->name, ".") || streq(place->name, ".."))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' has no name of its own; name a new or empty directory", dir);
	if (slash)
		slash[slash == copy] = '\0';
	place->parent_fd = open(slash ? copy : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (place->parent_fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "directory above '%s'", dir);
	return 0;
}

static bool is_empty(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t n = 0;

	if (!list) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while ((entry = readdir(list)))
		n += !streq(entry->d_name, ".") && !streq(entry->d_name, "..");
	closedir(list);
	return n == 0;
}

/* A directory of ours alone, so that nobody sees it half filled. */
static int make_temp(struct place *place, struct atoll_error *err)
{
	uint64_t number;

	for (int i = 0; i < 8; i++) {
		if (getrandom(&number, sizeof number, 0) != sizeof number)
			return error_set(err, ATOLL_FAULT_HOST, errno, "get random bytes");
		snprintf(place->temp, sizeof place->temp, ".atoll-%012" PRIx64, number >> 16);
		if (mkdirat(place->parent_fd, place->temp, 0700) == 0) {
			place->temp_fd = openat(place->parent_fd, place->temp,
						O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			return place->temp_fd < 0 ? error_set(err, ATOLL_FAULT_HOST, errno,
							      "open '%s'", place->temp)
						  : 0;
		}
		if (errno != EEXIST)
			break;
	}
	return error_set(err, ATOLL_FAULT_HOST, errno, "make a directory beside '%s'", place->name);
}

static int place_open(const char *dir, struct place *place, struct atoll_error *err)
{
	struct stat st, here;
	mode_t mask = umask(0);
	int r = split(dir, place, err);

	umask(mask);
	if (r < 0)
		return r;
	place->mode = 0777 & ~mask;
	place->is_there = fstatat(place->parent_fd, place->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!place->is_there && errno != ENOENT)
		return error_set(err, ATOLL_FAULT_HOST, errno, "look at '%s'", dir);
	if (place->is_there && (!S_ISDIR(st.st_mode) || !is_empty(place->parent_fd, place->name)))
		return error_set(err, ATOLL_FAULT_REQUEST, EEXIST,
				 "'%s' has to be new, or an empty directory", dir);
	/* It is replaced, and whoever stands in it would stand nowhere. */
	if (place->is_there && stat(".", &here) == 0 && here.st_dev == st.st_dev &&
	    here.st_ino == st.st_ino)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' is the current directory; name another", dir);
	if (place->is_there)
		place->mode = st.st_mode & 07777;
	return make_temp(place, err);
}

/* What a stranger has filled, with modes of his choice. No link is followed. */
static int remove_content(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!list) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	while ((entry = readdir(list))) {
		const char *name = entry->d_name;
		cleanup_fd int sub = -1;

		if (streq(name, ".") || streq(name, "..") || unlinkat(dir_fd, name, 0) == 0)
			continue;
		if (fchmodat(dir_fd, name, 0700, 0) == 0)
			sub = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub < 0 || remove_content(sub) < 0 || unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
			r = -errno;
	}
	closedir(list);
	return r;
}

static void place_close(struct place *place, bool is_done)
{
	if (place->temp_fd >= 0 && !is_done) {
		remove_content(place->temp_fd);
		unlinkat(place->parent_fd, place->temp, AT_REMOVEDIR);
	}
	if (place->temp_fd >= 0)
		close(place->temp_fd);
	if (place->parent_fd >= 0)
		close(place->parent_fd);
}

/* An empty directory may be replaced by a rename, anything else not; a new one only if there still
 * is none. */
static int place_finish(struct place *place, const char *dir, struct atoll_error *err)
{
	if (fchmod(place->temp_fd, place->mode) < 0 ||
	    renameat2(place->parent_fd, place->temp, place->parent_fd, place->name,
		      place->is_there ? 0 : RENAME_NOREPLACE) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "put '%s' in its place", dir);
	return 0;
}

/* The disk is not filled below its floor. */
static void bound_by_disk(int fd, struct atoll_import_options *options)
{
	struct statvfs disk;
	uint64_t size, left, floor;

	if (fstatvfs(fd, &disk) < 0 || disk.f_blocks == 0)
		return;
	size = (uint64_t)disk.f_blocks * disk.f_frsize;
	left = (uint64_t)disk.f_bavail * disk.f_frsize;
	floor = init_space_floor(size);
	left = left > floor ? left - floor : 0;
	if (options->max_bytes > left)
		options->max_bytes = left;
}

/* ---- what the host would execute or trust ---- */

struct holding {
	const struct atoll_import_options *options;
	uint64_t n;
};

/* Is `path` one of those that were named, or beneath one, or above one? */
static bool is_taken(const struct holding *holding, const char *path, bool is_dir)
{
	char *const *taken = holding->options->taken;

	for (; taken && *taken; taken++) {
		size_t length = strlen(*taken), own = strlen(path);

		while (length > 0 && (*taken)[length - 1] == '/')
			length--;
		if (length > 0 && own >= length && strncmp(path, *taken, length) == 0 &&
		    (path[length] == '/' || path[length] == '\0'))
			return true;
		if (is_dir && own < length && strncmp(path, *taken, own) == 0 &&
		    (*taken)[own] == '/')
			return true;
	}
	return false;
}

static bool is_held(const struct atoll_change *change, bool is_outside_link, void *data)
{
	const struct holding *holding = data;

	return !(is_outside_link && holding->options->keeps_outside_links) &&
	       !is_taken(holding, change->path, S_ISDIR(change->after.st_mode));
}

static void note_held(const struct atoll_change *change, void *data)
{
	struct holding *holding = data;

	holding->n++;
	if (holding->options->held)
		holding->options->held(change->path, change->mark, holding->options->data);
}

/* The path under which the host will have it: names are judged from there. */
static int final_path(const struct place *place, char ret[PATH_MAX], struct atoll_error *err)
{
	char link[32];
	ssize_t length;
	size_t used;

	snprintf(link, sizeof link, "/proc/self/fd/%d", place->parent_fd);
	length = readlink(link, ret, PATH_MAX - 1);
	if (length < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "find the directory above '%s'",
				 place->name);
	used = (size_t)length;
	if (used + strlen(place->name) + 2 > PATH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "directory '%s'",
				 place->name);
	ret[used] = '\0';
	snprintf(ret + used, PATH_MAX - used, "%s%s", used > 1 ? "/" : "", place->name);
	return 0;
}

/* The archive's author may have written a job file: it needs trust. Done before anything is
 * unpacked, so that a signal leaves nothing that is not noted. */
static int note_directory(const struct place *place, const struct atoll_import_options *options,
			  struct atoll_error *err)
{
	char path[PATH_MAX];
	int r;

	/* The caller has said that it is nobody's workspace: the daemon notes its own directory. */
	if (options->keeps_marked)
		return 0;
	r = final_path(place, path, err);
	return r < 0 ? r : layer_places_note_new(path, place->temp_fd, err);
}

static int hold_marked(const struct place *place, const struct atoll_import_options *options,
		       struct atoll_archive_report *report, struct atoll_error *err)
{
	struct holding holding = {.options = options};
	char root[PATH_MAX];
	int r;

	if (options->keeps_marked)
		return 0;
	r = final_path(place, root, err);
	if (r == 0)
		r = layer_tree_hold_back(place->temp_fd, root, is_held, note_held, &holding, err);
	report->n_marked = holding.n;
	return r;
}

static int import_into(int archive_fd, int dir_fd, const struct atoll_import_options *asked,
		       struct atoll_archive_report *ret, struct atoll_error *err)
{
	static char name[] = ARC_PROGRAM, what[] = "import", yes[] = "1", no[] = "0";
	char bytes[24], entries[24], ratio[24], *nothing[] = {NULL};
	struct atoll_import_options options = *asked;
	char *argv[] = {name, what, bytes, entries, ratio, options.keeps_outside_links ? yes : no,
			NULL};
	struct call call = {
		.argv = argv, .env = nothing, .in_fd = archive_fd, .out_fd = -1, .dir_fd = dir_fd};

	bound_by_disk(dir_fd, &options);
	snprintf(bytes, sizeof bytes, "%" PRIu64, options.max_bytes);
	snprintf(entries, sizeof entries, "%" PRIu64, options.max_entries);
	snprintf(ratio, sizeof ratio, "%" PRIu64, options.max_ratio);
	return call_program(&call, ret, err);
}

int atoll_import(int archive_fd, const char *dir, const struct atoll_import_options *options,
		 struct atoll_archive_report *ret, struct atoll_error *err)
{
	struct atoll_import_options filled = *options;
	struct place place = {.parent_fd = -1, .temp_fd = -1};
	struct atoll_archive_report report;
	int r = place_open(dir, &place, err);

	if (filled.max_bytes == 0)
		filled.max_bytes = usual.max_bytes;
	if (filled.max_entries == 0)
		filled.max_entries = usual.max_entries;
	if (filled.max_ratio == 0)
		filled.max_ratio = usual.max_ratio;
	if (r == 0)
		r = note_directory(&place, &filled, err);
	if (r == 0)
		r = import_into(archive_fd, place.temp_fd, &filled, &report, err);
	if (r == 0)
		r = hold_marked(&place, &filled, &report, err);
	if (r == 0)
		r = place_finish(&place, dir, err);
	place_close(&place, r == 0);
	if (r < 0)
		return error_context(err, r, "import into '%s'", dir);
	*ret = report;
	return 0;
}
