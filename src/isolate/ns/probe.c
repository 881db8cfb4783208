/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/ns/probe.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/uapi.h"
#include "isolate/ns/cell.h"
#include "isolate/ns/filter.h"
#include "spec/spec.h"

#include <errno.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

/*
 * Trying it out
 *
 * Every line of `atoll doctor` comes from doing the thing in a child process that then ends, never
 * from a version number. A try returns 0, or the errno of what failed.
 */

typedef int (*try_function)(void);

/* In a child, because most tries cannot be taken back. */
static int try_in_child(try_function try)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return errno;
	if (pid == 0)
		_exit(try());
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EPROTO;
}

static int write_self(const char *file, const char *text)
{
	char path[64];
	cleanup_fd int fd = -1;

	snprintf(path, sizeof path, "/proc/self/%s", file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, strlen(text)) < 0 ? errno : 0;
}

static int enter_user_namespace(int more)
{
	char line[64];
	unsigned uid = geteuid(), gid = getegid();
	int r;

	if (unshare(CLONE_NEWUSER | more) < 0)
		return errno;
	write_self("setgroups", "deny");
	snprintf(line, sizeof line, "%u %u 1", uid, uid);
	r = write_self("uid_map", line);
	snprintf(line, sizeof line, "%u %u 1", gid, gid);
	return r ? r : write_self("gid_map", line);
}

static int try_user_namespace(void)
{
	return enter_user_namespace(0);
}

static int try_all_namespaces(void)
{
	return enter_user_namespace(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
				    CLONE_NEWUTS | CLONE_NEWCGROUP);
}

static int enter_private_tmp(void)
{
	int r = enter_user_namespace(CLONE_NEWNS);

	if (r)
		return r;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("probe", "/tmp", "tmpfs", 0, NULL) < 0)
		return errno;
	return 0;
}

/* AppArmor may grant the namespace and no capability in it. */
static int try_namespaces(void)
{
	int r = enter_user_namespace(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
				     CLONE_NEWUTS | CLONE_NEWCGROUP);

	if (r)
		return r;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
			       mount("probe", "/tmp", "tmpfs", 0, NULL) < 0
		       ? errno
		       : 0;
}

int ns_try(void)
{
	return try_in_child(try_namespaces);
}

static int try_mounts(void)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	int fd, r = enter_private_tmp();

	if (r)
		return r;
	fd = open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0 ||
	    mkdir("/tmp/x", 0755) < 0 ||
	    move_mount(fd, "", AT_FDCWD, "/tmp/x", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return errno;
	/* See it hold. */
	if (mkdir("/tmp/x/atoll-probe", 0755) == 0 || errno != EROFS)
		return EPROTO;
	return 0;
}

static int try_overlay(void)
{
	int r = enter_private_tmp();

	if (r)
		return r;
	if (mkdir("/tmp/a", 0755) < 0 || mkdir("/tmp/b", 0755) < 0 || mkdir("/tmp/b/x", 0755) < 0 ||
	    mkdir("/tmp/m", 0755) < 0 || mknod("/tmp/a/x", S_IFCHR, makedev(0, 0)) < 0 ||
	    mount("overlay", "/tmp/m", "overlay", MS_RDONLY, "lowerdir=/tmp/a:/tmp/b,userxattr") <
		    0)
		return errno;
	return access("/tmp/m/x", F_OK) == 0 ? EPROTO : 0;
}

static int try_proc(void)
{
	int r = enter_user_namespace(CLONE_NEWNS | CLONE_NEWPID);
	pid_t pid;
	int status;

	if (r)
		return r;
	pid = fork();
	if (pid < 0)
		return errno;
	if (pid == 0) {
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
		_exit(mount("proc", "/proc", "proc", 0, NULL) < 0 ? errno : 0);
	}
	return waitpid(pid, &status, 0) < 0 ? errno : WEXITSTATUS(status);
}

