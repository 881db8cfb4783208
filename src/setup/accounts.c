/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "isolate/slots.h"
#include "setup/setup.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

/*
 * Two accounts without a login, one for each class of identities, and the blocks of host ids that
 * belong to them. The accounts own nothing; they give the classes a name in listings, and
 * /etc/subuid and /etc/subgid keep other tools from handing the same ids out.
 */

#define FILE_MAX (64 << 20)

/* The number in a field of the line that begins with "NAME:"; -1 where there is none. */
static long find_id(const char *text, const char *name, int field)
{
	size_t length = strlen(name);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		for (; field > 0 && line; field--) {
			line = strpbrk(line, ":\n");
			line = line && *line == ':' ? line + 1 : NULL;
		}
		return line ? strtol(line, NULL, 10) : -1;
	}
	return -1;
}

static bool is_free(uint32_t id, uint32_t other)
{
	/* There is one thread. */
	/* cppcheck-suppress [getpwuidCalled, getgrgidCalled] */
	return id != other && !getpwuid(id) && !getgrgid(id);
}

/* The ledger knows which ids we chose; otherwise what stands there, otherwise free ones. */
static int choose_ids(struct setup *setup, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX);
	json_t *key = change_new("accounts", &kind_lines, "/etc/passwd", "");
	const json_t *entry = ledger_find(&setup->ledger, key);
	int r = setup_read("/etc/passwd", &text, err);

	json_decref(key);
	if (r < 0)
		return r == -ENOENT ? error_set(err, ATOLL_FAULT_HOST, ENOENT, "open '/etc/passwd'")
				    : r;
	for (int i = 0; i < SLOTS_CLASSES; i++) {
		const char *name = slots_classes[i].account;
		long id = find_id(entry ? change_text(entry, "text") : text.data, name, 2);
		uint32_t other = i ? setup->ids[0] : 0;

		for (uint32_t try = SETUP_ID_MAX; id < 0 && try >= SETUP_ID_MIN; try--) {
			if (is_free(try, other))
				id = try;
		}
		if (id < 0)
			return error_set(err, ATOLL_FAULT_HOST, 0,
					 "no free system id below %d for the account '%s'",
					 SETUP_ID_MAX + 1, name);
		setup->ids[i] = (uint32_t)id;
	}
	return 0;
}

static int want(struct setup *setup, const char *step, const struct change_kind *kind,
		const char *path, const char *text, struct atoll_error *err)
{
	if (json_array_append_new(setup->wanted, change_new(step, kind, path, text)) < 0)
		return error_oom(err);
	return 0;
}

static int plan_accounts(struct setup *setup, struct atoll_error *err)
{
	static const struct {
		const char *path;
		const char *format; /* name, id */
		bool is_optional;   /* not every system keeps passwords apart */
	} files[] = {
		{"/etc/group", "%s:x:%u:\n", false},
		{"/etc/gshadow", "%s:!*::\n", true},
		{"/etc/passwd", "%1$s:x:%2$u:%2$u:atoll sandboxes:/nonexistent:%3$s\n", false},
		{"/etc/shadow", "%s:!*:::::::\n", true},
	};
	const char *shell = access("/usr/sbin/nologin", X_OK) == 0 ? "/usr/sbin/nologin"
			    : access("/sbin/nologin", X_OK) == 0   ? "/sbin/nologin"
								   : "/bin/false";
	int r = choose_ids(setup, err);

	if (r == 0)
		r = want(setup, "accounts", &kind_lock, SETUP_PWD_LOCK, "", err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++) {
		char text[512];
		size_t used = 0;

		if (files[i].is_optional && access(files[i].path, F_OK) < 0)
			continue;
		for (int class = 0; class < SLOTS_CLASSES; class ++)
		/* The formats are ours, above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
			used += (size_t)snprintf(text + used, sizeof text - used, files[i].format,
						 slots_classes[class].account, setup->ids[class],
						 shell);
#pragma GCC diagnostic pop
		r = want(setup, "accounts", &kind_lines, files[i].path, text, err);
	}
	return r;
}

/* Does somebody else's entry touch one of our blocks? Lines are NAME:FIRST:COUNT, or accounts with
 * one id in `field`. */
static int check_block(const char *path, int field, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX);
	int r = setup_read(path, &text, err);
	char *rest, *line;

	if (r < 0)
		return r == -ENOENT || r == -EACCES ? 0 : r;
	for (line = text.data ? strtok_r(text.data, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char name[64];
		long first, count = 1;

		snprintf(name, sizeof name, "%.*s", (int)strcspn(line, ":"), line);
		first = find_id(line, name, field);
		if (field == 1)
			count = find_id(line, name, 2);
		for (int i = 0; i < SLOTS_CLASSES; i++) {
			if (first < 0 || streq(name, slots_classes[i].account) ||
			    first + count <= (long)slots_classes[i].first ||
			    first >= (long)slots_classes[i].first + SLOTS_BLOCK)
				continue;
			return error_set(err, ATOLL_FAULT_HOST, EEXIST,
					 "%s gives ids from %ld on to '%s', and atoll uses %u to "
					 "%u; give that account others",
					 path, first, name, slots_classes[i].first,
					 slots_classes[i].first + SLOTS_BLOCK - 1);
		}
	}
	return 0;
}

static int plan_ids(struct setup *setup, struct atoll_error *err)
{
	static const struct {
		const char *path;
		int field;
	} files[] = {{"/etc/subuid", 1}, {"/etc/subgid", 1}, {"/etc/passwd", 2}, {"/etc/group", 2}};
	char text[256];
	size_t used = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = check_block(files[i].path, files[i].field, err);
	for (int class = 0; class < SLOTS_CLASSES; class ++)
		used += (size_t)snprintf(text + used, sizeof text - used, "%s:%u:%u\n",
					 slots_classes[class].account, slots_classes[class].first,
					 SLOTS_BLOCK);
	if (r == 0)
		r = want(setup, "ids", &kind_lines, "/etc/subuid", text, err);
	return r < 0 ? r : want(setup, "ids", &kind_lines, "/etc/subgid", text, err);
}

const struct setup_step step_accounts = {
	.name = "accounts",
	.summary = "an account without a login for each class of identities",
	.plan = plan_accounts,
};

const struct setup_step step_ids = {
	.name = "ids",
	.summary = "the blocks of host ids that no other tool may hand out",
	.plan = plan_ids,
};
