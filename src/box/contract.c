/* SPDX-License-Identifier: Apache-2.0 */
#include "box/contract.h"

#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/config-grants.h"
#include "box/config.h"
#include "box/daemon-state.h"
#include "box/host-addresses.h"
#include "box/secret.h"
#include "spec/document.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>

/*
 * What a tenant may say in a contract of his own
 *
 * A job file can name any place of the host's, its sockets, the caller's variables and commands
 * that fetch secrets. All of that would be the daemon's own here, and other tenants'. So only what
 * is in this list is taken; the workspace is the box's own, or a directory that the configuration
 * grants him; secrets are those that he has stored. What is new in job files is not known here, and
 * is refused until somebody has thought about it.
 */

static const struct {
	const char *section;
	const char *const *keys; /* NULL: all of it */
} allowed[] = {
	{"version", NULL},
	{"command", NULL},
	/* Its mode is ours: what is not a layer would be written to the home that all have, or to a
	 * granted directory before anybody has looked. */
	{"workspace", (const char *const[]){"cwd", "at", NULL}},
	{"users", NULL},
	{"guest", NULL},
	{"checkpoints", NULL},
	{"root", NULL},
	{"filesystem", (const char *const[]){"hide", "protect", NULL}},
	{"network", (const char *const[]){"mode", "allow", "deny", "ask", "rate", "bytes",
					  "connections", "requests", "proxy", NULL}},
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

/* Words that stand for a section with this key. */
static const char *short_for(const struct tree *section)
{
	if (section->kind != TREE_TEXT || !section->key)
		return NULL;
	return streq(section->key, "workspace") ? "path"
	       : streq(section->key, "network") ? "mode"
						: NULL;
}

static int check_workspace(const char *name, const struct tree *path,
			   const struct config_tenant *grants, struct atoll_error *err)
{
	char shown[160];

	if (path->kind == TREE_TEXT && config_has_workspace(grants, path->text))
		return 0;
	return error_set(err, ATOLL_FAULT_POLICY, 0,
			 "%s:%u: '%s' is no workspace of this tenant's: 'workspaces' of the "
			 "daemon's configuration lists those, by their whole paths",
			 name, path->key_line,
			 path->kind == TREE_TEXT ? str_show(path->text, shown, sizeof shown)
						 : "workspace.path");
}

/* A value comes from what the tenant has stored, and from nowhere else. */
static int check_secrets(const char *name, const struct tree *secrets, struct atoll_error *err)
{
	for (size_t i = 0; i < secrets->n_items; i++) {
		const struct tree *from = tree_get(&secrets->items[i], "from");

		if (!from || from->kind != TREE_TEXT || !starts_with(from->text, SECRET_FROM) ||
		    !secret_is_name(from->text + strlen(SECRET_FROM)))
			return error_set(err, ATOLL_FAULT_POLICY, 0,
					 "%s:%u: 'network.secrets' takes values from '" SECRET_FROM
					 "NAME' alone here: those that the tenant has stored (PUT "
					 "/v1/secrets/NAME)",
					 name, secrets->items[i].line);
	}
	return 0;
}

/*
 * What a tenant may hide and protect. Each line is asked about each name of a tree that is looked
 * through at a start, and a pattern has trees looked through: those of the workspace are the
 * tenant's own, and the machine's would cost seconds of everybody's time for nothing that is his.
 */
#define LINES_MAX    256
#define PATTERNS_MAX 32

static bool is_pattern(const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' && text[1])
			text++;
		else if (strchr("*?[", *text))
			return true;
	}
	return false;
}

/* Does it stay in the workspace, which it is counted from? */
static bool is_own(const char *text)
{
	if (text[0] == '/' || text[0] == '~')
		return false;
	for (const char *at = text; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL) {
		if (starts_with(at, "..") && (!at[2] || at[2] == '/'))
			return false;
	}
	return true;
}

static int check_places(const char *name, const struct tree *list, struct atoll_error *err)
{
	size_t n_patterns = 0;
	char shown[160];

	if (list->n_items > LINES_MAX)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "%s:%u: 'filesystem.%s' has %zu lines: a tenant's contract may "
				 "have %d",
				 name, list->key_line, list->key, list->n_items, LINES_MAX);
	for (size_t i = 0; i < list->n_items; i++) {
		const struct tree *item = &list->items[i];

		if (item->kind != TREE_TEXT || !is_pattern(item->text))
			continue;
		if (!is_own(item->text))
			return error_set(
				err, ATOLL_FAULT_POLICY, 0,
				"%s:%u: 'filesystem.%s': the pattern '%s' reaches out of the "
				"workspace: a tenant's are counted from there, as in "
				"'src/**/*.key'",
				name, item->line, list->key,
				str_show(item->text, shown, sizeof shown));
		if (++n_patterns > PATTERNS_MAX)
			return error_set(err, ATOLL_FAULT_POLICY, 0,
					 "%s:%u: 'filesystem.%s' has more than %d patterns: write "
					 "fewer, such as 'secrets/**' for many",
					 name, item->line, list->key, PATTERNS_MAX);
	}
	return 0;
}

