/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "egress/core.h"
#include "spec/document.h"

#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>

/*
 * The configuration
 *
 * JSON, read by the reader of contracts: what it does not know is an error. The part `network` is
 * cut out as text, because that has a reader of its own.
 */

static int bad(struct atoll_error *err, const char *what)
{
	return error_set(err, ATOLL_FAULT_BUG, 0, "configuration of egress: %s", what);
}

/* ---- the text of one part ---- */

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
		at++;
	return at;
}

static const char *skip_string(const char *at, const char *end)
{
	for (at++; at < end && *at != '"'; at++)
		if (*at == '\\')
			at++;
	return at < end ? at + 1 : NULL;
}

/* Behind a value. Whether it is JSON is checked by those who read it. */
static const char *skip_value(const char *at, const char *end)
{
	int depth = 0;

	do {
		at = skip_blanks(at, end);
		if (at >= end)
			return NULL;
		if (*at == '"') {
			at = skip_string(at, end);
			if (!at)
				return NULL;
			continue;
		}
		if (*at == '{' || *at == '[')
			depth++;
		else if (*at == '}' || *at == ']')
			depth--;
		else if (depth == 0)
			while (at + 1 < end && !strchr(",}] \t\r\n", at[1]))
				at++;
		at++;
	} while (depth > 0);
	return at;
}

static const char *find_part(const char *text, size_t size, const char *key, size_t *ret_size)
{
	const char *at = text, *end = text + size;

	at = skip_blanks(at, end);
	if (at >= end || *at++ != '{')
		return NULL;
	for (;;) {
		const char *name, *name_end, *value;

		name = skip_blanks(at, end);
		if (name >= end || *name != '"')
			return NULL;
		name_end = skip_string(name, end);
		value = name_end ? skip_blanks(name_end, end) : end;
		if (value >= end || *value != ':')
			return NULL;
		value = skip_blanks(value + 1, end);
		at = skip_value(value, end);
		if (!at)
			return NULL;
		if ((size_t)(name_end - name) == strlen(key) + 2 &&
		    memcmp(name + 1, key, strlen(key)) == 0) {
			*ret_size = (size_t)(at - value);
			return value;
		}
		at = skip_blanks(at, end);
		if (at >= end || *at++ != ',')
			return NULL;
	}
}

/* ---- values ---- */

static int take_text(const struct tree *value, char **ret, struct atoll_error *err)
{
	if (value->kind != TREE_TEXT || value->type != TREE_STRING)
		return bad(err, "a text is wanted");
	*ret = strdup(value->text);
	return *ret ? 0 : error_oom(err);
}

static int take_id(const struct tree *value, unsigned *ret, struct atoll_error *err)
{
	unsigned long long id;
	char *end;

	if (value->kind != TREE_TEXT || value->type != TREE_INTEGER)
		return bad(err, "an id is wanted");
	errno = 0;
	id = strtoull(value->text, &end, 10);
	if (errno || *end || value->text[0] == '-' || id >= UINT_MAX)
		return bad(err, "an id is out of range");
	*ret = (unsigned)id;
	return 0;
}

static int take_truth(const struct tree *value, bool *ret, struct atoll_error *err)
{
	if (value->kind != TREE_TEXT || value->type != TREE_BOOL)
		return bad(err, "true or false is wanted");
	*ret = streq(value->text, "true");
	return 0;
}

static int take_own(const struct tree *list, struct config *config, struct atoll_error *err)
{
	if (list->kind != TREE_LIST)
		return bad(err, "own is a list");
	config->own = calloc(list->n_items + 1, sizeof *config->own);
	if (!config->own)
		return error_oom(err);
	for (size_t i = 0; i < list->n_items; i++) {
		const struct tree *item = &list->items[i];

		if (item->kind != TREE_TEXT ||
		    network_address(item->text, strlen(item->text), &config->own[i]) < 0)
			return bad(err, "own has something that is no address");
		config->n_own++;
	}
	return 0;
}

