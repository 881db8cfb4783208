/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "isolate/slots.h"
#include "setup/setup.h"

#include <stdlib.h>
#include <string.h>

/*
 * What may stand in the ledger
 *
 * Root makes again, and takes back, whatever is entered there: a directory is removed, lines leave
 * /etc/shadow. So ledger.c refuses an entry that no step makes: each kind has its places, and lines
 * of accounts have our names and ids of the system's range. Whatever an entry says then, all that
 * can be lost are things that bear our name.
 */

#define CGROUP_END "/atoll"
#define SWITCH_END "/cgroup.subtree_control"

static bool is_among(const char *word, const char *const *words)
{
	while (*words && !streq(*words, word))
		words++;
	return *words;
}

/* The id in the third field of a line of accounts, which no system gives to root or a person. */
static bool has_system_id(const char *line)
{
	const char *at = strchr(line, ':');
	char *end;
	long id;

	at = at ? strchr(at + 1, ':') : NULL;
	id = at ? strtol(at + 1, &end, 10) : -1;
	return at && end != at + 1 && *end == ':' && id >= SETUP_ID_MIN && id <= SETUP_ID_MAX;
}

/* Lines of our accounts, and at least one. */
static bool are_lines(const char *text, bool has_ids)
{
	for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
		bool is_ours = false;

		for (int i = 0; i < SLOTS_CLASSES; i++) {
			const char *name = slots_classes[i].account;

			is_ours = is_ours || (starts_with(line, name) && line[strlen(name)] == ':');
		}
		if (!is_ours || !strchr(line, '\n') || (has_ids && !has_system_id(line)))
			return false;
	}
	return text[0];
}

static bool is_line_file(const char *path, const char *text)
{
	static const char *const plain[] = {"/etc/gshadow", "/etc/shadow", "/etc/subuid",
					    "/etc/subgid", NULL};

	if (streq(path, "/etc/passwd") || streq(path, "/etc/group"))
		return are_lines(text, true);
	return is_among(path, plain) && are_lines(text, false);
}

/* Somewhere in a mount of control groups, and no way up: kinds.c asks the kernel besides. */
static bool is_group_path(const char *path, const char *end)
{
	return path[0] == '/' && ends_with(path, end) && !strstr(path, "/../") &&
	       !strstr(path, "/./");
}

/* The ids that its rules are about. */
static bool is_table_text(const char *text)
{
	unsigned ids[2];
	int used = 0;

	if (sscanf(text, "offline %u, online %u%n", &ids[0], &ids[1], &used) != 2 || text[used])
		return false;
	return ids[0] >= SETUP_ID_MIN && ids[0] <= SETUP_ID_MAX && ids[1] >= SETUP_ID_MIN &&
	       ids[1] <= SETUP_ID_MAX;
}

bool entry_is_ours(const json_t *change)
{
	static const char *const controllers[] = {"memory", "pids", "cpu", "io", NULL};
	const struct change_kind *kind = change_kind(change);
	const char *path = change_text(change, "path"), *text = change_text(change, "text");

	if (!json_is_object(change) || !kind)
		return false;
	if (kind == &kind_lines)
		return is_line_file(path, text);
	if (kind == &kind_file)
		return streq(path, SETUP_UNITS "/" SETUP_UNIT);
	if (kind == &kind_link)
		return streq(path, SETUP_WANTS "/" SETUP_UNIT);
	if (kind == &kind_directory)
		return streq(path, SETUP_WANTS);
	if (kind == &kind_lock)
		return streq(path, SETUP_PWD_LOCK);
	if (kind == &kind_table)
		return streq(path, SETUP_TABLE) && is_table_text(text);
	if (kind == &kind_group)
		return is_group_path(path, CGROUP_END);
	return kind == &kind_controller && is_group_path(path, SWITCH_END) &&
	       is_among(text, controllers);
}
