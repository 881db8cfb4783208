/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/inner.h"
#include "spec/spec.h"
#include "spec/tree.h"

#include <errno.h>

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
	/* Its mode is ours: what is not a layer would be written to the home that all have. */
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

/* Maps key by key, one level deep if `depth` says so; all else as a whole. */
static void put_merged(struct buf *out, const struct tree *own, const struct tree *base, int depth)
{
	bool has_some = false;

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

static int merge(const struct tree *own, const struct tree *base, char **ret,
		 struct atoll_error *err)
{
	struct buf text = BUF_INIT(1 << 20);
	int r = 0;

	/* What is no map the loader refuses with better words. */
	for (size_t i = 0; r == 0 && own->kind == TREE_MAP && i < own->n_items; i++)
		r = check_section("contract", &own->items[i], err);
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

/* A name never leads to what is not public unless a line names the address, and so it is enough
 * that no line does. */
static int check_hosts(const char *contract, struct atoll_error *err)
{
	struct spec *spec = load(contract, err);
	int r = spec ? 0 : -EINVAL;

	for (size_t i = 0; r == 0 && i < spec->network.n_allow; i++) {
		const struct network_rule *rule = &spec->network.allow[i];

		if (rule->kind == NETWORK_LITERAL &&
		    !network_block_is_public(&rule->base, rule->prefix))
			r = error_set(err, ATOLL_FAULT_POLICY, 0,
				      "contract: network.allow: '%s' is not public: nothing in "
				      "this machine's own network can be reached",
				      rule->host);
	}
	spec_free(spec);
	return r;
}

int contract_merge(const char *own, const char *base, char **ret, struct atoll_error *err)
{
	cleanup_free char *text = NULL;
	struct tree *mine, *ours;
	int r = tree_read("contract", own, strlen(own), &mine, err);

	if (r < 0)
		return r;
	r = tree_read("base", base, strlen(base), &ours, err);
	if (r == 0) {
		r = merge(mine, ours, &text, err);
		tree_free(ours);
	}
	tree_free(mine);
	if (r == 0)
		r = check_hosts(text, err);
	if (r == 0)
		*ret = take_ptr(text);
	return r;
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
