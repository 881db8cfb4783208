/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "setup/setup.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* ---- changes in general ---- */

static const struct change_kind *const kinds[] = {
	&kind_lines, &kind_file,  &kind_link,  &kind_directory,
	&kind_lock,  &kind_table, &kind_group, &kind_controller,
};

const struct change_kind *change_kind(const json_t *change)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (streq(kinds[i]->name, change_text(change, "kind")))
			return kinds[i];
	}
	return NULL;
}

const char *change_text(const json_t *change, const char *key)
{
	const char *text = json_string_value(json_object_get(change, key));

	return text ? text : "";
}

json_t *change_new(const char *step, const struct change_kind *kind, const char *path,
		   const char *text)
{
	return json_pack("{s:s, s:s, s:s, s:s}", "step", step, "kind", kind->name, "path", path,
			 "text", text);
}

int setup_fail(struct atoll_error *err, const char *what, const char *path)
{
	return error_set(err, ATOLL_FAULT_HOST, errno, "%s '%s'", what, path);
}

int setup_read(const char *path, struct buf *ret, struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0)
		return setup_fail(err, "open", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, ATOLL_FAULT_HOST, EINVAL, "'%s' is no plain file", path);
	r = fd_read_all(fd, ret);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "read '%s'", path) : 0;
}

int setup_sync_parent(const char *path, struct atoll_error *err)
{
	char parent[PATH_MAX];
	cleanup_fd int fd = -1;

	snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
	fd = open(parent[0] ? parent : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return setup_fail(err, "write to disk", parent);
	return 0;
}

bool setup_is_cgroup(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 &&
	       (fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC);
}

/* The kernel's own tree, and nothing that lies where it is to be mounted. */
static int refuse_elsewhere(const char *path, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, 0, "'%s' is in no hierarchy of control groups",
			 path);
}

static int remove_path(const char *path, struct atoll_error *err)
{
	if (unlink(path) < 0 && errno != ENOENT)
		return setup_fail(err, "remove", path);
	return setup_sync_parent(path, err);
}

/* ---- a whole file ---- */

static int check_file(const json_t *change, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	int r = setup_read(change_text(change, "path"), &text, err);
	struct stat st;

	if (r == -ENOENT)
		return CHANGE_ABSENT;
	if (r < 0)
		return r;
	/* systemd obeys it as root: whoever else can write it has changed it. */
	if (lstat(change_text(change, "path"), &st) < 0 || st.st_uid != 0 || st.st_mode & 022)
		return CHANGE_DIFFERENT;
	return streq(text.data ? text.data : "", change_text(change, "text")) ? CHANGE_PRESENT
									      : CHANGE_DIFFERENT;
}

static int apply_file(const json_t *change, struct atoll_error *err)
{
	const char *path = change_text(change, "path"), *text = change_text(change, "text");
	char new[PATH_MAX];
	cleanup_fd int fd = -1;

	snprintf(new, sizeof new, "%s.atoll-setup", path);
	unlink(new);
	fd = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0 || fchmod(fd, 0644) < 0 ||
	    fsync(fd) < 0)
		return setup_fail(err, "write", new);
	/* Not over what somebody else has put there; if it is ours and was changed, undo says so.
	 */
	if (renameat2(AT_FDCWD, new, AT_FDCWD, path, RENAME_NOREPLACE) < 0) {
		int failed = errno;

		unlink(new);
		return error_set(err, ATOLL_FAULT_HOST, failed,
				 "'%s' is not as atoll setup made it; put it in place", path);
	}
	return setup_sync_parent(path, err);
}

static int undo_file(const json_t *change, char *ret_reason, size_t size, struct atoll_error *err)
{
	const char *path = change_text(change, "path");
	char new[PATH_MAX];
	int state = check_file(change, err);

	snprintf(new, sizeof new, "%s.atoll-setup", path);
	unlink(new);
	if (state == CHANGE_DIFFERENT) {
		snprintf(ret_reason, size, "it was changed since");
		return 1;
	}
	return state == CHANGE_PRESENT ? remove_path(path, err) : state;
}

const struct change_kind kind_file = {
	.name = "file",
	.check = check_file,
	.apply = apply_file,
	.undo = undo_file,
};

/* ---- the lock of the account files: empty, and made by whoever first needs it ---- */

