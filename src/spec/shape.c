/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/shape.h"

#include "spec/document.h"
#include "spec/spec-inner.h"

#include <stdio.h>
#include <strings.h>

/* What a single value may be, where one may stand at all. */
enum shape_text {
	SHAPE_NO_TEXT,
	SHAPE_STRING,	  /* not empty */
	SHAPE_ANY_STRING, /* may be empty */
	SHAPE_WORD,	  /* one of `words` */
	SHAPE_BOOL,
	SHAPE_INTEGER, /* from `least` to `most` */
	SHAPE_VALUE,   /* a number or a string; who takes it in looks closer */
};

struct shape {
	const char *key;
	enum shape_text text;
	const char *const *words;
	int least, most;
	const struct shape *item;   /* a list of these may stand here */
	const struct shape *fields; /* a map with these keys */
	const struct shape *any;    /* a map with free keys, and these values */
	const char *only;	    /* other words than this one are not yet available */
	bool is_later; /* anything but an empty list, or a map with known keys, is not yet available
			*/
	bool is_filled; /* the list has something in it: to leave it out means all */
};

static const struct shape a_string = {.text = SHAPE_STRING};
static const struct shape any_string = {.text = SHAPE_ANY_STRING};
static const struct shape a_descriptor = {.text = SHAPE_INTEGER, .least = 3, .most = 1023};
static const struct shape a_port = {.text = SHAPE_INTEGER, .least = 1, .most = 65535};

static const char *const workspace_modes[] = {"direct", "read-only", "layer", NULL};
static const char *const root_ways[] = {"read-only", "layer", NULL};
static const char *const guest_ways[] = {"off", "on", NULL};
static const char *const checkpoint_times[] = {"manual", "every-step", NULL};
static const char *const network_modes[] = {"off", "rules", "open", NULL};
static const char *const tls_modes[] = {"pass", "inspect", "off", NULL};
static const char *const identities[] = {"offline", "online", NULL};
static const char *const tiers[] = {"process", "gvisor", "microvm", "windows", NULL};
static const char *const approval_modes[] = {"never", "ask", NULL};
static const char *const record_words[] = {"full", "steps", "off", NULL};
static const char *const rule_verdicts[] = {"off", "flag", "ask", "pause", "kill", NULL};
static const char *const failure_words[] = {"allow", "flag", "pause", "kill", NULL};
static const char *const output_ways[] = {"hash", "keep", NULL};

static const struct shape workspace_fields[] = {
	{"path", SHAPE_STRING},
	{"at", SHAPE_STRING},
	{"mode", SHAPE_WORD, .words = workspace_modes},
	{"cwd", SHAPE_STRING},
	{0},
};
static const struct shape user_fields[] = {
	{"name", SHAPE_STRING},
	{"uid", SHAPE_INTEGER, .least = 0, .most = SPEC_ID_MOST},
	{"gid", SHAPE_INTEGER, .least = 0, .most = SPEC_ID_MOST},
	{"home", SHAPE_STRING},
	{0},
};
static const struct shape image_fields[] = {
	{"root", SHAPE_STRING},
	{0},
};
static const struct shape grant_fields[] = {
	{"path", SHAPE_STRING},
	{"at", SHAPE_STRING},
	{0},
};
static const struct shape a_user = {.fields = user_fields};
static const struct shape a_grant = {.text = SHAPE_STRING, .fields = grant_fields};
static const struct shape filesystem_fields[] = {
	{"read", .item = &a_grant},
	{"write", .item = &a_grant},
	{"hide", .item = &a_string},
	{"protect", .item = &a_string},
	{"sockets", .item = &a_string},
	{"accept-broad", .item = &a_string},
	{0},
};
/* `origin` stands in what egress reads, and nowhere else. */
#define LIMIT_FIELDS                                                                               \
	{"rate", SHAPE_VALUE}, {"bytes", SHAPE_VALUE}, {"connections", SHAPE_VALUE},               \
	{                                                                                          \
		"requests", SHAPE_VALUE                                                            \
	}