static int check_key(const char *name, const struct tree *section, const struct tree *item,
		     const char *const *keys, const struct config_tenant *grants,
		     struct atoll_error *err)
{
	if (is_among(item->key, keys))
		return streq(section->key, "filesystem") ? check_places(name, item, err) : 0;
	if (streq(section->key, "workspace") && streq(item->key, "path"))
		return check_workspace(name, item, grants, err);
	if (streq(section->key, "network") && streq(item->key, "secrets"))
		return check_secrets(name, item, err);
	return refuse(name, item, section->key, err);
}

static int check_section(const char *name, const struct tree *section,
			 const struct config_tenant *grants, struct atoll_error *err)
{
	int r = 0;
	size_t i = 0;

	while (i < ARRAY_SIZE(allowed) && !streq(allowed[i].section, section->key))
		i++;
	if (i == ARRAY_SIZE(allowed))
		return refuse(name, section, NULL, err);
	if (!allowed[i].keys)
		return 0;
	if (section->kind == TREE_TEXT && streq(section->key, "workspace"))
		return check_workspace(name, section, grants, err);
	for (size_t k = 0; r == 0 && section->kind == TREE_MAP && k < section->n_items; k++)
		r = check_key(name, section, &section->items[k], allowed[i].keys, grants, err);
	return r;
}

/* ---- one over the other ---- */

static void put_tree(struct buf *out, const struct tree *tree)
{
	const char bracket = tree->kind == TREE_MAP ? '{' : '[';

	if (tree->kind == TREE_TEXT) {
		/* What YAML takes for a number stays one. */
		if (tree->type == TREE_STRING || tree->type == TREE_DISPUTED)
			json_quote(out, tree->text, strlen(tree->text));
		else
			buf_add_str(out, tree->type == TREE_NULL ? "null" : tree->text);
		return;
	}
	buf_add_char(out, bracket);
	for (size_t i = 0; i < tree->n_items; i++) {
		if (i)
			buf_add_char(out, ',');
		if (tree->kind == TREE_MAP) {
			json_quote(out, tree->items[i].key, strlen(tree->items[i].key));
			buf_add_char(out, ':');
		}
		put_tree(out, &tree->items[i]);
	}
	buf_add_char(out, bracket == '{' ? '}' : ']');
}

/* A word instead of a section says one thing; the rest is as in `base`. */
static void put_short(struct buf *out, const struct tree *own, const struct tree *base)
{
	buf_add_char(out, '{');
	for (size_t i = 0; i < base->n_items; i++) {
		if (streq(base->items[i].key, short_for(own)))
			continue;
		json_quote(out, base->items[i].key, strlen(base->items[i].key));
		buf_add_char(out, ':');
		put_tree(out, &base->items[i]);
		buf_add_char(out, ',');
	}
	json_quote(out, short_for(own), strlen(short_for(own)));
	buf_add_char(out, ':');
	json_quote(out, own->text, strlen(own->text));
	buf_add_char(out, '}');
}

/* Maps key by key, one level deep if `depth` says so; all else as a whole. */
static void put_merged(struct buf *out, const struct tree *own, const struct tree *base, int depth)
{
	bool has_some = false;

	if (own && base && base->kind == TREE_MAP && short_for(own)) {
		put_short(out, own, base);
		return;
	}
	if (!own || !base || own->kind != TREE_MAP || base->kind != TREE_MAP || depth == 0) {
		put_tree(out, own ? own : base);
		return;
	}
	buf_add_char(out, '{');
	for (size_t i = 0; i < base->n_items + own->n_items; i++) {
		const struct tree *item =
			i < base->n_items ? &base->items[i] : &own->items[i - base->n_items];

		if (i >= base->n_items && tree_get(base, item->key))
			continue;
		if (has_some)
			buf_add_char(out, ',');
		has_some = true;
		json_quote(out, item->key, strlen(item->key));
		buf_add_char(out, ':');
		put_merged(out, tree_get(own, item->key), tree_get(base, item->key), depth - 1);
	}
	buf_add_char(out, '}');
}

