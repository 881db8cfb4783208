/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/access-check.h"

/*
 * The token of the command
 *
 * The specification says what the launcher asks Windows for; the view is what Windows answers when
 * the finished token is read back. nt_token_differs() compares both: a token that differs in one
 * point is never used.
 *
 *	privileges   none but SeChangeNotifyPrivilege (traverse directories)
 *	restricting  the capability SIDs of this run's roots, the logon SID (console, desktop),
 *		     Everyone and RESTRICTED (programs of Windows do not start without them; files
 *		     that these two may write are closed by the integrity level)
 *	integrity    low
 *	default list what objects get that the command makes: user, SYSTEM and logon session. Its
 *		     size does not grow with the roots, and Everyone is not in it.
 */

#define NT_ROOTS_MAX	   16
#define NT_RESTRICTING_MAX (NT_ROOTS_MAX + 3)
#define NT_DEFAULT_LIST	   3
#define NT_TOKEN_GROUPS	   1024 /* the most that Windows gives a token */

struct nt_token_spec {
	struct nt_sid user, logon;
	struct nt_sid restricting[NT_RESTRICTING_MAX];
	size_t n_restricting;
	struct nt_sid default_list[NT_DEFAULT_LIST]; /* each with GENERIC_ALL */
	uint32_t integrity;
};

/* The token as Windows describes it. */
struct nt_token_view {
	struct nt_sid user;
	struct nt_sid
		restricting[NT_RESTRICTING_MAX + 1]; /* one more, to see that there are more */
	size_t n_restricting;
	bool is_restricted, is_write_restricted;
	size_t n_privileges;	    /* enabled or not */
	bool has_only_traverse;	    /* the only privilege is SeChangeNotifyPrivilege */
	bool has_administrators;    /* the group is enabled for grants */
	struct nt_acl default_list; /* owned */
	uint32_t integrity;
};

/* Fill in the specification for the given roots' SIDs. */
void nt_token_specify(const struct nt_sid *user, const struct nt_sid *logon,
		      const struct nt_sid *roots, size_t n_roots, struct nt_token_spec *ret);

/* Check number `i`: its name, and whether the token passes it. NULL behind the last one. */
const char *nt_token_check(const struct nt_token_spec *spec, const struct nt_token_view *view,
			   size_t i, bool *ret_holds);

/* The name of the first check that the token does not pass ("token.restricting"), or NULL. */
const char *nt_token_differs(const struct nt_token_spec *spec, const struct nt_token_view *view);

/* What the model decides accesses with: the user's token under this specification. `groups` stay
 * the caller's. */
struct nt_token nt_token_model(const struct nt_token_spec *spec, const struct nt_group *groups,
			       size_t n_groups, uint32_t write_covers);
