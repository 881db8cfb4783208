/* SPDX-License-Identifier: Apache-2.0 */
/* Specifies and compares tokens. Called by the planner, and by the engine after it read a token
 * back. */
#include "nt/nt-token.h"

#include "nt/nt-label.h"

#include <string.h>

void nt_token_specify(const struct nt_sid *user, const struct nt_sid *logon,
		      const struct nt_sid *roots, size_t n_roots, struct nt_token_spec *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->user = *user;
	ret->logon = *logon;
	for (size_t i = 0; i < n_roots; i++)
		ret->restricting[ret->n_restricting++] = roots[i];
	ret->restricting[ret->n_restricting++] = *logon;
	ret->restricting[ret->n_restricting++] = nt_sid_everyone;
	ret->restricting[ret->n_restricting++] = nt_sid_restricted;
	ret->default_list[0] = *user;
	ret->default_list[1] = nt_sid_system;
	ret->default_list[2] = *logon;
	ret->integrity = NT_LEVEL_LOW;
}

static bool has_sid(const struct nt_sid *sids, size_t n, const struct nt_sid *sid)
{
	for (size_t i = 0; i < n; i++)
		if (nt_sid_equal(&sids[i], sid))
			return true;
	return false;
}

/* Windows may list the SIDs in another order. */
static bool same_restricting(const struct nt_token_spec *spec, const struct nt_token_view *view)
{
	if (spec->n_restricting != view->n_restricting)
		return false;
	for (size_t i = 0; i < spec->n_restricting; i++)
		if (!has_sid(view->restricting, view->n_restricting, &spec->restricting[i]))
			return false;
	return true;
}

static bool same_default_list(const struct nt_token_spec *spec, const struct nt_acl *list)
{
	if (list->n_aces != NT_DEFAULT_LIST)
		return false;
	for (size_t i = 0; i < NT_DEFAULT_LIST; i++) {
		const struct nt_ace *ace = &list->aces[i];

		if (ace->raw || ace->type != NT_ACE_ALLOW || ace->mask != NT_GENERIC_ALL ||
		    !has_sid(spec->default_list, NT_DEFAULT_LIST, &ace->sid))
			return false;
	}
	return true;
}

const char *nt_token_check(const struct nt_token_spec *spec, const struct nt_token_view *view,
			   size_t i, bool *ret_holds)
{
	const struct {
		const char *name;
		bool holds;
	} checks[] = {
		{"token.user", nt_sid_equal(&spec->user, &view->user)},
		{"token.restricting", view->is_restricted && same_restricting(spec, view)},
		{"token.write-restricted", view->is_write_restricted},
		{"token.privileges", view->n_privileges <= 1 && view->has_only_traverse},
		{"token.administrators", !view->has_administrators},
		{"token.integrity", view->integrity == spec->integrity},
		{"token.default-list", same_default_list(spec, &view->default_list)},
	};

	if (i >= sizeof checks / sizeof *checks)
		return NULL;
	*ret_holds = checks[i].holds;
	return checks[i].name;
}

const char *nt_token_differs(const struct nt_token_spec *spec, const struct nt_token_view *view)
{
	const char *name;
	bool holds;

	for (size_t i = 0; (name = nt_token_check(spec, view, i, &holds)); i++)
		if (!holds)
			return name;
	return NULL;
}

struct nt_token nt_token_model(const struct nt_token_spec *spec, const struct nt_group *groups,
			       size_t n_groups, uint32_t write_covers)
{
	return (struct nt_token){.user = {.sid = spec->user},
				 .groups = groups,
				 .n_groups = n_groups,
				 .restriction = NT_WRITE_RESTRICTED,
				 .restricting = spec->restricting,
				 .n_restricting = spec->n_restricting,
				 .write_covers = write_covers,
				 .integrity = spec->integrity};
}
