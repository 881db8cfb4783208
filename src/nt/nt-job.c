/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the job from the tree of a job file and from flags. Called by the Windows programs before
 * anything else happens. Every key is looked up in one table; its function reads the value.
 */
#include "nt/nt-job.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct loader {
	struct nt_job *job;
	const char *name;
	const struct job_tree *tree;
	struct atoll_error *err;
};

static int fail_at(const struct loader *in, const struct job_node *node, const char *what)
{
	return error_set(in->err, ATOLL_FAULT_REQUEST, EINVAL, "%s:%u: '%s' %s", in->name,
			 node->line, node->key ? node->key : "value", what);
}

void nt_job_init(struct nt_job *job)
{
	memset(job, 0, sizeof *job);
	for (size_t i = 0; i < SPEC_LIMIT_COUNT; i++)
		job->limits[i] = spec_limits[i].preset;
}

/* ---- single values, for files and flags ---- */

/* Words that have no quotes and mean no text to some reader of YAML. */
static bool is_text(const struct job_node *node)
{
	static const char *const others[] = {"null", "~",  "true", "false", "yes",
					     "no",   "on", "off",  "y",	    "n"};

	if (node->kind != JOB_TEXT || (!node->is_quoted && !*node->text))
		return false;
	for (size_t i = 0; !node->is_quoted && i < ARRAY_SIZE(others); i++)
		if (strcasecmp(node->text, others[i]) == 0)
			return false;
	return node->is_quoted || strspn(node->text, "0123456789.+-") != strlen(node->text);
}

static int add_rule(struct nt_job *job, enum spec_access access, const char *path, bool is_flag,
		    struct atoll_error *err)
{
	if (job->n_rules == NT_JOB_RULES_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "over %d lines about files",
				 NT_JOB_RULES_MAX);
	if (!*path)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "an empty path");
	job->rules[job->n_rules++] = (struct nt_job_rule){access, path, is_flag};
	return 0;
}

static int set_mode(struct nt_job *job, const char *word, struct atoll_error *err)
{
	static const char *const words[] = {[NT_WORKSPACE_LAYER] = "layer",
					    [NT_WORKSPACE_DIRECT] = "direct",
					    [NT_WORKSPACE_READ_ONLY] = "read-only"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (streq(word, words[i])) {
			job->mode = i;
			return 0;
		}
	return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
			 "workspace mode '%s': layer, direct or read-only", word);
}

static int set_network(struct nt_job *job, const char *word, struct atoll_error *err)
{
	static const char *const words[] = {
		[NT_NETWORK_OFF] = "off", [NT_NETWORK_RULES] = "rules", [NT_NETWORK_OPEN] = "open"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (streq(word, words[i])) {
			job->network = i;
			return 0;
		}
	return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "network '%s': off, rules or open",
			 word);
}

static int set_limit(struct nt_job *job, enum spec_limit_id id, const char *text,
		     struct atoll_error *err)
{
	job->is_written[id] = true;
	return spec_parse_limit(id, text, &job->limits[id], err);
}

static int accept(struct nt_job *job, const char *word, struct atoll_error *err)
{
	unsigned weaker = nt_weaker_from_word(word);

	if (!weaker)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "accept-weaker '%s': read, network, protect or limits", word);
	job->accepted |= weaker;
	return 0;
}

/* NAME=VALUE is not split here: names are checked where the environment is made. */
static int add_variable(struct nt_job *job, const char *name, const char *value,
			struct atoll_error *err)
{
	const size_t size = strlen(name);