#define ALLOW_FIELDS                                                                               \
	{"host", SHAPE_STRING}, {"ports", .item = &a_port, .is_filled = true},                     \
		{"methods", .item = &a_string, .is_filled = true},                                 \
		{"paths", .item = &a_string, .is_filled = true},                                   \
		{"tls", SHAPE_WORD, .words = tls_modes}, LIMIT_FIELDS
#define ORIGIN_FIELD                                                                               \
	{                                                                                          \
		"origin", SHAPE_STRING                                                             \
	}
static const struct shape allow_fields[] = {ALLOW_FIELDS, {0}};
static const struct shape allow_wire_fields[] = {ALLOW_FIELDS, ORIGIN_FIELD, {0}};
static const struct shape deny_fields[] = {
	{"host", SHAPE_STRING},
	{"ports", .item = &a_port, .is_filled = true},
	{0},
};
static const struct shape deny_wire_fields[] = {
	{"host", SHAPE_STRING},
	{"ports", .item = &a_port, .is_filled = true},
	ORIGIN_FIELD,
	{0},
};
static const struct shape secret_fields[] = {
	{"name", SHAPE_STRING}, {"host", SHAPE_STRING}, {"header", SHAPE_STRING},
	{"from", SHAPE_STRING}, {"set", SHAPE_BOOL},	{0},
};
static const struct shape secret_wire_fields[] = {
	{"name", SHAPE_STRING}, {"host", SHAPE_STRING}, {"header", SHAPE_STRING},
	{"set", SHAPE_BOOL},	ORIGIN_FIELD,		{0},
};
static const struct shape listen_fields[] = {
	{"port", SHAPE_INTEGER, .least = 1, .most = 65535},
	{"host", SHAPE_INTEGER, .least = 1, .most = 65535},
	{"names", .item = &a_string},
	{0},
};
static const struct shape listen_wire_fields[] = {
	{"port", SHAPE_INTEGER, .least = 1, .most = 65535},
	{"host", SHAPE_INTEGER, .least = 1, .most = 65535},
	{"names", .item = &a_string},
	ORIGIN_FIELD,
	{0},
};
static const struct shape an_allow = {.text = SHAPE_STRING, .fields = allow_fields};
static const struct shape a_deny = {.text = SHAPE_STRING, .fields = deny_fields};
static const struct shape a_secret = {.fields = secret_fields};
static const struct shape a_listen = {
	.text = SHAPE_INTEGER, .least = 1, .most = 65535, .fields = listen_fields};
