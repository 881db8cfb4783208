/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "setup/setup.h"

#include <errno.h>
#include <limits.h>
#include <mntent.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A control group for root's runs, and the unit that brings everything back after a boot
 *
 * v2: a group "atoll" at the top that hands memory, pids, cpu and io down; controllers are switched
 * on at the top where they are off. v1: a group in the hierarchy of each. An ordinary user gains
 * nothing from them: the kernel lets a process into a group only if the user may also write the
 * nearest group above both, which is the top here. So they stay root's.
 */

static const char *const controllers[] = {"memory", "pids", "cpu", "io"};

static int want(struct setup *setup, const char *step, const struct change_kind *kind,
		const char *path, const char *text, struct atoll_error *err)
{
	if (json_array_append_new(setup->wanted, change_new(step, kind, path, text)) < 0)
		return error_oom(err);
	return 0;
}

static void note(struct setup *setup, const char *text)
{
	json_array_append_new(setup->notes, json_string(text));
}

/* Where v2 (NULL), or the v1 hierarchy of a controller, is mounted. */
static bool find_mount(const char *controller, char *ret, size_t size)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	const struct mntent *mount;
	bool found = false;

	while (mounts && !found && (mount = getmntent(mounts))) {
		char procs[PATH_MAX];

		/* Another mount may lie over it. */
		snprintf(procs, sizeof procs, "%s/cgroup.procs", mount->mnt_dir);
		found = streq(mount->mnt_type, controller ? "cgroup" : "cgroup2") &&
			(!controller || hasmntopt(mount, controller)) && access(procs, F_OK) == 0;
		if (found)
			snprintf(ret, size, "%s", mount->mnt_dir);
	}
	if (mounts)
		endmntent(mounts);
	return found;
}

static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = text; at && *at; at += strcspn(at, " \n"), at += strspn(at, " \n")) {
		if (strncmp(at, word, length) == 0 && strcspn(at, " \n") == length)
			return true;
	}
	return false;
}

static int plan_v2(struct setup *setup, const char *mount, const char *available,
		   struct atoll_error *err)
{
	char group[PATH_MAX], path[PATH_MAX + 64];
	int r = 0;

	snprintf(group, sizeof group, "%s/atoll", mount);
	for (int level = 0; r == 0 && level < 2; level++) {
		if (level == 1)
			r = want(setup, "groups", &kind_group, group, "", err);
		snprintf(path, sizeof path, "%s/cgroup.subtree_control", level ? group : mount);
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(controllers); i++) {
			if (has_word(available, controllers[i]))
				r = want(setup, "groups", &kind_controller, path, controllers[i],
					 err);
		}
	}
	return r;
}

static int plan_groups(struct setup *setup, struct atoll_error *err)
{
	cleanup_buf struct buf available = BUF_INIT(4096);
	char mount[PATH_MAX - 64], path[PATH_MAX];
	int found = 0, r = 0;

	if (find_mount(NULL, mount, sizeof mount)) {
		snprintf(path, sizeof path, "%s/cgroup.controllers", mount);
		if (setup_read(path, &available, NULL) == 0 && available.data &&
		    has_word(available.data, "memory") && has_word(available.data, "pids"))
			return plan_v2(setup, mount, available.data, err);
	}
	for (size_t i = 0; r == 0 && i < 3; i++) {
		if (!find_mount(controllers[i], mount, sizeof mount))
			continue;
		snprintf(path, sizeof path, "%s/atoll", mount);
		r = want(setup, "groups", &kind_group, path, "", err);
		found++;
	}
	if (!found)
		note(setup, "no control group: no hierarchy with memory and pids is mounted");
	return r;
}

const struct setup_step step_groups = {
	.name = "groups",
	.summary = "a control group with memory, pids, cpu and io for root's runs",
	.plan = plan_groups,
};

/* ---- after a boot ---- */

static const char unit_format[] = "# Made by 'atoll setup'; 'atoll setup --undo' removes it.\n"
				  "[Unit]\n"
				  "Description=Firewall table and control groups of atoll\n"
				  "Documentation=man:atoll-setup(1)\n"
				  "DefaultDependencies=no\n"
				  "# nftables.service may begin with 'flush ruleset'.\n"
				  "After=local-fs.target nftables.service\n"
				  "Wants=network-pre.target\n"
				  "Before=network-pre.target shutdown.target\n"
				  "Conflicts=shutdown.target\n"
				  "ConditionPathExists=" SETUP_DIR "/" SETUP_LEDGER "\n"
				  "\n"
				  "[Service]\n"
				  "Type=oneshot\n"
				  "RemainAfterExit=yes\n"
				  "ExecStart=\"%s\" --restore\n"
				  "\n"
				  "[Install]\n"
				  "WantedBy=sysinit.target\n";

/* systemd would run it as root: nobody else may be able to replace it, or a directory above. */
static bool is_safe(const char *program)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof path, "%s", program);
	for (char *slash = path + strlen(path); slash; slash = strrchr(path, '/')) {
		*slash = '\0';
		if (stat(path[0] ? path : "/", &st) < 0 || st.st_uid != 0 ||
		    (st.st_mode & 022 && !(S_ISDIR(st.st_mode) && st.st_mode & S_ISVTX)))
			return false;
	}
	return true;
}

static int plan_boot(struct setup *setup, struct atoll_error *err)
{
	char self[PATH_MAX], unit[PATH_MAX + sizeof unit_format];
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	int r;

	if (access("/run/systemd/system", F_OK) < 0) {
		note(setup, "no systemd here: run 'atoll setup --restore' at each boot");
		return 0;
	}
	if (length < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "find this program");
	self[length] = '\0';
	if (!is_safe(self) || strpbrk(self, "\"%$\\\n")) {
		note(setup, "no unit for the boot: others than root can write where this program "
			    "lies; install it, and set up from there");
		return 0;
	}
	snprintf(unit, sizeof unit, unit_format, self);
	r = want(setup, "boot", &kind_file, SETUP_UNITS "/" SETUP_UNIT, unit, err);
	if (r == 0)
		r = want(setup, "boot", &kind_directory, SETUP_WANTS, "", err);
	return r < 0 ? r
		     : want(setup, "boot", &kind_link, SETUP_WANTS "/" SETUP_UNIT,
			    SETUP_UNITS "/" SETUP_UNIT, err);
}

const struct setup_step step_boot = {
	.name = "boot",
	.summary = "a systemd unit that makes table and groups again after a boot",
	.plan = plan_boot,
};
