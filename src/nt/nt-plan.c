/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the plan of an unelevated Windows run. Called once per run, before anything is changed.
 * Order: what cannot be kept is refused first, then roots, protected paths, token and job follow.
 */
#include "nt/nt-plan.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/nt-path.h"

#include <errno.h>
#include <string.h>

#define INHERITED_BY_ALL (NT_ACE_OBJECT_INHERIT | NT_ACE_CONTAINER_INHERIT)

/* ---- what Windows cannot keep ---- */

static const struct {
	unsigned weaker;
	const char *word;
} weaker_words[] = {
	{NT_WEAKER_READ, "read"},
	{NT_WEAKER_NETWORK, "network"},
	{NT_WEAKER_PROTECT, "protect"},
	{NT_WEAKER_LIMITS, "limits"},
};

const char *nt_weaker_word(unsigned weaker)
{
	for (size_t i = 0; i < ARRAY_SIZE(weaker_words); i++)
		if (weaker_words[i].weaker == weaker)
			return weaker_words[i].word;
	return NULL;
}

unsigned nt_weaker_from_word(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(weaker_words); i++)
		if (streq(weaker_words[i].word, word))
			return weaker_words[i].weaker;
	return 0;
}

static bool has_absent(const struct nt_contract *contract)
{
	for (size_t i = 0; i < contract->n_protected; i++)
		if (!contract->protected[i].exists)
			return true;
	return false;
}

static int check_promises(const struct nt_contract *contract, unsigned *ret_weaker,
			  struct atoll_error *err)
{
	const struct {
		bool is_asked;
		unsigned weaker;
		const char *reason;
	} clauses[] = {
		{contract->hides, NT_WEAKER_READ,
		 "hide files: without the elevated set-up a command reads what the user may read; "
		 "run 'atoll setup', or accept it with --accept-weaker read"},
		{contract->cuts_network, NT_WEAKER_NETWORK,
		 "limit the network: without the elevated set-up no process can be cut off; run "
		 "'atoll setup', or accept it with --accept-weaker network"},
		{has_absent(contract), NT_WEAKER_PROTECT,
		 "protect a name that does not exist yet: rights are per directory; use a "
		 "workspace in mode layer, or accept it with --accept-weaker protect"},
		{contract->no_limit, NT_WEAKER_LIMITS,
		 "keep a limit that no job object has; leave it out, or accept it with "
		 "--accept-weaker limits"},
	};

	*ret_weaker = 0;
	for (size_t i = 0; i < ARRAY_SIZE(clauses); i++) {
		if (!clauses[i].is_asked)
			continue;
		if (!(contract->accepted & clauses[i].weaker))
			return error_set(err, ATOLL_FAULT_HOST, EPERM, "Windows cannot %s",
					 clauses[i].reason);
		*ret_weaker |= clauses[i].weaker;
	}
	return 0;
}

/* ---- roots and protected paths ---- */

/* Overlapping roots would give the inner one two SIDs, and its denials only one of them. */
static int check_roots(const struct nt_contract *contract, struct atoll_error *err)
{
	if (contract->n_roots > NT_ROOTS_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "%zu writable roots; at most %d are possible", contract->n_roots,
				 NT_ROOTS_MAX);
	for (size_t i = 0; i < contract->n_roots; i++) {
		for (size_t k = 0; k < contract->n_roots; k++) {
			const struct nt_root *a = &contract->roots[i], *b = &contract->roots[k];

			if (i != k && nt_path_is_within(a->path, b->path))
				return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
						 "writable root '%s' lies in '%s'", a->path,
						 b->path);
			if (i != k && nt_sid_equal(&a->sid, &b->sid))
				return error_set(err, ATOLL_FAULT_BUG, EINVAL,
						 "'%s' and '%s' have one SID", a->path, b->path);
		}
	}
	return 0;
}

static const struct nt_root *root_of(const struct nt_contract *contract, const char *path)
{
	for (size_t i = 0; i < contract->n_roots; i++)
		if (nt_path_is_within(path, contract->roots[i].path))
			return &contract->roots[i];
	return NULL;
}

static void add_entry(struct nt_plan *plan, enum nt_operation_kind kind, const struct nt_root *root,
		      const char *path, uint8_t flags, uint32_t mask)
{
	plan->operations[plan->n_operations++] = (struct nt_operation){
		.kind = kind, .path = path, .sid = root->sid, .flags = flags, .mask = mask};
}

static void add_label(struct nt_plan *plan, const struct nt_root *root, const char *path,
		      uint32_t level)
{
	plan->operations[plan->n_operations++] = (struct nt_operation){.kind = NT_ADD_LABEL,
								       .path = path,
								       .sid = root->sid,
								       .flags = INHERITED_BY_ALL,
								       .level = level};
}

