/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a contract allow more than the defaults would?
 *
 * A job file that lies in the workspace may come from whoever wrote the workspace. As long as it
 * only narrows, it can do no harm; the first clause that gives something is what a person has to be
 * asked about. What a path gets is compared with what it gets in a bare job with the same
 * workspace, so that `read: [/usr/share]` is no widening and `write: [.git/hooks]` is one.
 *
 * In a bare job the workspace is a layer, so `mode: direct` gives something, and so does a line of
 * `write` inside the workspace, which is written on the host. `root: layer` gives nothing of the
 * host's that could be changed, but it makes the command root among ids of its own where root runs
 * it, and that is more of the kernel than others get to see. Checkpoints give nothing.
 */
#include "base/path.h"
#include "spec/network-inner.h"

#include <stdio.h>

/* What the caller of is_of_interest() looks at: every clause, or those of the job file. */
struct question {
	const struct spec *spec;
	bool is_file_only;
};

static bool is_of_interest(const struct question *question, const char *origin)
{
	if (origin_is_default(origin))
		return false;
	return !question->is_file_only || !origin_is_flag(origin);
}

static char *clause(const char *key, const char *value, const char *origin)
{
	char *text;

	if (asprintf(&text, "%s %s (%s)", key, shown_path(value), origin) < 0)
		return NULL;
	return text;
}

static char *first_word(const struct question *question, const char *key,
			const struct spec_word *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_of_interest(question, words[i].origin))
			return clause(key, words[i].text, words[i].origin);
	return NULL;
}

static int generosity(const struct spec_rule *rule)
{
	if (!rule || rule->access == SPEC_HIDE)
		return 0;
	return rule->access == SPEC_READ ? 1 : 2;
}

static bool rule_widens(const struct spec *bare, const struct spec_rule *rule)
{
	if (rule->access == SPEC_HIDE || rule->access == SPEC_PROTECT)
		return false;
	if (generosity(rule) > generosity(spec_rule_for(bare, rule->path)))
		return true;
	if (rule->access != SPEC_WRITE || streq(rule->path, bare->workspace))
		return false;
	/* A root of its own is written at once, and takes a trusted name out of its protection. */
	return bare->workspace_mode == SPEC_WORKSPACE_LAYER || spec_is_protected(bare, rule->path);
}

static char *first_rule(const struct question *question, const struct spec *bare)
{
	const struct spec *spec = question->spec;

	for (size_t i = 0; i < spec->n_rules; i++) {
		const struct spec_rule *rule = &spec->rules[i];
		char key[32];

		if (!is_of_interest(question, rule->origin) || !rule_widens(bare, rule))
			continue;
		snprintf(key, sizeof key, "filesystem.%s", spec_access_word(rule->access));
		return clause(key, rule->path, rule->origin);
	}
	return NULL;
}

/* Another workspace than the one a person stands in is a grant, too. A flag that says so is the
 * person. */
static char *other_workspace(const struct question *question)
{
	const struct spec *spec = question->spec;

	if (!is_of_interest(question, spec->workspace_origin) ||
	    origin_is_flag(spec->workspace_origin) || path_is_within(spec->workspace, spec->caller))
		return NULL;
	return clause("workspace", spec->workspace, spec->workspace_origin);
}

static char *direct(const struct question *question, const struct spec *bare)
{
	const struct spec *spec = question->spec;

	if (spec->workspace_mode != SPEC_WORKSPACE_DIRECT ||
	    bare->workspace_mode == SPEC_WORKSPACE_DIRECT ||
	    !is_of_interest(question, spec->workspace_mode_origin))
		return NULL;
	return clause("workspace.mode", "direct", spec->workspace_mode_origin);
}

static char *writable_root(const struct question *question)
{
	const struct spec *spec = question->spec;

	if (!spec->root_is_layer || !is_of_interest(question, spec->root_origin))
		return NULL;
	return clause("root", "layer", spec->root_origin);
}

/* For root's runs that is a root inside, and ids to change to: see `root: layer`. */
static char *first_user(const struct question *question)
{
	const struct spec *spec = question->spec;

	for (size_t i = 0; i < spec->n_users; i++)
		if (is_of_interest(question, spec->users[i].origin))
			return clause("users", spec->users[i].name, spec->users[i].origin);
	return NULL;
}

static char *other_system(const struct question *question)
{
	const struct spec *spec = question->spec;

	if (!spec->image || !is_of_interest(question, spec->image_origin))
		return NULL;
	return clause("image", spec->image, spec->image_origin);
}

static char *first_passed(const struct question *question)
{
	const struct spec *spec = question->spec;

	for (size_t i = 0; i < spec->n_variables; i++) {
		const struct spec_variable *variable = &spec->variables[i];

		if (!variable->value && is_of_interest(question, variable->origin))
			return clause("environment.pass", variable->name, variable->origin);
	}
	if (spec->n_descriptors && is_of_interest(question, spec->descriptors_origin)) {
		char number[16];

		snprintf(number, sizeof number, "%d", spec->descriptors[0]);
		return clause("environment.descriptors", number, spec->descriptors_origin);
	}
	return NULL;
}

