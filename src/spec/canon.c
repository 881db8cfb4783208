/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical form
 *
 * What is enforced, and nothing about how it was said: keys and lists that have no order are
 * sorted, numbers stand in one unit, origins are left out. So is the default line that protects the
 * job file: the file's name is no part of what it says.
 */
#include "base/buf.h"
#include "base/hash.h"
#include "base/json.h"
#include "spec/network-inner.h"

#define CANONICAL_MAX ((size_t)16 << 20)

static int compare_rules(const void *a, const void *b)
{
	const struct spec_rule *x = *(const struct spec_rule *const *)a;
	const struct spec_rule *y = *(const struct spec_rule *const *)b;
	int order = strcmp(x->path, y->path);

	if (order == 0)
		order = (int)x->access - (int)y->access;
	return order ? order : x->is_pattern - y->is_pattern;
}

static int compare_variables(const void *a, const void *b)
{
	const struct spec_variable *x = *(const struct spec_variable *const *)a;
	const struct spec_variable *y = *(const struct spec_variable *const *)b;

	return strcmp(x->name, y->name);
}

static int compare_words(const void *a, const void *b)
{
	const struct spec_word *x = *(const struct spec_word *const *)a;
	const struct spec_word *y = *(const struct spec_word *const *)b;

	return strcmp(x->text, y->text);
}

static int compare_ints(const void *a, const void *b)
{
	const int *x = *(const int *const *)a, *y = *(const int *const *)b;

	return (*x > *y) - (*x < *y);
}

const void **spec_sorted(const void *items, size_t n, size_t size,
			 int (*compare)(const void *, const void *))
{
	const void **order = calloc(n + 1, sizeof *order);

	if (!order)
		return NULL;
	for (size_t i = 0; i < n; i++)
		order[i] = (const char *)items + i * size;
	qsort(order, n, sizeof *order, compare);
	return order;
}

static bool write_words(struct json *json, const char *key, const struct spec_word *words, size_t n)
{
	cleanup_free const void **order = spec_sorted(words, n, sizeof *words, compare_words);
	const char *last = NULL;

	if (!order)
		return false;
	json_open(json, key, '[');
	for (size_t i = 0; i < n; i++) {
		const struct spec_word *word = order[i];

		if (!last || !streq(last, word->text))
			json_str(json, NULL, word->text);
		last = word->text;
	}
	json_close(json, ']');
	return true;
}

static bool write_rules(struct json *json, const struct spec *spec)
{
	cleanup_free const void **order =
		spec_sorted(spec->rules, spec->n_rules, sizeof *spec->rules, compare_rules);

	if (!order)
		return false;
	json_open(json, "rules", '[');
	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = order[i];

		if (rule->access == SPEC_PROTECT && origin_is_default(rule->origin))
			continue;
		json_open(json, NULL, '{');
		json_str(json, "access", spec_access_word(rule->access));
		if (rule->at)
			json_str(json, "at", rule->at);
		json_str(json, "path", rule->path);
		json_bool(json, "pattern", rule->is_pattern);
		json_close(json, '}');
	}
	json_close(json, ']');
	return true;
}

static bool write_variables(struct json *json, const struct spec *spec)
{
	cleanup_free const void **order = spec_sorted(spec->variables, spec->n_variables,
						      sizeof *spec->variables, compare_variables);

	if (!order)
		return false;
	json_open(json, "environment", '{');
	for (size_t i = 0; i < spec->n_variables; i++) {
		const struct spec_variable *variable = order[i];

		json_str(json, variable->name, variable->value); /* null: the caller's */
	}
	json_close(json, '}');
	return true;
}

static bool write_descriptors(struct json *json, const struct spec *spec)
{
	cleanup_free const void **order = spec_sorted(spec->descriptors, spec->n_descriptors,
						      sizeof *spec->descriptors, compare_ints);

	if (!order)
		return false;
	json_open(json, "descriptors", '[');
	for (size_t i = 0; i < spec->n_descriptors; i++)
		json_int(json, NULL, *(const int *)order[i]);
	json_close(json, ']');
	return true;
}