	if (size == 0 || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789_()") != size)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "variable '%s'", name);
	if (strncasecmp(name, "ATOLL_", 6) == 0 || strncasecmp(name, "GIT_CONFIG", 10) == 0)
		return error_set(err, ATOLL_FAULT_POLICY, EPERM,
				 "variable '%s' is set by atoll alone", name);
	if (job->n_variables == NT_JOB_VARIABLES_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "over %d variables",
				 NT_JOB_VARIABLES_MAX);
	job->variables[job->n_variables].name = name;
	job->variables[job->n_variables++].value = value;
	return 0;
}

static int add_host(struct nt_job *job, const char *host, struct atoll_error *err)
{
	if (job->n_hosts == NT_JOB_HOSTS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "over %d hosts",
				 NT_JOB_HOSTS_MAX);
	job->hosts[job->n_hosts++] = host;
	return 0;
}

/* ---- the keys of a job file ---- */

typedef int (*read_fn)(struct loader *in, const struct job_node *node);

/* Call a function for each text of a list. */
static int each_text(struct loader *in, const struct job_node *list,
		     int (*add)(struct loader *in, const char *text))
{
	int r = 0;

	if (list->kind != JOB_LIST)
		return fail_at(in, list, "is no list");
	for (const struct job_node *item = job_tree_first(in->tree, list); item && r == 0;
	     item = job_tree_next(in->tree, item))
		r = is_text(item) ? add(in, item->text) : fail_at(in, item, "is no text");
	return r;
}

static int read_version(struct loader *in, const struct job_node *node)
{
	if (node->kind != JOB_TEXT || node->is_quoted || !streq(node->text, "1"))
		return fail_at(in, node, "must be 1");
	return 0;
}

static int add_argument(struct loader *in, const char *text)
{
	struct nt_job *job = in->job;

	if (job->n_command == NT_JOB_COMMAND_MAX)
		return error_set(in->err, ATOLL_FAULT_REQUEST, EINVAL, "over %d arguments",
				 NT_JOB_COMMAND_MAX);
	job->command[job->n_command++] = text;
	return 0;
}

static int read_command(struct loader *in, const struct job_node *node)
{
	if (node->kind == JOB_TEXT)
		return fail_at(in, node,
			       "is one text, which Linux gives to a shell: on Windows write a list "
			       "of program and arguments");
	in->job->n_command = 0;
	return each_text(in, node, add_argument);
}

static int read_path(struct loader *in, const struct job_node *node)
{
	if (!is_text(node))
		return fail_at(in, node, "is no text");
	if (node->key && streq(node->key, "cwd"))
		in->job->cwd = node->text;
	else
		in->job->workspace = node->text;
	return 0;
}

static int read_mode(struct loader *in, const struct job_node *node)
{
	return is_text(node) ? set_mode(in->job, node->text, in->err)
			     : fail_at(in, node, "is no text");
}

static int add_read(struct loader *in, const char *text)
{
	return add_rule(in->job, SPEC_READ, text, false, in->err);
}

static int add_write(struct loader *in, const char *text)
{
	return add_rule(in->job, SPEC_WRITE, text, false, in->err);
}

static int add_hide(struct loader *in, const char *text)
{
	return add_rule(in->job, SPEC_HIDE, text, false, in->err);
}

static int add_protect(struct loader *in, const char *text)
{
	return add_rule(in->job, SPEC_PROTECT, text, false, in->err);
}

static int read_rules(struct loader *in, const struct job_node *node)
{
	static const struct {
		const char *key;
		int (*add)(struct loader *in, const char *text);
	} adders[] = {{"read", add_read},
		      {"write", add_write},
		      {"hide", add_hide},
		      {"protect", add_protect}};

	for (size_t i = 0; i < ARRAY_SIZE(adders); i++)
		if (streq(node->key, adders[i].key))
			return each_text(in, node, adders[i].add);
	return fail_at(in, node, "is unknown");
}

static int read_network_mode(struct loader *in, const struct job_node *node)
{
	/* "off" needs no quotes here: the key has words, no truth values. */
	if (node->kind != JOB_TEXT)
		return fail_at(in, node, "is no text");
	return set_network(in->job, node->text, in->err);
}

static int add_allowed(struct loader *in, const char *text)
{
	in->job->network = NT_NETWORK_RULES;
	return add_host(in->job, text, in->err);
}

static int read_allow(struct loader *in, const struct job_node *node)
{
	return each_text(in, node, add_allowed);
}

static int read_limit(struct loader *in, const struct job_node *node)
{
	for (size_t i = 0; i < SPEC_LIMIT_COUNT; i++)
		if (streq(node->key, spec_limits[i].key)) {
			if (node->kind != JOB_TEXT)
				return fail_at(in, node, "is no number");
			return error_context(in->err, set_limit(in->job, i, node->text, in->err),
					     "%s:%u", in->name, node->line);
		}
	return fail_at(in, node, "is unknown");
}

static int add_pass(struct loader *in, const char *text)
{
	return add_variable(in->job, text, NULL, in->err);
}

static int read_pass(struct loader *in, const struct job_node *node)
{
	return each_text(in, node, add_pass);
}

static int read_set(struct loader *in, const struct job_node *node)
{
	int r = 0;

	if (node->kind != JOB_MAP)
		return fail_at(in, node, "is no map");
	for (const struct job_node *item = job_tree_first(in->tree, node); item && r == 0;
	     item = job_tree_next(in->tree, item))
		r = is_text(item) ? add_variable(in->job, item->key, item->text, in->err)
				  : fail_at(in, item, "is no text; write quotes");
	return r;
}

static int read_tier(struct loader *in, const struct job_node *node)
{
	if (!is_text(node) || (!streq(node->text, "process") && !streq(node->text, "windows")))
		return fail_at(in, node, "must be process or windows here");
	return 0;
}

static int add_accepted(struct loader *in, const char *text)
{
	return accept(in->job, text, in->err);
}

static int read_accepted(struct loader *in, const struct job_node *node)
{
	return each_text(in, node, add_accepted);
}

/* Keys of both: sections that are maps have no function. */
static const struct {
	struct nt_job_key key;
	read_fn read;
} readers[] = {
	{{"version", false}, read_version},
	{{"command", false}, read_command},
	{{"workspace", false}, read_path},
	{{"workspace.path", false}, read_path},
	{{"workspace.mode", false}, read_mode},
	{{"workspace.cwd", false}, read_path},
	{{"workspace.at", true}, NULL},
	{{"filesystem", false}, NULL},
	{{"filesystem.read", false}, read_rules},
	{{"filesystem.write", false}, read_rules},
	{{"filesystem.hide", false}, read_rules},
	{{"filesystem.protect", false}, read_rules},
	{{"filesystem.sockets", true}, NULL},
	{{"filesystem.accept-broad", true}, NULL},
	{{"network", false}, read_network_mode},
	{{"network.mode", false}, read_network_mode},
	{{"network.allow", false}, read_allow},
	{{"network.accept-broad", true}, NULL},
	{{"network.deny", true}, NULL},
	{{"network.near", true}, NULL},
	{{"network.rate", true}, NULL},
	{{"network.bytes", true}, NULL},
	{{"network.connections", true}, NULL},
	{{"network.requests", true}, NULL},
	{{"network.secrets", true}, NULL},
	{{"network.listen", true}, NULL},
	{{"network.ask", true}, NULL},
	{{"network.proxy", true}, NULL},
	{{"network.upstream", true}, NULL},
	{{"limits", false}, NULL},
	{{"limits.wall", false}, read_limit},
	{{"limits.cpu", false}, read_limit},
	{{"limits.cpus", false}, read_limit},
	{{"limits.memory", false}, read_limit},
	{{"limits.pids", false}, read_limit},
	{{"limits.disk", false}, read_limit},
	{{"limits.files", false}, read_limit},
	{{"limits.open-files", false}, read_limit},
	{{"limits.output", false}, read_limit},
	{{"limits.grace", false}, read_limit},
	{{"environment", false}, NULL},
	{{"environment.pass", false}, read_pass},
	{{"environment.set", false}, read_set},
	{{"environment.descriptors", true}, NULL},
	{{"isolation", false}, NULL},
	{{"isolation.tier", false}, read_tier},
	{{"isolation.accept-weaker", false}, read_accepted},
	{{"identity", true}, NULL},
	{{"image", true}, NULL},
	{{"root", true}, NULL},
	{{"users", true}, NULL},
	{{"guest", true}, NULL},
	{{"checkpoints", true}, NULL},
	{{"approval", true}, NULL},
	{{"audit", true}, NULL},
};

const struct nt_job_key *nt_job_key_at(size_t i)
{
	return i < ARRAY_SIZE(readers) ? &readers[i].key : NULL;
}

/* `above` is NULL at the top. */
static int find_key(const char *above, const char *key)
{
	const size_t size = above ? strlen(above) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		const char *name = readers[i].key.name;

		if (above && strncmp(name, above, size) == 0 && name[size] == '.' &&
		    streq(name + size + 1, key))
			return (int)i;
		if (!above && streq(name, key))
			return (int)i;
	}
	return -1;
}