static char *first_limit(const struct question *question)
{
	for (enum spec_limit_id id = 0; id < SPEC_LIMIT_COUNT; id++) {
		const struct spec_limit *limit = &question->spec->limits[id];
		char key[32], value[64];

		if (limit->value <= spec_limits[id].preset ||
		    !is_of_interest(question, limit->origin))
			continue;
		snprintf(key, sizeof key, "limits.%s", spec_limits[id].key);
		spec_format_limit(id, limit->value, value, sizeof value);
		return clause(key, value, limit->origin);
	}
	return NULL;
}

/* Lines of `deny` and limits only take away. */
static char *first_of_network(const struct question *question)
{
	const struct network *network = &question->spec->network;

	if (!network_is_on(network))
		return NULL;
	if (network->mode == NETWORK_OPEN && network->mode_origin &&
	    is_of_interest(question, network->mode_origin))
		return clause("network", "open", network->mode_origin);
	for (size_t i = 0; i < network->n_allow; i++)
		if (is_of_interest(question, network->allow[i].origin))
			return clause("network.allow", network->allow[i].host,
				      network->allow[i].origin);
	if (network->asks && is_of_interest(question, network->asks_origin))
		return clause("network.ask", "true", network->asks_origin);
	for (size_t i = 0; i < network->n_secrets; i++)
		if (is_of_interest(question, network->secrets[i].origin))
			return clause("network.secrets", network->secrets[i].name,
				      network->secrets[i].origin);
	for (size_t i = 0; i < network->n_listen; i++) {
		char port[8];

		if (!is_of_interest(question, network->listen[i].origin))
			continue;
		snprintf(port, sizeof port, "%u", network->listen[i].port);
		return clause("network.listen", port, network->listen[i].origin);
	}
	if (network->upstream && is_of_interest(question, network->upstream_origin))
		return clause("network.upstream", network->upstream, network->upstream_origin);
	return NULL;
}

/* What is done unseen is more than what is seen. */
static char *less_recorded(const struct question *question)
{
	const struct spec *spec = question->spec;

	if (spec->record == SPEC_RECORD_FULL || !is_of_interest(question, spec->record_origin))
		return NULL;
	return clause("audit.record", spec_record_word(spec->record), spec->record_origin);
}

/* The firewall by id lets an `online` one pass. */
static char *online(const struct question *question)
{
	const struct spec *spec = question->spec;

	if (spec->identity != SPEC_ONLINE || !is_of_interest(question, spec->identity_origin))
		return NULL;
	return clause("identity", "online", spec->identity_origin);
}

/* A job that says nothing, in the same place. It is compared with, not run, so it need not pass
 * the checks. How the workspace is written may be what a person typed. */
static struct spec *bare_job(const struct question *question)
{
	const struct spec *spec = question->spec;
	struct spec *bare = spec_new(spec->home, spec->caller, NULL);

	if (!bare)
		return NULL;
	if (question->is_file_only && origin_is_flag(spec->workspace_mode_origin))
		bare->workspace_mode = spec->workspace_mode;
	if (spec_set_text(&bare->workspace, spec->workspace, NULL) < 0 ||
	    spec_fill(bare, NULL) < 0) {
		spec_free(bare);
		return NULL;
	}
	return bare;
}

static bool is_asked_about(const void *question, const char *origin)
{
	return is_of_interest(question, origin);
}

static char *first_clause(const struct question *question)
{
	const struct spec *spec = question->spec;
	struct spec *bare = bare_job(question);
	char *found;

	/* Without memory the answer is not "no". */
	if (!bare)
		return strdup("unknown (no memory)");
	found = other_workspace(question);
	if (!found)
		found = direct(question, bare);
	if (!found)
		found = writable_root(question);
	if (!found)
		found = first_user(question);
	if (!found)
		found = other_system(question);
	if (!found)
		found = first_rule(question, bare);
	if (!found)
		found = first_word(question, "filesystem.sockets", spec->sockets, spec->n_sockets);
	if (!found)
		found = first_word(question, "filesystem.accept-broad", spec->broad, spec->n_broad);
	if (!found)
		found = first_word(question, "isolation.accept-weaker", spec->accepted,
				   spec->n_accepted);
	if (!found)
		found = first_passed(question);
	if (!found)
		found = first_of_network(question);
	if (!found)
		found = online(question);
	if (!found)
		found = less_recorded(question);
	if (!found)
		found = spec_watch_widens(&spec->watch, is_asked_about, question);
	if (!found)
		found = first_limit(question);
	spec_free(bare);
	return found;
}

char *spec_widens(const struct spec *spec)
{
	return first_clause(&(struct question){.spec = spec});
}

char *spec_file_widens(const struct spec *spec)
{
	return first_clause(&(struct question){.spec = spec, .is_file_only = true});
}