static int check_lock(const json_t *change, struct atoll_error *err)
{
	(void)err;
	return access(change_text(change, "path"), F_OK) == 0 ? CHANGE_PRESENT : CHANGE_ABSENT;
}

static int apply_lock(const json_t *change, struct atoll_error *err)
{
	const char *path = change_text(change, "path");
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? setup_fail(err, "create", path) : 0;
}

/* Whoever holds it would hold a file without a name, and the next one another. */
static int undo_lock(const json_t *change, char *ret_reason, size_t size, struct atoll_error *err)
{
	const char *path = change_text(change, "path");
	cleanup_fd int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != 0)
		return 0;
	if (fcntl(fd, F_SETLK, &lock) < 0) {
		snprintf(ret_reason, size, "somebody is changing accounts");
		return 1;
	}
	return remove_path(path, err);
}

const struct change_kind kind_lock = {
	.name = "lock",
	.is_shared = true,
	.check = check_lock,
	.apply = apply_lock,
	.undo = undo_lock,
};

/* ---- a symbolic link ---- */

static int check_link(const json_t *change, struct atoll_error *err)
{
	const char *path = change_text(change, "path");
	char target[PATH_MAX];
	ssize_t length = readlink(path, target, sizeof target - 1);

	if (length < 0 && errno == ENOENT)
		return CHANGE_ABSENT;
	if (length < 0 && errno == EINVAL)
		return CHANGE_DIFFERENT;
	if (length < 0)
		return setup_fail(err, "read", path);
	target[length] = '\0';
	return streq(target, change_text(change, "text")) ? CHANGE_PRESENT : CHANGE_DIFFERENT;
}

static int apply_link(const json_t *change, struct atoll_error *err)
{
	const char *path = change_text(change, "path");

	if (symlink(change_text(change, "text"), path) < 0)
		return setup_fail(err, "make the link", path);
	return setup_sync_parent(path, err);
}

static int undo_link(const json_t *change, char *ret_reason, size_t size, struct atoll_error *err)
{
	int state = check_link(change, err);

	if (state == CHANGE_DIFFERENT) {
		snprintf(ret_reason, size, "it leads elsewhere now");
		return 1;
	}
	return state == CHANGE_PRESENT ? remove_path(change_text(change, "path"), err) : state;
}

const struct change_kind kind_link = {
	.name = "link",
	.check = check_link,
	.apply = apply_link,
	.undo = undo_link,
};

/* ---- a directory, and a control group, which is one to the kernel ---- */

static int check_directory(const json_t *change, struct atoll_error *err)
{
	struct stat st;

	if (lstat(change_text(change, "path"), &st) < 0)
		return errno == ENOENT ? CHANGE_ABSENT
				       : setup_fail(err, "look at", change_text(change, "path"));
	return S_ISDIR(st.st_mode) ? CHANGE_PRESENT : CHANGE_DIFFERENT;
}

static int apply_directory(const json_t *change, struct atoll_error *err)
{
	const char *path = change_text(change, "path");

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return setup_fail(err, "create", path);
	return setup_sync_parent(path, err);
}

static int undo_directory(const json_t *change, char *ret_reason, size_t size,
			  struct atoll_error *err)
{
	const char *path = change_text(change, "path");

	if (rmdir(path) == 0)
		return setup_sync_parent(path, err);
	if (errno == ENOENT)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR && errno != EBUSY)
		return setup_fail(err, "remove", path);
	snprintf(ret_reason, size, "somebody uses it");
	return 1;
}

const struct change_kind kind_directory = {
	.name = "directory",
	.is_shared = true,
	.check = check_directory,
	.apply = apply_directory,
	.undo = undo_directory,
};

/* The kernel's directories cannot be written to disk. */
static int apply_group(const json_t *change, struct atoll_error *err)
{
	const char *path = change_text(change, "path");
	char parent[PATH_MAX];

	snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
	if (!setup_is_cgroup(parent))
		return refuse_elsewhere(path, err);
	return mkdir(path, 0755) < 0 && errno != EEXIST ? setup_fail(err, "create", path) : 0;
}