static int load_map(struct loader *in, const struct job_node *map, const char *above)
{
	int r = 0;

	for (const struct job_node *node = job_tree_first(in->tree, map); node && r == 0;
	     node = job_tree_next(in->tree, node)) {
		int i = strchr(node->key, '.') ? -1 : find_key(above, node->key);

		if (i < 0)
			return fail_at(in, node, "is an unknown key");
		if (readers[i].key.is_refused)
			return fail_at(in, node, "is not available on Windows");
		if (node->kind == JOB_MAP && !above)
			r = load_map(in, node, node->key);
		else if (readers[i].read)
			r = readers[i].read(in, node);
		else
			r = fail_at(in, node, "is no map");
	}
	return r;
}

int nt_job_load(struct nt_job *job, const char *name, const struct job_tree *tree,
		struct atoll_error *err)
{
	struct loader in = {.job = job, .name = name, .tree = tree, .err = err};

	if (tree->nodes[0].kind != JOB_MAP)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "%s: no map of keys", name);
	return load_map(&in, &tree->nodes[0], NULL);
}

/* ---- flags ---- */

static int set_variable(struct nt_job *job, const char *text, struct atoll_error *err)
{
	/* The caller's argument becomes two texts; nobody else reads it. */
	char *equals = strchr((char *)(uintptr_t)text, '=');

	if (!equals)
		return add_variable(job, text, NULL, err);
	*equals = '\0';
	return add_variable(job, text, equals + 1, err);
}

