/* SPDX-License-Identifier: Apache-2.0 */
#include "floor.h"

#include "base/uapi.h"

#include <errno.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * One process does all of it, one step after the other, and becomes the command. Anything that
 * fails ends it with a line: a step that silently did nothing would make the floor too low.
 */

#define NAMESPACES                                                                                 \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
	 CLONE_NEWCGROUP)

static void need(long result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	_exit(2);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	need(fd, path);
	need(write(fd, text, strlen(text)), path);
	close(fd);
}

static void map_ids(uid_t uid, gid_t gid)
{
	char line[64];

	write_file("/proc/self/setgroups", "deny");
	snprintf(line, sizeof line, "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", line);
	snprintf(line, sizeof line, "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", line);
}

static int open_host(const char *path, uint64_t attributes)
{
	struct mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};
	int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	need(tree, path);
	need(mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr), path);
	return tree;
}

/* At the same place beneath the working directory. */
static void attach(int tree, const char *path)
{
	need(move_mount(tree, "", AT_FDCWD, path + 1, MOVE_MOUNT_F_EMPTY_PATH), path);
	close(tree);
}

static void make_dirs(const char *path)
{
	char part[PATH_MAX];

	snprintf(part, sizeof part, "%s/", path + 1);
	for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			need(-1, path);
		*slash = '/';
	}
}

static void place_system(void)
{
	static const char *const dirs[] = {"/usr", "/etc"};
	static const char *const links[] = {"/bin", "/sbin", "/lib", "/lib64"};

	for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
		make_dirs(dirs[i]);
		attach(open_host(dirs[i], MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV),
		       dirs[i]);
	}
	for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
		char target[PATH_MAX];
		ssize_t length = readlink(links[i], target, sizeof target - 1);

		if (length < 0)
			continue;
		target[length] = '\0';
		need(symlink(target, links[i] + 1), links[i]);
	}
}

static void place_devices(void)
{
	static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
					      "/dev/random", "/dev/urandom", "/dev/tty"};

	make_dirs("/dev");
	for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
		need(mknod(devices[i] + 1, S_IFREG | 0444, 0), devices[i]);
		attach(open_host(devices[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), devices[i]);
	}
}

static void build_root(const char *workspace)
{
	/* Now, for it may lie in /tmp. */
	int tree = open_host(workspace, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);

	need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
	need(mount("floor", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"), "tmpfs");
	need(chdir("/tmp"), "/tmp");
	place_system();
	place_devices();
	make_dirs("/proc");
	need(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/proc");
	make_dirs("/tmp");
	make_dirs(workspace);
	attach(tree, workspace);
	need(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	need(umount2(".", MNT_DETACH), "the host's root");
	need(chdir(workspace), workspace);
}

static void allow(int ruleset, uint64_t rights, const char *path)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = rights};

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	need(rule.parent_fd, path);
	need(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0), path);
	close(rule.parent_fd);
}

static void take_rights(const char *workspace)
{
	struct landlock_ruleset_attr attr = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
				     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
				     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
				     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
				     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM |
				     LANDLOCK_ACCESS_FS_REFER};
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);

	need(ruleset, "Landlock");
	allow(ruleset, attr.handled_access_fs, workspace);
	allow(ruleset, attr.handled_access_fs, "/tmp");
	allow(ruleset, LANDLOCK_ACCESS_FS_WRITE_FILE, "/dev");
	need(syscall(SYS_landlock_restrict_self, ruleset, 0), "restrict by Landlock");
	close(ruleset);
}

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

/* Of the calls that no sandbox should have, a few in each range of numbers. */
static void filter_calls(void)
{
	static const unsigned refused[] = {
		SYS_ptrace,	     SYS_mount,		 SYS_umount2,	   SYS_pivot_root,
		SYS_init_module,     SYS_add_key,	 SYS_keyctl,	   SYS_unshare,
		SYS_perf_event_open, SYS_setns,		 SYS_bpf,	   SYS_userfaultfd,
		SYS_open_tree,	     SYS_io_uring_setup, SYS_mount_setattr};
	enum {
		N = sizeof refused / sizeof refused[0]
	};
	struct sock_filter program[N + 6] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog prog = {.len = N + 6, .filter = program};

	for (unsigned i = 0; i < N; i++)
		program[4 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i],
							      (unsigned char)(N - i), 0);
	program[N + 4] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program[N + 5] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, REFUSE);
	need(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog), "seccomp");
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	need(syscall(SYS_capset, &header, none), "drop capabilities");
}

static _Noreturn void become(char *const argv[], uid_t uid, gid_t gid)
{
	extern char **environ;
	char workspace[PATH_MAX];

	if (!getcwd(workspace, sizeof workspace))
		need(-1, "the current directory");
	map_ids(uid, gid);
	build_root(workspace);
	need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	take_rights(workspace);
	filter_calls();
	drop_capabilities();
	execve(argv[0], argv, environ);
	need(-1, argv[0]);
	_exit(2);
}

int floor_run(char *const argv[])
{
	struct clone_args args = {.flags = NAMESPACES, .exit_signal = SIGCHLD};
	uid_t uid = geteuid();
	gid_t gid = getegid();
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	int status;

	if (pid == 0)
		become(argv, uid, gid);
	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}
