/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/nt-label.h"
#include "nt/nt-token.h"
#include "nt/sddl.h"

#include <errno.h>

static const struct nt_sid user = {.authority = 5, .n_subs = 5, .subs = {21, 9, 9, 9, 1001}};
static const struct nt_sid logon = {.authority = 5, .n_subs = 3, .subs = {5, 0, 4711}};
static const struct nt_sid cap = {.authority = 5, .n_subs = 5, .subs = {21, 1, 1, 1, 2147483649}};

static struct nt_token_spec spec;

/* The view of a token that is exactly as specified. */
static struct nt_token_view right_view(void)
{
	struct nt_token_view view = {.user = user,
				     .n_restricting = spec.n_restricting,
				     .is_restricted = true,
				     .is_write_restricted = true,
				     .n_privileges = 1,
				     .has_only_traverse = true,
				     .integrity = NT_LEVEL_LOW};

	for (size_t i = 0; i < spec.n_restricting; i++) /* in another order */
		view.restricting[i] = spec.restricting[spec.n_restricting - 1 - i];
	nt_acl_init(&view.default_list);
	for (size_t i = 0; i < NT_DEFAULT_LIST; i++)
		CHECK_INT(nt_acl_add(&view.default_list, NT_ACE_ALLOW, 0, NT_GENERIC_ALL,
				     &spec.default_list[i]),
			  0);
	return view;
}

static const char *differs(void (*change)(struct nt_token_view *))
{
	struct nt_token_view view;
	const char *found;

	nt_token_specify(&user, &logon, &cap, 1, &spec);
	view = right_view();
	if (change)
		change(&view);
	found = nt_token_differs(&spec, &view);
	nt_acl_done(&view.default_list);
	return found;
}

static void lose_sid(struct nt_token_view *view)
{
	view->n_restricting--;
}

static void other_sid(struct nt_token_view *view)
{
	view->restricting[0] = nt_sid_users;
}

static void read_restricted(struct nt_token_view *view)
{
	view->is_write_restricted = false;
}

static void more_privileges(struct nt_token_view *view)
{
	view->n_privileges = 21;
}

static void other_privilege(struct nt_token_view *view)
{
	view->has_only_traverse = false;
}

static void administrators(struct nt_token_view *view)
{
	view->has_administrators = true;
}

static void medium(struct nt_token_view *view)
{
	view->integrity = NT_LEVEL_MEDIUM;
}

static void everyone(struct nt_token_view *view)
{
	view->default_list.aces[0].sid = nt_sid_everyone;
}

static void other_user(struct nt_token_view *view)
{
	view->user = nt_sid_system;
}

TEST(a_token_that_differs_in_one_point_is_named)
{
	CHECK(!differs(NULL));
	CHECK_STR(differs(lose_sid), "token.restricting");
	CHECK_STR(differs(other_sid), "token.restricting");
	CHECK_STR(differs(read_restricted), "token.write-restricted");
	CHECK_STR(differs(more_privileges), "token.privileges");
	CHECK_STR(differs(other_privilege), "token.privileges");
	CHECK_STR(differs(administrators), "token.administrators");
	CHECK_STR(differs(medium), "token.integrity");
	CHECK_STR(differs(everyone), "token.default-list");
	CHECK_STR(differs(other_user), "token.user");
}

TEST(a_label_is_read_as_it_was_set_and_removed_without_a_trace)
{
	const struct nt_label low = {.level = NT_LEVEL_LOW, .policy = NT_NO_WRITE_UP, .flags = 3};
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;
	struct nt_label label;

	CHECK_INT(nt_sddl_parse("O:SYD:(A;;FA;;;WD)", &sd), 0);
	CHECK_INT(nt_label_read(&sd, &label), 0);
	CHECK_INT(label.level, NT_LEVEL_MEDIUM);
	CHECK_INT(nt_label_set(&sd, &low), 0);
	CHECK_INT(nt_label_set(&sd, &low), 0);
	CHECK_INT(sd.sacl.n_aces, 1);
	CHECK_INT(nt_label_read(&sd, &label), 1);
	CHECK_INT(label.level, NT_LEVEL_LOW);
	CHECK_INT(label.flags, 3);
	nt_label_remove(&sd);
	CHECK(!sd.has_sacl);
	CHECK_INT(nt_label_read(&sd, &label), 0);
}

TEST(a_lower_token_reads_and_changes_nothing_above)
{
	const struct nt_label low = {.level = NT_LEVEL_LOW, .policy = NT_NO_WRITE_UP};
	const struct nt_label secret = {.level = NT_LEVEL_MEDIUM,
					.policy = NT_NO_WRITE_UP | NT_NO_READ_UP};
	struct nt_token token = {.user = {.sid = user}, .integrity = NT_LEVEL_LOW};
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;

	CHECK_INT(nt_sddl_parse("O:S-1-5-21-9-9-9-1001D:(A;;FA;;;S-1-5-21-9-9-9-1001)", &sd), 0);
	CHECK_INT(nt_access_check(&sd, &token, NT_FILE_GENERIC_READ), 0);
	CHECK_INT(nt_access_check(&sd, &token, NT_FILE_WRITE_DATA), -EACCES);
	CHECK_INT(nt_access_check(&sd, &token, NT_DELETE), -EACCES);
	CHECK_INT(nt_access_check(&sd, &token, NT_WRITE_DAC), -EACCES);
	token.may_take_ownership = true;
	CHECK_INT(nt_access_check(&sd, &token, NT_WRITE_OWNER), -EACCES);
	CHECK_INT(nt_label_set(&sd, &secret), 0);
	CHECK_INT(nt_access_check(&sd, &token, NT_FILE_READ_DATA), -EACCES);
	CHECK_INT(nt_label_set(&sd, &low), 0);
	CHECK_INT(nt_access_check(&sd, &token, NT_FILE_ALL_ACCESS), 0);
	sd.sacl.aces[0].raw[8] = 7; /* no SID begins so */
	CHECK_INT(nt_access_check(&sd, &token, NT_FILE_READ_DATA), -EACCES);
}
