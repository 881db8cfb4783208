/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/nt-plan.h"
#include "nt/sddl.h"

#include <errno.h>

#define USER "S-1-5-21-9-9-9-1001"

static const struct nt_sid cap = {.authority = 5, .n_subs = 5, .subs = {21, 1, 1, 1, 2147483649}};
static const struct nt_sid other = {.authority = 5, .n_subs = 5, .subs = {21, 2, 2, 2, 2147483650}};

static struct nt_plan plan;

static int make(const struct nt_contract *contract, const char *want)
{
	struct atoll_error err = {0};
	int r = nt_plan_make(contract, &plan, &err);

	if (want && !strstr(err.text, want))
		test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", err.text, want);
	return r;
}

static const struct nt_root project = {.path = "C:\\p", .sid = {5, 5, {21, 1, 1, 1, 2147483649}}};
static const struct nt_protected git = {.path = "C:\\p\\.git", .exists = true};

static struct nt_contract plain(void)
{
	return (struct nt_contract){
		.roots = &project, .n_roots = 1, .protected = &git, .n_protected = 1};
}

TEST(promises_that_windows_cannot_keep_are_refused_or_accepted_by_name)
{
	static const struct nt_protected absent = {.path = "C:\\p\\.envrc"};
	struct nt_contract contract = plain();

	contract.hides = true;
	CHECK_INT(make(&contract, "--accept-weaker read"), -EPERM);
	contract.accepted = NT_WEAKER_READ;
	contract.cuts_network = true;
	CHECK_INT(make(&contract, "--accept-weaker network"), -EPERM);
	contract.accepted |= NT_WEAKER_NETWORK;
	contract.protected = &absent;
	CHECK_INT(make(&contract, "--accept-weaker protect"), -EPERM);
	contract.accepted |= NT_WEAKER_PROTECT;
	contract.no_limit = "disk";
	CHECK_INT(make(&contract, "--accept-weaker limits"), -EPERM);
	contract.accepted |= NT_WEAKER_LIMITS;
	CHECK_INT(make(&contract, NULL), 0);
	CHECK_INT(plan.weaker,
		  NT_WEAKER_READ | NT_WEAKER_NETWORK | NT_WEAKER_PROTECT | NT_WEAKER_LIMITS);
}

TEST(accepting_more_than_is_asked_weakens_nothing)
{
	struct nt_contract contract = plain();

	contract.accepted = NT_WEAKER_READ | NT_WEAKER_NETWORK | NT_WEAKER_PROTECT;
	CHECK_INT(make(&contract, NULL), 0);
	CHECK_INT(plan.weaker, 0);
}

TEST(denials_come_before_the_grant_of_their_root)
{
	const struct nt_contract contract = plain();

	CHECK_INT(make(&contract, NULL), 0);
	CHECK_INT(plan.n_operations, 5);
	CHECK_INT(plan.operations[0].kind, NT_ADD_DENIAL);
	CHECK_STR(plan.operations[0].path, "C:\\p\\.git");
	CHECK_INT(plan.operations[1].kind, NT_ADD_LABEL);
	CHECK_INT(plan.operations[1].level, NT_LEVEL_MEDIUM);
	CHECK_INT(plan.operations[2].kind, NT_ADD_GRANT);
	CHECK(!(plan.operations[2].mask & (NT_FILE_DELETE_CHILD | NT_DELETE)));
	CHECK(!(plan.operations[3].mask & NT_FILE_DELETE_CHILD));
	CHECK_INT(plan.operations[4].level, NT_LEVEL_LOW);
	CHECK_INT(plan.token.n_restricting, 4);
	CHECK_INT(plan.token.integrity, NT_LEVEL_LOW);
	CHECK(plan.job.kill_on_close && plan.job.no_breakaway);
}

TEST(roots_that_overlap_or_share_a_sid_are_refused)
{
	const struct nt_root overlap[] = {{"C:\\p", cap}, {"c:\\P\\sub", other}};
	const struct nt_root shared[] = {{"C:\\p", cap}, {"C:\\q", cap}};
	struct nt_contract contract = {.roots = overlap, .n_roots = 2};

	CHECK_INT(make(&contract, "lies in"), -EINVAL);
	contract.roots = shared;
	CHECK_INT(make(&contract, "one SID"), -EINVAL);
	contract.n_roots = NT_ROOTS_MAX + 1;
	CHECK_INT(make(&contract, "at most"), -EINVAL);
}

TEST(a_protected_path_outside_every_root_is_refused)
{
	static const struct nt_protected outside = {.path = "C:\\project", .exists = true};
	struct nt_contract contract = plain();

	contract.protected = &outside;
	CHECK_INT(make(&contract, "no writable root"), -EINVAL);
}

TEST(an_undone_operation_leaves_the_list_as_it_was)
{
	static const char before[] = "D:(D;;FW;;;AN)(A;;FA;;;" USER ")(A;ID;FA;;;SY)";
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;
	cleanup_free char *text = NULL;
	struct nt_contract contract = plain();

	contract.protected = NULL;
	contract.n_protected = 0;
	CHECK_INT(make(&contract, NULL), 0);
	CHECK_INT(nt_sddl_parse(before, &sd), 0);
	for (int round = 0; round < 2; round++) /* a second time changes nothing */
		for (size_t i = 0; i < plan.n_operations; i++)
			CHECK_INT(nt_operation_apply(&plan.operations[i], &sd), round == 0);
	CHECK_INT(sd.dacl.n_aces, 5);
	CHECK(nt_acl_is_canonical(&sd.dacl));
	CHECK(nt_revoke(&cap, &sd));
	CHECK(!nt_revoke(&cap, &sd));
	CHECK_INT(nt_sddl_text(&sd, &text), 0);
	CHECK_STR(text, before);
}