static const struct shape an_allow_on_wire = {.fields = allow_wire_fields};
static const struct shape a_deny_on_wire = {.fields = deny_wire_fields};
static const struct shape a_secret_on_wire = {.fields = secret_wire_fields};
static const struct shape a_listen_on_wire = {.fields = listen_wire_fields};
static const struct shape network_fields[] = {
	{"mode", SHAPE_WORD, .words = network_modes},
	{"allow", .item = &an_allow},
	{"deny", .item = &a_deny},
	{"near", .item = &a_deny},
	LIMIT_FIELDS,
	{"ask", SHAPE_BOOL},
	{"secrets", .item = &a_secret},
	{"listen", .item = &a_listen},
	{"proxy", SHAPE_BOOL},
	{"upstream", SHAPE_STRING},
	{"accept-broad", .item = &a_string},
	{0},
};
static const struct shape network_wire_fields[] = {
	{"mode", SHAPE_WORD, .words = network_modes},
	{"allow", .item = &an_allow_on_wire},
	{"deny", .item = &a_deny_on_wire},
	{"near", .item = &a_deny_on_wire},
	LIMIT_FIELDS,
	{"ask", SHAPE_BOOL},
	{"secrets", .item = &a_secret_on_wire},
	{"listen", .item = &a_listen_on_wire},
	{"proxy", SHAPE_BOOL},
	{"upstream", SHAPE_STRING},
	{0},
};
static const struct shape network_on_wire = {.fields = network_wire_fields};
static const struct shape limits_fields[] = {
	{"wall", SHAPE_VALUE},
	{"cpu", SHAPE_VALUE},
	{"cpus", SHAPE_VALUE},
	{"memory", SHAPE_VALUE},
	{"pids", SHAPE_VALUE},
	{"disk", SHAPE_VALUE},
	{"files", SHAPE_VALUE},
	{"open-files", SHAPE_VALUE},
	{"output", SHAPE_VALUE},
	{"grace", SHAPE_VALUE},
	{0},
};
static const struct shape environment_fields[] = {
	{"pass", .item = &a_string},
	{"set", .any = &any_string},
	{"descriptors", .item = &a_descriptor},
	{0},
};
static const struct shape isolation_fields[] = {
	{"tier", SHAPE_WORD, .words = tiers, .only = "process"},
	{"accept-weaker", .item = &a_string},
	{0},
};
static const struct shape approval_fields[] = {
	{"mode", SHAPE_WORD, .words = approval_modes, .only = "never"},
	{0},
};
static const struct shape rule_fields[] = {
	{"credentials", SHAPE_WORD, .words = rule_verdicts},
	{"download-and-execute", SHAPE_WORD, .words = rule_verdicts},
	{"mass-deletion", SHAPE_WORD, .words = rule_verdicts},
	{"encoded-exfiltration", SHAPE_WORD, .words = rule_verdicts},
	{"crypto-miners", SHAPE_WORD, .words = rule_verdicts},
	{0},
};
static const struct shape monitor_fields[] = {
	{"url", SHAPE_STRING},
	{"model", SHAPE_STRING},
	{"prompt", SHAPE_STRING},
	{"key", SHAPE_STRING},
	{"batch", SHAPE_VALUE},
	{"interval", SHAPE_VALUE},
	{"timeout", SHAPE_VALUE},
	{"on-failure", SHAPE_WORD, .words = failure_words},
	{0},
};
static const struct shape audit_fields[] = {
	{"record", SHAPE_WORD, .words = record_words},
	{"output", SHAPE_WORD, .words = output_ways},
	{"rules", .fields = rule_fields},
	{"monitor", .fields = monitor_fields},
	{"hold", SHAPE_VALUE},
	{"size", SHAPE_VALUE},
	{0},
};
static const struct shape job_fields[] = {
	{"version", SHAPE_INTEGER, .least = 0, .most = 1000000},
	{"command", SHAPE_STRING, .item = &any_string},
	{"image", SHAPE_STRING, .fields = image_fields, .is_later = true},
	{"workspace", SHAPE_STRING, .fields = workspace_fields},
	{"root", SHAPE_WORD, .words = root_ways},
	{"users", .item = &a_user, .is_filled = true},
	{"guest", SHAPE_WORD, .words = guest_ways},
	{"checkpoints", SHAPE_WORD, .words = checkpoint_times},
	{"filesystem", .fields = filesystem_fields},
	{"network", SHAPE_WORD, .words = network_modes, .fields = network_fields},
	{"identity", SHAPE_WORD, .words = identities},
	{"limits", .fields = limits_fields},
	{"environment", .fields = environment_fields},
	{"isolation", .fields = isolation_fields},
	{"approval", .fields = approval_fields},
	{"audit", .fields = audit_fields},
	{0},
};
static const struct shape job = {.fields = job_fields};

/* A place in the document. `where` is its name for people: "filesystem.read", "" at the top. */
struct spot {
	const char *name;
	const struct tree *tree;
	const char *where;
	struct atoll_error *err;
};

static int complain(const struct spot *spot, const char *what)
{
	return error_set(spot->err, ATOLL_FAULT_REQUEST, 0, "%s:%u: %s%s%s%s", spot->name,
			 spot->tree->line, spot->where[0] ? "'" : "", spot->where,
			 spot->where[0] ? "' " : "the job ", what);
}

