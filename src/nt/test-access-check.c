/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/access-check.h"
#include "nt/sddl.h"

#include <errno.h>

#define USER "S-1-5-21-9-9-9-1001"
#define CAP  "S-1-5-21-1-2-3-2147483652"

static const struct nt_sid user = {.authority = 5, .n_subs = 5, .subs = {21, 9, 9, 9, 1001}};
static const struct nt_sid cap = {.authority = 5, .n_subs = 5, .subs = {21, 1, 2, 3, 2147483652}};
static const struct nt_sid logon = {.authority = 5, .n_subs = 3, .subs = {5, 0, 4711}};

static int check_with(const char *sddl, const struct nt_token *token, uint32_t desired)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;

	CHECK_INT(nt_sddl_parse(sddl, &sd), 0);
	return nt_access_check(&sd, token, desired);
}

/* The token that an unelevated run gets: the user's groups, restricted for writing. */
static struct nt_token sandbox_token(const struct nt_sid *restricting, size_t n, uint32_t covers)
{
	static const struct nt_group groups[] = {
		{.sid = {.authority = 1, .n_subs = 1}},
		{.sid = {.authority = 5, .n_subs = 2, .subs = {32, 545}}},
		{.sid = {.authority = 5, .n_subs = 2, .subs = {32, 544}}, .is_deny_only = true},
	};

	return (struct nt_token){.user = {.sid = user},
				 .groups = groups,
				 .n_groups = ARRAY_SIZE(groups),
				 .restriction = n ? NT_WRITE_RESTRICTED : NT_UNRESTRICTED,
				 .restricting = restricting,
				 .n_restricting = n,
				 .write_covers = covers};
}

TEST(entries_decide_in_their_order)
{
	const struct nt_token token = sandbox_token(NULL, 0, 0);

	CHECK_INT(check_with("D:(A;;FR;;;WD)(D;;FR;;;BU)", &token, NT_FILE_READ_DATA), 0);
	CHECK_INT(check_with("D:(D;;FR;;;BU)(A;;FR;;;WD)", &token, NT_FILE_READ_DATA), -EACCES);
	CHECK_INT(check_with("D:(A;;FR;;;WD)(A;;FW;;;BU)", &token,
			     NT_FILE_READ_DATA | NT_FILE_WRITE_DATA),
		  0);
}

TEST(an_absent_list_grants_all_and_an_empty_one_nothing)
{
	const struct nt_token token = sandbox_token(NULL, 0, 0);

	CHECK_INT(check_with("O:BA", &token, NT_FILE_ALL_ACCESS), 0);
	CHECK_INT(check_with("O:BAD:NO_ACCESS_CONTROL", &token, NT_FILE_ALL_ACCESS), 0);
	CHECK_INT(check_with("O:BAD:", &token, NT_READ_CONTROL), -EACCES);
}

TEST(the_owner_may_read_and_change_the_list)
{
	const struct nt_token token = sandbox_token(NULL, 0, 0);

	CHECK_INT(check_with("O:" USER "D:", &token, NT_READ_CONTROL | NT_WRITE_DAC), 0);
	CHECK_INT(check_with("O:" USER "D:", &token, NT_FILE_READ_DATA), -EACCES);
	CHECK_INT(check_with("O:" USER "D:(A;;RC;;;OW)", &token, NT_READ_CONTROL), 0);
	CHECK_INT(check_with("O:" USER "D:(A;;RC;;;OW)", &token, NT_WRITE_DAC), -EACCES);
}

TEST(deny_only_groups_deny_and_never_grant)
{
	const struct nt_token token = sandbox_token(NULL, 0, 0);

	CHECK_INT(check_with("D:(A;;FA;;;BA)", &token, NT_FILE_READ_DATA), -EACCES);
	CHECK_INT(check_with("D:(D;;FR;;;BA)(A;;FA;;;WD)", &token, NT_FILE_READ_DATA), -EACCES);
}

TEST(inherit_only_entries_do_not_count)
{
	const struct nt_token token = sandbox_token(NULL, 0, 0);

	CHECK_INT(check_with("D:(D;OICIIO;FA;;;WD)(A;;FR;;;WD)", &token, NT_FILE_READ_DATA), 0);
}