/* See it hold: a connection to an address of nobody's arrives, and tells where it was going. */
static int try_network(void)
{
	struct sockaddr_in meant = {.sin_family = AF_INET, .sin_port = htons(443)};
	struct sockaddr_storage seen;
	socklen_t size = sizeof seen;
	int fds[2], client, got, r = enter_user_namespace(CLONE_NEWNET);
	bool has_v6;

	if (r)
		return r;
	r = net_make(fds, &has_v6, NULL);
	if (r < 0)
		return -r;
	meant.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 */
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (client < 0 ||
	    (connect(client, (struct sockaddr *)&meant, sizeof meant) < 0 && errno != EINPROGRESS))
		return errno;
	got = accept(fds[0], NULL, NULL);
	if (got < 0 || getsockname(got, (struct sockaddr *)&seen, &size) < 0 ||
	    ((struct sockaddr_in *)&seen)->sin_port != meant.sin_port)
		return EPROTO;
	return has_v6 ? 0 : EAFNOSUPPORT;
}

int ns_try_network(void)
{
	return try_in_child(try_network);
}

static int try_filter(void)
{
	static struct sock_filter program[FILTER_MAX];
	struct sock_fprog prog = {.filter = program};
	struct filter_options options = {0};

	prog.len = (unsigned short)filter_build(&options, program);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return errno;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog) <
	    0)
		return errno;
	/* See it hold. */
	return unshare(CLONE_NEWUSER) == 0 || errno != EPERM ? EPROTO : 0;
}

static int try_openat2(void)
{
	int fd = fd_openat2(AT_FDCWD, "/", O_PATH, 0, RESOLVE_NO_SYMLINKS);

	return fd < 0 ? -fd : 0;
}

static int try_pidfd(void)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	return pidfd < 0 || syscall(SYS_pidfd_getfd, pidfd, 0, 0) < 0 ? errno : 0;
}

static void add(struct backend_report *report, const char *what, bool is_needed, int errnum,
		const char *good, const char *fix)
{
	struct backend_finding *finding;

	if (report->n_findings == BACKEND_FINDINGS_MAX)
		return;
	finding = &report->findings[report->n_findings++];
	*finding = (struct backend_finding){
		.what = what, .is_needed = is_needed, .holds = errnum == 0, .fix = fix};
	if (errnum == EPROTO)
		snprintf(finding->result, sizeof finding->result, "accepted, but it does not hold");
	else if (errnum)
		snprintf(finding->result, sizeof finding->result, "%s", strerrordesc_np(errnum));
	else
		snprintf(finding->result, sizeof finding->result, "%s", good);
}

enum lack {
	LACK_PROCESSES,
	LACK_USER,   /* namespaces */
	LACK_OTHERS, /* that are made with them */
	LACK_MOUNT,  /* in them: a container's profile, or AppArmor, which grants no capability */
};

static enum lack find_lack(void)
{
	const int errnum = try_in_child(try_user_namespace);

	if (errnum == EAGAIN || errnum == ENOMEM)
		return LACK_PROCESSES;
	if (errnum)
		return LACK_USER;
	return try_in_child(try_all_namespaces) ? LACK_OTHERS : LACK_MOUNT;
}

const char *ns_lack(void)
{
	switch (find_lack()) {
	case LACK_PROCESSES:
		return "starts no more processes";
	case LACK_OTHERS:
		return "grants user namespaces, and not all others (mnt pid net ipc uts cgroup)";
	case LACK_MOUNT:
		return "grants user namespaces, and refuses mount(2) in them";
	case LACK_USER:
	default:
		return "grants no user namespaces";
	}
}

/* Which switch of the system forbids it. */
static const char *fix_for(enum lack lack)
{
	if (lack == LACK_PROCESSES)
		return "ulimit -u, or pids.max of the control group";
	if (access("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", F_OK) == 0)
		return "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or an "
		       "AppArmor profile for atoll that allows userns";
	if (lack == LACK_USER && access("/proc/sys/kernel/unprivileged_userns_clone", F_OK) == 0)
		return "sudo sysctl kernel.unprivileged_userns_clone=1";
	if (lack == LACK_OTHERS)
		return "sudo sysctl -w user.max_{mnt,pid,net,ipc,uts,cgroup}_namespaces=15000";
	if (lack == LACK_MOUNT)
		return "inside a container: run it with seccomp and AppArmor profiles that allow "
		       "mount in a user namespace";
	return "sudo sysctl user.max_user_namespaces=15000; inside a container: run it with a "
	       "seccomp "
	       "profile that allows unshare";
}

