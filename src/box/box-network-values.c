/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box-network-values.h"

#include "box/box-network.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/daemon-state.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * The values of a box's network: files that its contract names, in a directory of the box's own,
 * so that no row and no contract holds a secret. They go with the box.
 */

void secrets_path(const struct daemon_box *mine, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%.*s/secrets/%s", PATH_MAX - 64, mine->box.daemon->dir,
		 mine->box.id);
}

int network_rules(struct daemon_box *mine, const char *network, bool has_internet, char **ret,
		  struct atoll_error *err)
{
	char dir[PATH_MAX], path[PATH_MAX];
	int r = network ? daemon_subdir(mine->box.daemon, "secrets", dir, err) : 0;

	secrets_path(mine, path);
	if (r == 0)
		r = box_network_section(mine->box.tenant, network, has_internet,
					network ? path : NULL, ret, err);
	if (r == 0 && network)
		mine->has_secrets = true;
	return r;
}

void network_forget(struct daemon_box *mine)
{
	char path[PATH_MAX];

	if (!mine->has_secrets && !mine->box.network)
		return;
	secrets_path(mine, path);
	daemon_remove_dir(path);
}

bool box_has_secrets(const struct box *box)
{
	return inner(box)->has_secrets && !box->network;
}

void network_sweep(const struct daemon_box *mine, const char *rules, bool keeps)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	secrets_path(mine, path);
	dir = rules && (mine->has_secrets || mine->box.network) ? opendir(path) : NULL;
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == NETWORK_STAMP &&
		    (strstr(rules, entry->d_name) != NULL) != keeps)
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

void networks_tidy(struct daemon *daemon)
{
	char path[PATH_MAX], own[PATH_MAX + NAME_MAX + 2];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof path, "%.*s/secrets", PATH_MAX - 64, daemon->dir);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || box_find_any(daemon, entry->d_name))
			continue;
		snprintf(own, sizeof own, "%s/%s", path, entry->d_name);
		daemon_remove_dir(own);
	}
	if (dir)
		closedir(dir);
}