static int undo_group(const json_t *change, char *ret_reason, size_t size, struct atoll_error *err)
{
	const char *path = change_text(change, "path");

	if (access(path, F_OK) == 0 && !setup_is_cgroup(path)) {
		snprintf(ret_reason, size, "it is no control group");
		return 1;
	}
	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	if (errno != EBUSY && errno != ENOTEMPTY)
		return setup_fail(err, "remove", path);
	snprintf(ret_reason, size, "runs are going on in it");
	return 1;
}

const struct change_kind kind_group = {
	.name = "group",
	.is_shared = true,
	.is_volatile = true,
	.check = check_directory,
	.apply = apply_group,
	.undo = undo_group,
};

/* ---- a controller that a control group (v2) hands down ---- */

static int check_controller(const json_t *change, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(4096);
	const char *wanted = change_text(change, "text");
	int r = setup_read(change_text(change, "path"), &text, err);
	char *rest;

	if (r == -ENOENT)
		return CHANGE_ABSENT;
	if (r < 0)
		return r;
	for (char *word = strtok_r(text.data, " \n", &rest); word;
	     word = strtok_r(NULL, " \n", &rest)) {
		if (streq(word, wanted))
			return CHANGE_PRESENT;
	}
	return CHANGE_ABSENT;
}

static int write_controller(const json_t *change, char sign, struct atoll_error *err)
{
	const char *path = change_text(change, "path");
	cleanup_fd int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	char text[64];
	int length = snprintf(text, sizeof text, "%c%s", sign, change_text(change, "text"));

	if (fd >= 0 && !setup_is_cgroup(path))
		return refuse_elsewhere(path, err);
	if (fd < 0 || write(fd, text, (size_t)length) != length)
		return setup_fail(err, "write", path);
	return 0;
}

static int apply_controller(const json_t *change, struct atoll_error *err)
{
	return write_controller(change, '+', err);
}

/* What a group has set when nobody has set anything. */
static const struct {
	const char *controller, *file, *value;
} defaults[] = {
	{"memory", "memory.max", "max\n"},    {"memory", "memory.high", "max\n"},
	{"memory", "memory.low", "0\n"},      {"memory", "memory.min", "0\n"},
	{"pids", "pids.max", "max\n"},	      {"cpu", "cpu.max", "max 100000\n"},
	{"cpu", "cpu.weight", "100\n"},	      {"io", "io.max", ""},
	{"io", "io.weight", "default 100\n"},
};

/* Has somebody set a limit of this controller in a group? It would silently be gone. */
static bool uses_controller(const char *group, const char *controller)
{
	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		cleanup_buf struct buf text = BUF_INIT(1 << 16);
		char path[PATH_MAX];

		snprintf(path, sizeof path, "%s/%s", group, defaults[i].file);
		if (streq(defaults[i].controller, controller) &&
		    setup_read(path, &text, NULL) == 0 &&
		    !streq(text.data ? text.data : "", defaults[i].value))
			return true;
	}
	return false;
}

static bool is_used_beneath(const char *control_path, const char *controller)
{
	char path[PATH_MAX];
	struct dirent *entry;
	bool is_used = false;
	DIR *dir;
	int length = (int)(strrchr(control_path, '/') - control_path);

	snprintf(path, sizeof path, "%.*s", length, control_path);
	dir = opendir(path);
	while (dir && !is_used && (entry = readdir(dir))) {
		snprintf(path, sizeof path, "%.*s/%s", length, control_path, entry->d_name);
		is_used = entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
			  uses_controller(path, controller);
	}
	if (dir)
		closedir(dir);
	return is_used;
}

static int undo_controller(const json_t *change, char *ret_reason, size_t size,
			   struct atoll_error *err)
{
	int state = check_controller(change, err);

	if (state != CHANGE_PRESENT)
		return state < 0 ? state : 0;
	/* A group beneath that hands it down further makes the kernel refuse. */
	state = is_used_beneath(change_text(change, "path"), change_text(change, "text"))
			? -EBUSY
			: write_controller(change, '-', err);
	if (state != -EBUSY)
		return state;
	snprintf(ret_reason, size, "other control groups use '%s' by now",
		 change_text(change, "text"));
	return 1;
}

const struct change_kind kind_controller = {
	.name = "controller",
	.is_shared = true,
	.is_volatile = true,
	.check = check_controller,
	.apply = apply_controller,
	.undo = undo_controller,
};