static void write_command(struct json *json, const struct spec *spec)
{
	json_open(json, "command", '[');
	for (size_t i = 0; spec->command[i]; i++)
		json_str(json, NULL, spec->command[i]);
	json_close(json, ']');
}

static void write_limits(struct json *json, const struct spec *spec)
{
	/* In the order of their keys. */
	static const enum spec_limit_id order[SPEC_LIMIT_COUNT] = {
		SPEC_CPU_TIME, SPEC_CPUS,	SPEC_DISK,   SPEC_FILES, SPEC_GRACE,
		SPEC_MEMORY,   SPEC_OPEN_FILES, SPEC_OUTPUT, SPEC_PIDS,	 SPEC_WALL,
	};

	json_open(json, "limits", '{');
	for (size_t i = 0; i < SPEC_LIMIT_COUNT; i++) {
		uint64_t value = spec->limits[order[i]].value;

		if (value == SPEC_UNLIMITED)
			json_str(json, spec_limits[order[i]].key, "unlimited");
		else
			json_uint(json, spec_limits[order[i]].key, value);
	}
	json_close(json, '}');
}

static bool write_all(struct json *json, const struct spec *spec)
{
	bool is_good;

	json_open(json, NULL, '{');
	is_good = write_words(json, "accepted", spec->accepted, spec->n_accepted);
	json_open(json, "audit", '{');
	spec_watch_canonical_before(&spec->watch, json);
	json_str(json, "output", spec->keeps_output ? "keep" : "hash");
	json_str(json, "record", spec_record_word(spec->record));
	spec_watch_canonical_after(&spec->watch, json);
	json_close(json, '}');
	json_str(json, "checkpoints", spec->checkpoints_every_step ? "every-step" : "manual");
	write_command(json, spec);
	json_str(json, "cwd", spec->cwd);
	is_good = is_good && write_descriptors(json, spec) && write_variables(json, spec);
	inside_canonical_guest(spec, json);
	json_str(json, "identity", spec->identity == SPEC_ONLINE ? "online" : "offline");
	inside_canonical_image(spec, json);
	write_limits(json, spec);
	json_str(json, "mode", spec_mode_word(spec->workspace_mode));
	is_good = is_good && network_canonical(&spec->network, json);
	json_str(json, "root", spec->root_is_layer ? "layer" : "read-only");
	is_good = is_good && write_rules(json, spec) &&
		  write_words(json, "sockets", spec->sockets, spec->n_sockets);
	json_str(json, "tier", "process");
	inside_canonical_users(spec, json);
	json_uint(json, "version", 1);
	json_str(json, "workspace", spec->workspace);
	inside_canonical_at(spec, json);
	json_close(json, '}');
	return is_good;
}

int spec_canonical(const struct spec *spec, struct buf *out, struct atoll_error *err)
{
	struct json json = {.out = out};

	if (!spec->is_finished)
		return error_set(err, ATOLL_FAULT_BUG, 0, "canonical form of an unfinished job");
	if (!write_all(&json, spec))
		return error_oom(err);
	if (buf_error(out))
		return error_set(err, ATOLL_FAULT_HOST, -buf_error(out),
				 "write the canonical form");
	return 0;
}

int spec_digest(const struct spec *spec, char ret_hex[65], struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(CANONICAL_MAX);
	/* The job is constant by now, and what is remembered does not change what it says. */
	char *digest = ((struct spec *)spec)->digest;
	int r = digest[0] ? 0 : spec_canonical(spec, &text, err);

	if (r == 0 && !digest[0])
		hash_sha256_hex(text.data, text.used, digest);
	if (r == 0)
		memcpy(ret_hex, digest, HASH_HEX_SIZE);
	return r;
}