static int merge(const struct tree *own, const struct tree *base,
		 const struct config_tenant *grants, char **ret, struct atoll_error *err)
{
	struct buf text = BUF_INIT(1 << 20);
	int r = 0;

	/* What is no map the loader refuses with better words. */
	for (size_t i = 0; r == 0 && grants && own->kind == TREE_MAP && i < own->n_items; i++)
		r = check_section("contract", &own->items[i], grants, err);
	if (r < 0)
		return r;
	put_merged(&text, own, base, 2);
	*ret = buf_take(&text);
	return *ret ? 0 : error_oom(err);
}

/* ---- what it comes to ---- */

static struct spec *load(const char *contract, struct atoll_error *err)
{
	struct spec *spec = spec_new("/", "/", err);

	if (spec && spec_load(spec, "contract", NULL, contract, strlen(contract), err) < 0) {
		spec_free(spec);
		return NULL;
	}
	return spec;
}

/* Does the operator let this line count, all of it? */
static bool is_granted(const struct network *network, const struct network_rule *rule)
{
	for (size_t i = 0; i < network->n_near; i++) {
		const struct network_rule *near = &network->near[i];
		bool has_all = near->prefix <= rule->prefix &&
			       network_block_has(&near->base, near->prefix, &rule->base);

		for (size_t k = 0; has_all && network_rule_port(rule, k); k++)
			has_all = network_rule_has_port(near, true, network_rule_port(rule, k));
		if (has_all)
			return true;
	}
	return false;
}

/* That nothing near is reached is kept by egress, when it connects (`near`); what a line says
 * openly is told at once. */
static int check_hosts(const char *contract, struct atoll_error *err)
{
	struct spec *spec = load(contract, err);
	int r = spec ? 0 : -EINVAL;

	for (size_t i = 0; r == 0 && i < spec->network.n_allow; i++) {
		const struct network_rule *rule = &spec->network.allow[i];
		bool is_public = network_block_is_public(&rule->base, rule->prefix);

		if (rule->kind != NETWORK_LITERAL || is_granted(&spec->network, rule))
			continue;
		if (!is_public || (rule->prefix == 128 && box_host_has(&rule->base)))
			r = error_set(err, ATOLL_FAULT_POLICY, 0,
				      "contract: network.allow: '%s' is %s: nothing in this "
				      "machine's own network can be reached",
				      rule->host, is_public ? "this machine's own" : "not public");
	}
	if (r == 0 && (network_is_on(&spec->network) || spec->network.n_allow > 0) &&
	    !spec->network.has_near)
		r = error_set(err, ATOLL_FAULT_BUG, 0, "contract: 'near' has been lost");
	spec_free(spec);
	return r;
}

/* To read it takes milliseconds of everybody's time. */
#define CONTRACT_MOST (64U << 10)

int contract_merge(const char *own, const char *base, const struct config_tenant *grants,
		   char **ret, struct atoll_error *err)
{
	cleanup_free char *text = NULL;
	struct tree *mine, *ours;
	int r;

	if (grants && strlen(own) > CONTRACT_MOST)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "contract: a tenant's has at most %u KiB", CONTRACT_MOST >> 10);
	r = tree_read("contract", own, strlen(own), &mine, err);
	if (r < 0)
		return r;
	r = tree_read("base", base, strlen(base), &ours, err);
	if (r == 0) {
		r = merge(mine, ours, grants, &text, err);
		tree_free(ours);
	}
	tree_free(mine);
	if (r == 0 && grants)
		r = check_hosts(text, err);
	if (r == 0)
		*ret = take_ptr(text);
	return r;
}

int contract_workspace(const char *contract, char ret[PATH_MAX], struct atoll_error *err)
{
	struct tree *tree;
	const struct tree *path;
	int r = tree_read("contract", contract, strlen(contract), &tree, err);

	if (r < 0)
		return r;
	path = tree_get(tree_get(tree, "workspace"), "path");
	if (path)
		snprintf(ret, PATH_MAX, "%s", path->text);
	tree_free(tree);
	return 0;
}

static uint32_t whole(const struct spec *spec, enum spec_limit_id id, uint64_t unit)
{
	uint64_t value = spec->limits[id].value, n = value / unit + (value % unit > 0);

	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

int contract_sizes(const char *contract, struct box_sizes *ret, struct atoll_error *err)
{
	struct spec *spec = load(contract, err);

	if (!spec)
		return -EINVAL;
	*ret = (struct box_sizes){
		.cpus = whole(spec, SPEC_CPUS, 1000),
		.memory_mib = whole(spec, SPEC_MEMORY, 1 << 20),
		.disk_mib = whole(spec, SPEC_DISK, 1 << 20),
		.pids = whole(spec, SPEC_PIDS, 1),
		.files = whole(spec, SPEC_FILES, 1),
	};
	spec_free(spec);
	return 0;
}