TEST(a_right_to_take_ownership_outlives_both_walks)
{
	const struct nt_sid restricting[] = {cap};
	struct nt_token token = sandbox_token(restricting, 1, NT_COVERS_CHANGES);

	CHECK_INT(check_with("D:", &token, NT_WRITE_OWNER), -EACCES);
	token.may_take_ownership = true;
	CHECK_INT(check_with("D:", &token, NT_WRITE_OWNER), 0);
}

/* The composition of both walks, written out: which of user and restricting SIDs have an entry. */
TEST(a_write_needs_both_walks_and_a_read_the_first)
{
	const struct nt_sid restricting[] = {cap, logon};
	const struct nt_token token = sandbox_token(restricting, 2, NT_COVERS_WRITE);
	static const struct {
		const char *sddl;
		int read, write;
	} table[] = {
		{"D:(A;;FA;;;" USER ")", 0, -EACCES},
		{"D:(A;;FA;;;" CAP ")", -EACCES, -EACCES},
		{"D:(A;;FA;;;" USER ")(A;;FA;;;" CAP ")", 0, 0},
		{"D:(D;;FW;;;" CAP ")(A;;FA;;;" USER ")(A;;FA;;;" CAP ")", 0, -EACCES},
		{"D:(A;;FA;;;WD)", 0, -EACCES},
		{"D:(A;;FR;;;WD)(A;;FA;;;" CAP ")", 0, -EACCES},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		CHECK_INT(check_with(table[i].sddl, &token, NT_FILE_READ_DATA), table[i].read);
		CHECK_INT(check_with(table[i].sddl, &token, NT_FILE_WRITE_DATA), table[i].write);
	}
}

TEST(everyone_as_a_restricting_sid_opens_what_everyone_may_write)
{
	const struct nt_sid restricting[] = {cap, nt_sid_everyone};
	const struct nt_token token = sandbox_token(restricting, 2, NT_COVERS_WRITE);

	CHECK_INT(check_with("D:(A;;FA;;;WD)", &token, NT_FILE_WRITE_DATA), 0);
}

TEST(the_two_readings_of_write_differ_in_delete_and_the_list)
{
	const struct nt_sid restricting[] = {cap};
	const struct nt_token weak = sandbox_token(restricting, 1, NT_COVERS_WRITE);
	const struct nt_token strong = sandbox_token(restricting, 1, NT_COVERS_CHANGES);
	static const char users[] = "O:" USER "D:(A;;FA;;;" USER ")";

	CHECK_INT(check_with(users, &weak, NT_DELETE), 0);
	CHECK_INT(check_with(users, &weak, NT_WRITE_DAC), 0);
	CHECK_INT(check_with(users, &strong, NT_DELETE), -EACCES);
	CHECK_INT(check_with(users, &strong, NT_WRITE_DAC), -EACCES);
	CHECK_INT(check_with(users, &weak, NT_FILE_WRITE_DATA), -EACCES);
}

TEST(a_fully_restricted_token_needs_both_walks_for_reading)
{
	const struct nt_sid restricting[] = {cap};
	struct nt_token token = sandbox_token(restricting, 1, 0);

	token.restriction = NT_RESTRICTED;
	CHECK_INT(check_with("D:(A;;FA;;;" USER ")", &token, NT_FILE_READ_DATA), -EACCES);
	CHECK_INT(check_with("D:(A;;FA;;;" USER ")(A;;FR;;;" CAP ")", &token, NT_FILE_READ_DATA),
		  0);
}

TEST(a_list_with_unknown_entries_is_not_judged)
{
	static const uint8_t bytes[] = {2,  0, 20, 0, 1, 0, 0, 0, 9, 3,
					12, 0, 1,  2, 3, 4, 5, 6, 7, 8};
	const struct nt_token token = sandbox_token(NULL, 0, 0);
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;

	nt_descriptor_init(&sd);
	sd.has_dacl = true;
	CHECK_INT(nt_acl_unpack(bytes, sizeof bytes, &sd.dacl), sizeof bytes);
	CHECK_INT(nt_access_check(&sd, &token, NT_FILE_READ_DATA), -ENOTSUP);
}
