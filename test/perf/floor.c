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
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
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

#ifndef SYS_open
#define SYS_open   SYS_openat
#define SYS_unlink SYS_unlinkat
#endif

/* Opening, executing, removing: what a log of a run has to see. Returns where they are seen. */
static int show_calls(void)
{
	static const unsigned shown[] = {SYS_open, SYS_openat, SYS_execve, SYS_unlink};
	enum {
		N = sizeof shown / sizeof shown[0]
	};
	struct sock_filter program[N + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog prog = {.len = N + 3, .filter = program};
	int fd;

	for (unsigned i = 0; i < N; i++)
		program[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, shown[i],
							      (unsigned char)(N - i), 0);
	program[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &prog);
	need(fd, "a listener");
	return fd;
}

/* By hand, though there is base/fd.c: it would bring what it is made of (buffers that grow, its way
 * of failing) into the program whose start is the measure of all others. */
union rights {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static void send_fd(int to, int fd)
{
	union rights rights = {.head = {.cmsg_level = SOL_SOCKET,
					.cmsg_type = SCM_RIGHTS,
					.cmsg_len = CMSG_LEN(sizeof fd)}};
	char text = 0;
	struct iovec byte = {.iov_base = &text, .iov_len = 1};
	struct msghdr message = {.msg_iov = &byte,
				 .msg_iovlen = 1,
				 .msg_control = &rights,
				 .msg_controllen = sizeof rights};

	memcpy(CMSG_DATA(&rights.head), &fd, sizeof fd);
	need(sendmsg(to, &message, 0), "send the listener");
}

static int receive_fd(int from)
{
	union rights rights;
	char text;
	struct iovec byte = {.iov_base = &text, .iov_len = 1};
	struct msghdr message = {.msg_iov = &byte,
				 .msg_iovlen = 1,
				 .msg_control = &rights,
				 .msg_controllen = sizeof rights};
	int fd;

	if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) != 1 || message.msg_controllen == 0)
		return -1;
	memcpy(&fd, CMSG_DATA(&rights.head), sizeof fd);
	return fd;
}

/* Looks at the path of each call, as anybody has to who wants to tell of it, and lets it go on. */
static void look(int listener)
{
	union {
		struct seccomp_notif call;
		char room[256];
	} seen;
	char path[256];

	ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	for (;;) {
		struct seccomp_notif_resp go = {.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
		struct iovec here = {.iov_base = path, .iov_len = sizeof path}, there;
		bool is_at;

		memset(&seen, 0, sizeof seen);
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &seen) < 0) {
			if (errno == EINTR)
				continue;
			return; /* nobody is left */
		}
		is_at = seen.call.data.nr == SYS_openat;
		there.iov_base = (void *)(uintptr_t)seen.call.data.args[is_at]; // NOLINT
		there.iov_len = 256 - ((uintptr_t)there.iov_base & 255);	// on one page
		process_vm_readv((pid_t)seen.call.pid, &here, 1, &there, 1, 0);
		go.id = seen.call.id;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &go);
	}
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	need(syscall(SYS_capset, &header, none), "drop capabilities");
}

static _Noreturn void become(char *const argv[], uid_t uid, gid_t gid, int to)
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
	if (to >= 0)
		send_fd(to, show_calls());
	execve(argv[0], argv, environ);
	need(-1, argv[0]);
	_exit(2);
}

int floor_run(char *const argv[], bool is_seen)
{
	struct clone_args args = {.flags = NAMESPACES, .exit_signal = SIGCHLD};
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int pair[2] = {-1, -1}, status, listener = -1;
	pid_t pid;

	if (is_seen && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (pid == 0)
		become(argv, uid, gid, pair[1]);
	if (is_seen) {
		close(pair[1]);
		listener = pid > 0 ? receive_fd(pair[0]) : -1;
		close(pair[0]);
	}
	if (pid < 0)
		return -1;
	if (listener >= 0) {
		look(listener);
		close(listener);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}