/* Denials come before the grants of their root, so that no moment has the one without the other. */
static int add_denials(const struct nt_contract *contract, struct nt_plan *plan,
		       struct atoll_error *err)
{
	if (contract->n_protected > NT_PROTECTED_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "%zu protected paths; at most %d are possible",
				 contract->n_protected, NT_PROTECTED_MAX);
	for (size_t i = 0; i < contract->n_protected; i++) {
		const struct nt_protected *path = &contract->protected[i];
		const struct nt_root *root = root_of(contract, path->path);

		if (!root)
			return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
					 "protected path '%s' lies in no writable root",
					 path->path);
		if (!path->exists)
			continue;
		add_entry(plan, NT_ADD_DENIAL, root, path->path, INHERITED_BY_ALL,
			  NT_PROTECTED_RIGHTS);
		add_label(plan, root, path->path, NT_LEVEL_MEDIUM);
		plan->needs_strong_writes = true;
	}
	return 0;
}

static void add_grants(const struct nt_contract *contract, struct nt_plan *plan)
{
	for (size_t i = 0; i < contract->n_roots; i++) {
		const struct nt_root *root = &contract->roots[i];

		/* Without DELETE on the root itself: it cannot be moved into another root. */
		add_entry(plan, NT_ADD_GRANT, root, root->path, 0, NT_ROOT_RIGHTS);
		add_entry(plan, NT_ADD_GRANT, root, root->path,
			  INHERITED_BY_ALL | NT_ACE_INHERIT_ONLY, NT_CHILD_RIGHTS);
		add_label(plan, root, root->path, NT_LEVEL_LOW);
	}
}

static void specify_token(const struct nt_contract *contract, struct nt_plan *plan)
{
	struct nt_sid sids[NT_ROOTS_MAX];

	for (size_t i = 0; i < contract->n_roots; i++)
		sids[i] = contract->roots[i].sid;
	nt_token_specify(&contract->user, &contract->logon, sids, contract->n_roots, &plan->token);
}

static struct nt_job_limits job_limits(const struct nt_contract *contract)
{
	return (struct nt_job_limits){.kill_on_close = true,
				      .no_breakaway = true,
				      .no_clipboard = true,
				      .no_desktop = true,
				      .no_handles = true,
				      .no_system_parameters = true,
				      .memory_bytes = contract->memory_bytes,
				      .processes = contract->processes,
				      .cpu_percent = contract->cpu_percent,
				      .cpu_time_ms = contract->cpu_time_ms};
}

int nt_plan_make(const struct nt_contract *contract, struct nt_plan *ret, struct atoll_error *err)
{
	int r;

	memset(ret, 0, sizeof *ret);
	r = check_promises(contract, &ret->weaker, err);
	if (r == 0)
		r = check_roots(contract, err);
	if (r == 0)
		r = add_denials(contract, ret, err);
	if (r < 0)
		return r;
	add_grants(contract, ret);
	specify_token(contract, ret);
	ret->job = job_limits(contract);
	return 0;
}

const char *nt_job_check(const struct nt_job_limits *wanted, const struct nt_job_limits *found,
			 size_t i, bool *ret_holds)
{
	const struct {
		const char *name;
		bool holds;
	} checks[] = {
		{"job.kill-on-close", wanted->kill_on_close == found->kill_on_close},
		{"job.breakaway", wanted->no_breakaway == found->no_breakaway},
		{"job.memory", wanted->memory_bytes == found->memory_bytes},
		{"job.processes", wanted->processes == found->processes},
		{"job.cpu-rate", wanted->cpu_percent == found->cpu_percent},
		{"job.cpu-time", wanted->cpu_time_ms == found->cpu_time_ms},
		{"job.user-interface",
		 wanted->no_clipboard == found->no_clipboard &&
			 wanted->no_desktop == found->no_desktop &&
			 wanted->no_handles == found->no_handles &&
			 wanted->no_system_parameters == found->no_system_parameters},
	};

	if (i >= ARRAY_SIZE(checks))
		return NULL;
	*ret_holds = checks[i].holds;
	return checks[i].name;
}

const char *nt_job_differs(const struct nt_job_limits *wanted, const struct nt_job_limits *found)
{
	const char *name;
	bool holds;

	for (size_t i = 0; (name = nt_job_check(wanted, found, i, &holds)); i++)
		if (!holds)
			return name;
	return NULL;
}

/* ---- operations on a descriptor ---- */

static enum nt_ace_type ace_type(const struct nt_operation *operation)
{
	return operation->kind == NT_ADD_GRANT ? NT_ACE_ALLOW : NT_ACE_DENY;
}

static bool has_entry(const struct nt_operation *operation, const struct nt_acl *dacl)
{
	for (size_t i = 0; i < dacl->n_aces; i++) {
		const struct nt_ace *ace = &dacl->aces[i];

		if (!ace->raw && ace->type == ace_type(operation) &&
		    ace->flags == operation->flags && ace->mask == operation->mask &&
		    nt_sid_equal(&ace->sid, &operation->sid))
			return true;
	}
	return false;
}