int nt_job_option(struct nt_job *job, const char *flag, const char *value, struct atoll_error *err)
{
	static const struct {
		const char *flag;
		enum spec_access access;
	} accesses[] = {{"--read", SPEC_READ},
			{"--write", SPEC_WRITE},
			{"--hide", SPEC_HIDE},
			{"--protect", SPEC_PROTECT}};

	for (size_t i = 0; i < ARRAY_SIZE(accesses); i++)
		if (streq(flag, accesses[i].flag))
			return add_rule(job, accesses[i].access, value, true, err);
	for (size_t i = 0; i < SPEC_LIMIT_COUNT; i++)
		if (spec_limits[i].flag && streq(flag, spec_limits[i].flag))
			return set_limit(job, i, value, err);
	if (streq(flag, "--workspace")) {
		job->workspace = value;
		job->workspace_is_flag = true;
		return 0;
	}
	if (streq(flag, "--mode"))
		return set_mode(job, value, err);
	if (streq(flag, "--network"))
		return set_network(job, value, err);
	if (streq(flag, "--allow")) {
		job->network = NT_NETWORK_RULES;
		return add_host(job, value, err);
	}
	if (streq(flag, "--env"))
		return set_variable(job, value, err);
	if (streq(flag, "--accept-weaker"))
		return accept(job, value, err);
	error_set(err, ATOLL_FAULT_REQUEST, EINVAL, "unknown option '%s'", flag);
	return -ENOENT;
}