static int take_secrets(const struct tree *list, struct config *config, struct atoll_error *err)
{
	if (list->kind != TREE_LIST)
		return bad(err, "secrets is a list");
	config->placeholders = calloc(list->n_items + 1, sizeof(char *));
	config->values = calloc(list->n_items + 1, sizeof(char *));
	if (!config->placeholders || !config->values)
		return error_oom(err);
	for (size_t i = 0; i < list->n_items; i++) {
		const struct tree *item = &list->items[i];
		const struct tree *placeholder = tree_get(item, "placeholder");
		const struct tree *value = tree_get(item, "value");
		int r;

		if (!placeholder || !value || item->n_items != 2)
			return bad(err, "a secret has a placeholder and a value");
		config->n_secrets++;
		r = take_text(placeholder, &config->placeholders[i], err);
		if (r == 0)
			r = take_text(value, &config->values[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take(const struct tree *item, struct config *config, struct atoll_error *err)
{
	cleanup_free char *token = NULL;
	int r;

	if (streq(item->key, "network"))
		return 0;
	if (streq(item->key, "uid"))
		return take_id(item, &config->uid, err);
	if (streq(item->key, "gid"))
		return take_id(item, &config->gid, err);
	if (streq(item->key, "trust"))
		return take_text(item, &config->trust, err);
	if (streq(item->key, "keystore"))
		return take_truth(item, &config->wants_keystore, err);
	if (streq(item->key, "heir"))
		return take_truth(item, &config->has_heir, err);
	if (streq(item->key, "authority"))
		return take_text(item, &config->authority, err);
	if (streq(item->key, "resolv"))
		return take_text(item, &config->resolv, err);
	if (streq(item->key, "hosts"))
		return take_text(item, &config->hosts, err);
	if (streq(item->key, "own"))
		return take_own(item, config, err);
	if (streq(item->key, "secrets"))
		return take_secrets(item, config, err);
	if (!streq(item->key, "token"))
		return bad(err, "an unknown key");
	r = take_text(item, &token, err);
	if (r < 0)
		return r;
	if (strlen(token) >= sizeof config->token)
		return bad(err, "the token is too long");
	strcpy(config->token, token);
	return 0;
}

/* The tree's own memory holds secrets as well. */
static void wipe(struct tree *tree)
{
	if (tree->text)
		sodium_memzero(tree->text, strlen(tree->text));
	for (size_t i = 0; i < tree->n_items; i++)
		wipe(&tree->items[i]);
}

int config_read(const char *text, size_t size, struct network *network, struct config *ret,
		struct atoll_error *err)
{
	struct buf rest = BUF_INIT(size + 3);
	struct tree *tree = NULL;
	const char *part;
	size_t part_size = 0;
	int r;

	*ret = (struct config){.uid = (uid_t)-1, .gid = (gid_t)-1};
	part = find_part(text, size, "network", &part_size);
	if (!part)
		return bad(err, "there is no network in it");
	buf_add(&rest, text, (size_t)(part - text));
	buf_add_str(&rest, "{}");
	buf_add(&rest, part + part_size, size - (size_t)(part + part_size - text));
	r = buf_error(&rest);
	if (r < 0)
		return error_oom(err);
	r = tree_read("configuration of egress", rest.data, rest.used, &tree, err);
	sodium_memzero(rest.data, rest.room);
	buf_done(&rest);
	if (r < 0)
		return r;
	if (tree->kind != TREE_MAP)
		r = bad(err, "it is no map");
	for (size_t i = 0; r == 0 && i < tree->n_items; i++)
		r = take(&tree->items[i], ret, err);
	wipe(tree);
	tree_free(tree);
	if (r == 0 && (ret->uid == (uid_t)-1) != (ret->gid == (gid_t)-1))
		r = bad(err, "uid and gid go together");
	if (r == 0)
		r = network_read(part, part_size, network, err);
	if (r == 0 && ret->n_secrets != network->n_secrets)
		r = bad(err, "the secrets are not those of the contract");
	if (r < 0)
		config_done(ret);
	return r;
}

void config_done(struct config *config)
{
	for (size_t i = 0; i < config->n_secrets; i++) {
		if (config->values[i])
			sodium_memzero(config->values[i], strlen(config->values[i]));
		free(config->values[i]);
		free(config->placeholders[i]);
	}
	if (config->authority)
		sodium_memzero(config->authority, strlen(config->authority));
	free(config->authority);
	free(config->values);
	free(config->placeholders);
	free(config->own);
	free(config->trust);
	free(config->resolv);
	free(config->hosts);
	*config = (struct config){.uid = (uid_t)-1, .gid = (gid_t)-1};
}