const char *ns_fix(void)
{
	return fix_for(find_lack());
}

static void probe_landlock(struct backend_report *report)
{
	static char good[64];
	int abi = landlock_abi();

	snprintf(good, sizeof good, "ABI %d", abi);
	add(report, "Landlock", true,
	    abi < 0   ? ENOSYS
	    : abi < 2 ? ENOTSUP
		      : 0,
	    good, "a kernel of 5.19 or later, booted with landlock in lsm=");
	add(report, "Landlock: signals, abstract sockets", false, abi < 6 ? ENOTSUP : 0, "yes",
	    "a kernel of 6.12 or later; until then namespaces alone do it");
}

static void probe_calls(struct backend_report *report)
{
	static char fix[128];
	const char *name = ns_missing_call(false);

	snprintf(fix, sizeof fix, "%s: Linux 5.19 or later, or a seccomp profile that allows it",
		 name ? name : "");
	add(report, "system calls", true, name ? ENOSYS : 0, "none is missing", fix);
}

/* A group is made and removed again, with the smallest of contracts. */
static void probe_cgroup(struct backend_report *report)
{
	struct ns_group group = {.main.fd = -1, .cpu.fd = -1, .v2_fd = -1};
	struct spec spec = {0};

	for (int id = 0; id < SPEC_LIMIT_COUNT; id++)
		spec.limits[id].value = id == SPEC_PIDS ? 1024 : 1 << 26;
	spec.limits[SPEC_CPUS].value = 500;
	cgroup_prepare(&group, &spec);
	add(report, "control group for memory", false, group.has_memory ? 0 : EACCES,
	    group.is_v2 ? "cgroup v2" : "cgroup v1 (entering it costs 5 to 25 ms)",
	    "log in through systemd with delegation, or run as root; until then memory is watched");
	add(report, "control group for CPUs", false, group.has_cpus ? 0 : EACCES,
	    group.is_v2 ? "cgroup v2" : "cgroup v1",
	    "as above; until then parts of a CPU are rounded up");
	cgroup_release(&group);
}

static void probe_network(struct backend_report *report)
{
	int errnum = ns_try_network();

	add(report, "a network by rules", false, errnum == EAFNOSUPPORT ? 0 : errnum,
	    errnum ? "nftables tproxy, IPv4 only" : "nftables tproxy, IPv4 and IPv6", NET_FIX);
}

int ns_probe(struct backend_report *report, struct atoll_error *err)
{
	const char *kernel = "a newer kernel (5.19 or later)", *fix = ns_fix();
	int mounts = try_in_child(try_mounts);
	bool is_refused = mounts == EPERM || mounts == EACCES;

	(void)err;
	add(report, "user namespaces", true, try_in_child(try_user_namespace), "yes", fix);
	add(report, "all namespaces together", true, try_in_child(try_all_namespaces),
	    "mnt pid net ipc uts cgroup", fix);
	add(report, "mounts by descriptor, read-only", true, mounts, "yes",
	    is_refused ? fix : kernel);
	add(report, "a /proc of its own", true, try_in_child(try_proc), "yes",
	    is_refused ? fix
		       : "inside a container: one whose /proc is not masked (podman --security-opt "
			 "unmask=ALL)");
	add(report, "layers that hide names", true, try_in_child(try_overlay),
	    "overlay with userxattr",
	    is_refused ? fix : "sudo modprobe overlay; a kernel of 5.11 or later");
	probe_landlock(report);
	add(report, "system call filter with a listener", true, try_in_child(try_filter), "yes",
	    "a kernel with CONFIG_SECCOMP_FILTER, 5.14 or later");
	probe_calls(report);
	add(report, "openat2", true, try_in_child(try_openat2), "yes", kernel);
	add(report, "pidfd_getfd", true, try_in_child(try_pidfd), "yes", kernel);
	probe_network(report);
	probe_cgroup(report);
	return 0;
}
