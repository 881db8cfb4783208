/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/inner.h"
#include "spec/tree.h"

/*
 * What a tenant may say in a contract of his own
 *
 * A job file can name any place of the host's, its sockets, the caller's variables and commands
 * that fetch secrets. All of that would be the daemon's own here, and other tenants'. So only what
 * is in this list is taken; the workspace is the box's own. What is new in job files is not known
 * here, and is refused until somebody has thought about it.
 */

static const struct {
	const char *section;
	const char *const *keys; /* NULL: all of it */
} allowed[] = {
	{"version", NULL},
	{"command", NULL},
	{"workspace", (const char *const[]){"mode", "cwd", NULL}},
	{"checkpoints", NULL},
	{"root", NULL},
	{"filesystem", (const char *const[]){"hide", "protect", NULL}},
	{"network", (const char *const[]){"mode", "allow", "deny", "rate", "bytes", "connections",
					  "requests", "proxy", NULL}},
	{"limits", NULL},
	{"environment", (const char *const[]){"set", NULL}},
	{"audit", (const char *const[]){"record", "output", NULL}},
};

static bool is_among(const char *word, const char *const *words)
{
	while (*words && !streq(*words, word))
		words++;
	return *words;
}

static int refuse(const char *name, const struct tree *tree, const char *section,
		  struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "%s:%u: '%s%s%s' is for contracts of the machine's owner, not for those "
			 "that come over the network",
			 name, tree->key_line, section ? section : "", section ? "." : "",
			 tree->key);
}

static int check_section(const char *name, const struct tree *section, struct atoll_error *err)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(allowed) && !streq(allowed[i].section, section->key))
		i++;
	if (i == ARRAY_SIZE(allowed))
		return refuse(name, section, NULL, err);
	if (!allowed[i].keys)
		return 0;
	/* `workspace: PATH` is short for its path. */
	if (section->kind != TREE_MAP && streq(section->key, "workspace"))
		return refuse(name, section, NULL, err);
	for (size_t k = 0; section->kind == TREE_MAP && k < section->n_items; k++) {
		if (!is_among(section->items[k].key, allowed[i].keys))
			return refuse(name, &section->items[k], section->key, err);
	}
	return 0;
}

int contract_check(const char *name, const char *text, struct atoll_error *err)
{
	struct tree *tree;
	int r = tree_read(name, text, strlen(text), &tree, err);

	if (r < 0)
		return r;
	/* What is no map the loader refuses with better words. */
	for (size_t i = 0; r == 0 && tree->kind == TREE_MAP && i < tree->n_items; i++)
		r = check_section(name, &tree->items[i], err);
	tree_free(tree);
	return r;
}
