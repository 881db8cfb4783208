/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `network` section
 *
 * Of a job file, and of what egress gets, which has the same form: there every line brings its
 * origin along, and no secret its source. The shape has been looked at before (shape.c).
 */
#include "spec/document.h"
#include "spec/network-inner.h"

#include <stdio.h>

struct taker {
	struct network *network;
	struct spec *spec; /* NULL in egress */
	const char *name;
	char origin[192]; /* of the value at hand */
	struct atoll_error *err;
};

static const char *origin_of(struct taker *taker, const struct tree *tree)
{
	const struct tree *said = taker->spec ? NULL : tree_get(tree, "origin");

	if (said)
		return said->text;
	snprintf(taker->origin, sizeof taker->origin, "%s:%u", taker->name, tree->line);
	return taker->origin;
}

static int lacks(struct taker *taker, const struct tree *item, const char *what, const char *key)
{
	return error_set(taker->err, ATOLL_FAULT_REQUEST, 0, "%s: %s without '%s'; add it",
			 origin_of(taker, item), what, key);
}

static int take_limits(struct taker *taker, const struct tree *map, struct network_limits *limits)
{
	int r = 0;

	for (enum network_limit id = 0; r == 0 && id < NETWORK_LIMIT_COUNT; id++) {
		const struct tree *limit = tree_get(map, network_limits[id].key);

		if (limit)
			r = network_set_limit(limits, id, limit->text, origin_of(taker, limit),
					      taker->err);
	}
	return r;
}

static int take_lists(struct taker *taker, const struct tree *map, struct network_rule *rule)
{
	const struct tree *ports = tree_get(map, "ports"), *methods = tree_get(map, "methods"),
			  *paths = tree_get(map, "paths");
	int r = 0;

	for (size_t i = 0; r == 0 && ports && i < ports->n_items; i++)
		r = network_rule_add_port(rule, ports->items[i].text, strlen(ports->items[i].text),
					  origin_of(taker, &ports->items[i]), taker->err);
	for (size_t i = 0; r == 0 && methods && i < methods->n_items; i++)
		r = network_rule_add_method(rule, methods->items[i].text,
					    origin_of(taker, &methods->items[i]), taker->err);
	for (size_t i = 0; r == 0 && paths && i < paths->n_items; i++)
		r = network_rule_add_path(rule, paths->items[i].text,
					  origin_of(taker, &paths->items[i]), taker->err);
	return r;
}

static int fill_rule(struct taker *taker, const struct tree *item, bool is_deny,
		     struct network_rule *rule)
{
	const struct tree *host = tree_get(item, "host"), *tls = tree_get(item, "tls");
	int r;

	if (item->kind == TREE_TEXT)
		return network_rule_set_line(rule, item->text, is_deny, origin_of(taker, item),
					     taker->err);
	if (!host)
		return lacks(taker, item, is_deny ? "a line of 'deny'" : "a line of 'allow'",
			     "host");
	r = network_rule_set_host(rule, host->text, strlen(host->text), is_deny,
				  origin_of(taker, host), taker->err);
	if (r == 0)
		r = take_lists(taker, item, rule);
	if (r == 0 && tls)
		r = network_rule_set_tls(rule, tls->text, origin_of(taker, tls), taker->err);
	return r < 0 ? r : take_limits(taker, item, &rule->limits);
}

static int take_rules(struct taker *taker, const struct tree *list, bool is_deny)
{
	int r = 0;

	for (size_t i = 0; r == 0 && list && i < list->n_items; i++) {
		struct network_rule rule = NETWORK_RULE_INIT;

		r = fill_rule(taker, &list->items[i], is_deny, &rule);
		if (r == 0)
			r = network_add_rule(taker->network, is_deny, &rule,
					     origin_of(taker, &list->items[i]), taker->err);
		else
			network_rule_done(&rule);
	}
	return r;
}

/* Nothing in it is said, too: then nothing near is reached. */
static int take_near(struct taker *taker, const struct tree *list)
{
	int r = 0;

	if (list)
		taker->network->has_near = true;
	for (size_t i = 0; r == 0 && list && i < list->n_items; i++) {
		struct network_rule rule = NETWORK_RULE_INIT;

		r = fill_rule(taker, &list->items[i], true, &rule);
		if (r == 0)
			r = network_add_near(taker->network, &rule,
					     origin_of(taker, &list->items[i]), taker->err);
		else
			network_rule_done(&rule);
	}
	return r;
}

/* ---- secrets ---- */

struct source {
	enum network_source kind;
	char *from;
};

/* Never a path in the workspace: what lies there is the command's already. */
static int read_file_source(struct taker *taker, const char *path, const char *origin,
			    struct source *ret)
{
	if (path[0] != '/' && path[0] != '~')
		return error_set(taker->err, ATOLL_FAULT_REQUEST, 0,
				 "%s: the file '%s' of a secret must be an absolute path, or one "
				 "with ~/",
				 origin, shown_path(path));
	ret->kind = NETWORK_FROM_FILE;
	return place_resolve(taker->spec, path, SPEC_FROM_FILE, origin, &ret->from, taker->err);
}

static int read_source(struct taker *taker, const char *name, const char *text, const char *origin,
		       struct source *ret)
{
	const char *colon = strchr(text, ':'), *from = colon ? colon + 1 : "";
	int r;