static bool has_label(const struct nt_operation *operation, const struct nt_descriptor *sd)
{
	struct nt_label label;

	return nt_label_read(sd, &label) == 1 && label.level == operation->level &&
	       label.flags == operation->flags && label.policy == NT_NO_WRITE_UP;
}

bool nt_operation_holds(const struct nt_operation *operation, const struct nt_descriptor *sd)
{
	if (operation->kind == NT_ADD_LABEL)
		return has_label(operation, sd);
	return sd->has_dacl && !sd->is_dacl_null && has_entry(operation, &sd->dacl);
}

static int apply_label(const struct nt_operation *operation, struct nt_descriptor *sd)
{
	const struct nt_label wanted = {
		.level = operation->level, .policy = NT_NO_WRITE_UP, .flags = operation->flags};
	struct nt_label label;
	int r = nt_label_read(sd, &label);

	/* An inherited label gives way to the object's own. */
	if (r < 0 || (r == 1 && !(label.flags & NT_ACE_INHERITED)))
		return -EEXIST;
	r = nt_label_set(sd, &wanted);
	return r < 0 ? r : 1;
}

int nt_operation_apply(const struct nt_operation *operation, struct nt_descriptor *sd)
{
	int r;

	if (nt_operation_holds(operation, sd))
		return 0;
	if (operation->kind == NT_ADD_LABEL)
		return apply_label(operation, sd);
	/* An absent list grants everything to everybody: an entry would take that away. */
	if (!sd->has_dacl || sd->is_dacl_null)
		return -EEXIST;
	r = nt_acl_add(&sd->dacl, ace_type(operation), operation->flags, operation->mask,
		       &operation->sid);
	return r < 0 ? r : 1;
}

/* ---- objects beneath a root ---- */

static bool is_same_entry(const struct nt_ace *a, const struct nt_ace *b)
{
	return !a->raw && !b->raw && a->type == b->type && a->flags == b->flags &&
	       a->mask == b->mask && nt_sid_equal(&a->sid, &b->sid);
}

static bool list_has(const struct nt_acl *acl, const struct nt_ace *ace)
{
	for (size_t i = 0; i < acl->n_aces; i++)
		if (is_same_entry(&acl->aces[i], ace))
			return true;
	return false;
}

/* Entries from the nearest directory come first among the inherited ones, as Windows puts them. */
static int insert_inherited(struct nt_acl *acl, const struct nt_ace *ace)
{
	size_t at = 0;

	while (at < acl->n_aces && !(acl->aces[at].flags & NT_ACE_INHERITED))
		at++;
	while (at < acl->n_aces && ace->type == NT_ACE_ALLOW && acl->aces[at].type == NT_ACE_DENY)
		at++;
	return nt_acl_insert(acl, at, ace->type, ace->flags, ace->mask, &ace->sid);
}

static int descend_entries(const struct nt_descriptor *parent, bool is_directory,
			   const struct nt_sid *sid, struct nt_descriptor *sd)
{
	cleanup_with(nt_acl_done) struct nt_acl handed;
	int changed = 0, r;

	if (!sd->has_dacl || sd->is_dacl_null || (sd->control & NT_SE_DACL_PROTECTED))
		return 0;
	r = nt_acl_inherit(&parent->dacl, is_directory, sid, sid, &handed);
	for (size_t i = 0; r == 0 && i < handed.n_aces; i++) {
		const struct nt_ace *ace = &handed.aces[i];

		if (!nt_sid_equal(&ace->sid, sid) || list_has(&sd->dacl, ace))
			continue;
		r = insert_inherited(&sd->dacl, ace);
		changed = 1;
	}
	return r < 0 ? r : changed;
}

int nt_descend(const struct nt_descriptor *parent, bool is_directory, const struct nt_sid *sid,
	       struct nt_descriptor *sd)
{
	int changed = descend_entries(parent, is_directory, sid, sd), r;
	struct nt_label label;

	if (changed < 0 || nt_label_read(sd, &label) != 0)
		return changed;
	r = nt_label_inherit(parent, is_directory, sd);
	if (r < 0)
		return r;
	return changed || nt_label_read(sd, &label) == 1;
}

bool nt_revoke(const struct nt_sid *sid, struct nt_descriptor *sd)
{
	struct nt_label label;
	bool changed = false;

	for (size_t i = sd->dacl.n_aces; i-- > 0;)
		if (!sd->dacl.aces[i].raw && nt_sid_equal(&sd->dacl.aces[i].sid, sid)) {
			nt_acl_remove(&sd->dacl, i);
			changed = true;
		}
	if (nt_label_read(sd, &label) == 1 && label.policy == NT_NO_WRITE_UP &&
	    (label.level == NT_LEVEL_LOW || label.level == NT_LEVEL_MEDIUM)) {
		nt_label_remove(sd);
		changed = true;
	}
	return changed;
}