/* Say what may stand here, and what does. */
static int complain_kind(const struct spot *spot, const struct shape *shape)
{
	static const char *const have[] = {
		[TREE_TEXT] = "a single value",
		[TREE_LIST] = "a list",
		[TREE_MAP] = "a mapping",
	};
	const char *want[4] = {NULL};
	size_t n = 0;
	char text[128], joined[96];

	if (shape->text != SHAPE_NO_TEXT)
		want[n++] = shape->text == SHAPE_BOOL ? "true or false" : "a single value";
	if (shape->item)
		want[n++] = "a list ([a, b])";
	if (shape->fields || shape->any)
		want[n++] = "a mapping (key: value)";
	snprintf(text, sizeof text, "must be %s, not %s", words_join(want, joined, sizeof joined),
		 have[spot->tree->kind]);
	return complain(spot, text);
}

static int complain_null(const struct spot *spot, const struct shape *shape)
{
	if (spot->tree->text[0] == '~' && (shape->text == SHAPE_STRING || shape->item))
		return complain(spot, "is null: an unquoted ~ means nothing in YAML; write \"~\"");
	if (shape->text == SHAPE_ANY_STRING)
		return complain(spot, "has no value; write \"\" for an empty string");
	if (shape->item)
		return complain(spot,
				"has no value, and nothing never means all; leave the key out, "
				"or write [] for none");
	return complain(spot, "has no value, and nothing never means all; leave it out");
}

static int check_string(const struct spot *spot, const struct shape *shape)
{
	static const char *const what[] = {
		[TREE_BOOL] = "a truth value",
		[TREE_INTEGER] = "a number",
		[TREE_NUMBER] = "a number",
		[TREE_DISPUTED] = "a truth value to some readers of YAML",
	};
	char text[192];

	if (shape->text == SHAPE_STRING && spot->tree->text[0] == '\0')
		return complain(spot, "is empty, and empty never means all; leave it out");
	if (spot->tree->type == TREE_STRING)
		return 0;
	snprintf(text, sizeof text, "wants a string, and %s is %s; write it in quotes: \"%s\"",
		 shown(spot->tree->text), what[spot->tree->type], shown(spot->tree->text));
	return complain(spot, text);
}

static int check_word(const struct spot *spot, const struct shape *shape)
{
	char text[288], hint[192];

	for (size_t i = 0; shape->words[i]; i++)
		if (streq(spot->tree->text, shape->words[i]))
			return 0;
	snprintf(text, sizeof text, "cannot be '%s'; %s", shown(spot->tree->text),
		 words_hint(spot->tree->text, shape->words, hint, sizeof hint));
	return complain(spot, text);
}

static int check_integer(const struct spot *spot, const struct shape *shape)
{
	const char *digits = spot->tree->text;
	char text[192];
	long value;

	value = strlen(digits) < 9 ? strtol(digits, NULL, 10) : -1;
	if (spot->tree->type == TREE_INTEGER && digits[strspn(digits, "0123456789")] == '\0' &&
	    (digits[0] != '0' || digits[1] == '\0') && value >= shape->least &&
	    value <= shape->most)
		return 0;
	snprintf(text, sizeof text, "cannot be '%s'; a whole number from %d to %d is wanted%s",
		 shown(digits), shape->least, shape->most,
		 spot->tree->type == TREE_STRING ? ", without quotes" : "");
	return complain(spot, text);
}

static int check_text(const struct spot *spot, const struct shape *shape)
{
	if (spot->tree->type == TREE_NULL)
		return complain_null(spot, shape);
	switch (shape->text) {
	case SHAPE_NO_TEXT:
		return complain_kind(spot, shape);
	case SHAPE_STRING:
	case SHAPE_ANY_STRING:
		return check_string(spot, shape);
	case SHAPE_WORD:
		return check_word(spot, shape);
	case SHAPE_INTEGER:
		return check_integer(spot, shape);
	case SHAPE_BOOL:
		if (spot->tree->type != TREE_BOOL)
			return complain(spot, "must be true or false");
		return 0;
	case SHAPE_VALUE:
		if (spot->tree->text[0] == '\0')
			return complain(spot, "is empty, and empty never means all; leave it out");
		return 0;
	}
	return 0;
}