	if (streq(text, "env") || (starts_with(text, "env:") && from[0])) {
		from = colon ? from : name;
		ret->kind = NETWORK_FROM_ENV;
		r = words_check_variable(from, "", origin, taker->err);
		return r < 0 ? r : spec_set_text(&ret->from, from, taker->err);
	}
	if (starts_with(text, "file:") && from[0])
		return read_file_source(taker, from, origin, ret);
	if (starts_with(text, "command:") && from[0]) {
		ret->kind = NETWORK_FROM_COMMAND;
		return spec_set_text(&ret->from, from, taker->err);
	}
	if (starts_with(text, "secret:") && from[0] &&
	    !from[strspn(from, "abcdefghijklmnopqrstuvwxyz0123456789-_.")]) {
		ret->kind = NETWORK_FROM_DAEMON;
		return spec_set_text(&ret->from, from, taker->err);
	}
	return error_set(taker->err, ATOLL_FAULT_REQUEST, 0,
			 "%s: a secret cannot be from '%s'; write env, env:NAME, file:PATH or "
			 "command:LINE",
			 origin, shown(text));
}

static bool is_true(const struct tree *tree);

static int take_secret(struct taker *taker, const struct tree *item)
{
	const struct tree *name = tree_get(item, "name"), *host = tree_get(item, "host"),
			  *header = tree_get(item, "header"), *from = tree_get(item, "from"),
			  *set = tree_get(item, "set");
	struct source source = {NETWORK_FROM_ENV, NULL};
	int r = 0;

	if (!name || !host)
		return lacks(taker, item, "a secret", name ? "host" : "name");
	if (taker->spec)
		r = read_source(taker, name->text, from ? from->text : "env",
				origin_of(taker, from ? from : item), &source);
	if (r == 0)
		r = network_add_secret(taker->network, name->text, host->text,
				       header ? header->text : NULL, source.kind, source.from,
				       origin_of(taker, item), taker->err);
	if (r == 0)
		taker->network->secrets[taker->network->n_secrets - 1].is_set = set && is_true(set);
	free(source.from);
	return r;
}

static int take_listen(struct taker *taker, const struct tree *item)
{
	const struct tree *port = item->kind == TREE_TEXT ? item : tree_get(item, "port"),
			  *host = tree_get(item, "host"), *names = tree_get(item, "names");
	int r;

	if (!port)
		return lacks(taker, item, "a line of 'listen'", "port");
	r = network_add_listen(taker->network, port->text, host ? host->text : NULL,
			       origin_of(taker, item), taker->err);
	for (size_t i = 0; r == 0 && names && i < names->n_items; i++)
		r = network_add_listen_name(taker->network, names->items[i].text,
					    strlen(names->items[i].text),
					    origin_of(taker, &names->items[i]), taker->err);
	return r;
}

static int take_each(struct taker *taker, const struct tree *list,
		     int (*take)(struct taker *taker, const struct tree *item))
{
	int r = 0;

	for (size_t i = 0; r == 0 && list && i < list->n_items; i++)
		r = take(taker, &list->items[i]);
	return r;
}

static int take_broad(struct taker *taker, const struct tree *item)
{
	const char *origin = origin_of(taker, item);

	if (item->text[0] != '*')
		return error_set(
			taker->err, ATOLL_FAULT_REQUEST, 0,
			"%s: '%s' is no wide pattern; write *.NAME or **.NAME as in 'allow'",
			origin, shown(item->text));
	return spec_put_broad(taker->spec, item->text, SPEC_FROM_FILE, origin, taker->err);
}

static bool is_true(const struct tree *tree)
{
	return tree->text[0] == 't' || tree->text[0] == 'T';
}

static int take_words(struct taker *taker, const struct tree *section)
{
	const struct tree *mode = section->kind == TREE_TEXT ? section : tree_get(section, "mode"),
			  *ask = tree_get(section, "ask"), *proxy = tree_get(section, "proxy"),
			  *upstream = tree_get(section, "upstream");
	int r = 0;

	if (mode)
		r = network_set_mode(taker->network, mode->text, origin_of(taker, mode),
				     taker->err);
	if (r == 0 && ask)
		r = network_set_ask(taker->network, is_true(ask), origin_of(taker, ask),
				    taker->err);
	if (proxy)
		taker->network->has_proxy_variables = is_true(proxy);
	if (r == 0 && upstream)
		r = network_set_upstream(taker->network, upstream->text, !taker->spec,
					 origin_of(taker, upstream), taker->err);
	return r;
}

static int take(struct taker *taker, const struct tree *section)
{
	int r = take_words(taker, section);

	if (r == 0)
		r = take_rules(taker, tree_get(section, "allow"), false);
	if (r == 0)
		r = take_rules(taker, tree_get(section, "deny"), true);
	if (r == 0)
		r = take_near(taker, tree_get(section, "near"));
	if (r == 0)
		r = take_limits(taker, section, &taker->network->limits);
	if (r == 0)
		r = take_each(taker, tree_get(section, "secrets"), take_secret);
	if (r == 0)
		r = take_each(taker, tree_get(section, "listen"), take_listen);
	if (r == 0 && taker->spec)
		r = take_each(taker, tree_get(section, "accept-broad"), take_broad);
	return r;
}

int network_load(struct spec *spec, const char *name, const struct tree *section,
		 struct atoll_error *err)
{
	return take(&(struct taker){&spec->network, spec, name, "", err}, section);
}

int network_load_wire(struct network *network, const struct tree *section, struct atoll_error *err)
{
	return take(&(struct taker){network, NULL, "network", "", err}, section);
}