static const struct shape *find_field(const struct shape *fields, const char *key)
{
	for (; fields->key; fields++)
		if (streq(fields->key, key))
			return fields;
	return NULL;
}

static int complain_unknown(const struct spot *spot, const struct shape *fields)
{
	const char *keys[20] = {NULL};
	char hint[192];

	for (size_t i = 0; fields[i].key && i < ARRAY_SIZE(keys) - 1; i++)
		keys[i] = fields[i].key;
	return error_set(spot->err, ATOLL_FAULT_REQUEST, 0, "%s:%u: unknown key '%s'%s%s%s; %s",
			 spot->name, spot->tree->key_line, shown(spot->tree->key),
			 spot->where[0] ? " in '" : "", spot->where, spot->where[0] ? "'" : "",
			 words_hint(spot->tree->key, keys, hint, sizeof hint));
}

typedef int visit_fn(const struct spot *spot, const struct shape *shape);

/* Visit the values beneath a place, each with its shape and name; the one before knows that keys
 * are known, or finds out. */
static int visit_beneath(const struct spot *spot, const struct shape *shape, visit_fn *visit)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < spot->tree->n_items; i++) {
		const struct shape *next = shape->item;
		struct spot beneath = *spot;
		char where[128];

		beneath.tree = &spot->tree->items[i];
		if (beneath.tree->key) {
			next = shape->any ? shape->any
					  : find_field(shape->fields, beneath.tree->key);
			if (!next)
				return complain_unknown(&beneath, shape->fields);
			snprintf(where, sizeof where, "%s%s%s", spot->where,
				 spot->where[0] ? "." : "", shown(beneath.tree->key));
			beneath.where = where;
		}
		if (!next)
			return complain_kind(spot, shape);
		r = visit(&beneath, next);
	}
	return r;
}

static int check(const struct spot *spot, const struct shape *shape)
{
	switch (spot->tree->kind) {
	case TREE_TEXT:
		return check_text(spot, shape);
	case TREE_LIST:
		if (!shape->item)
			return complain_kind(spot, shape);
		if (shape->is_filled && spot->tree->n_items == 0)
			return complain(spot, "is an empty list, and empty never means all; leave "
					      "it out");
		break;
	case TREE_MAP:
		if (!shape->fields && !shape->any)
			return complain_kind(spot, shape);
		break;
	}
	return visit_beneath(spot, shape, check);
}

static int check_available(const struct spot *spot, const struct shape *shape)
{
	const struct tree *tree = spot->tree;
	bool is_other_word =
		tree->kind == TREE_TEXT && shape->only && strcasecmp(tree->text, shape->only) != 0;

	if (is_other_word)
		return error_set(spot->err, ATOLL_FAULT_HOST, 0,
				 "%s:%u: '%s: %s' is not yet available in this version", spot->name,
				 tree->line, spot->where, shown(tree->text));
	if (shape->is_later &&
	    (tree->kind == TREE_TEXT || (tree->n_items > 0 && tree->kind != TREE_MAP)))
		return error_set(spot->err, ATOLL_FAULT_HOST, 0,
				 "%s:%u: '%s' is not yet available in this version", spot->name,
				 tree->key_line, spot->where);
	return visit_beneath(spot, shape, check_available);
}

int shape_check(const char *name, const struct tree *tree, struct atoll_error *err)
{
	return check(&(struct spot){name, tree, "", err}, &job);
}

int shape_check_available(const char *name, const struct tree *tree, struct atoll_error *err)
{
	return check_available(&(struct spot){name, tree, "", err}, &job);
}

int shape_check_network(const char *name, const struct tree *tree, struct atoll_error *err)
{
	return check(&(struct spot){name, tree, "", err}, &network_on_wire);
}
