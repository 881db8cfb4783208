/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "nt/nt-setup-plan.h"
#include "nt/sddl.h"

static const struct nt_sid user = {.authority = 5, .n_subs = 5, .subs = {21, 9, 9, 9, 1001}};
static const struct nt_sid offline = {.authority = 5, .n_subs = 5, .subs = {21, 9, 9, 9, 1002}};
static const struct nt_sid online = {.authority = 5, .n_subs = 5, .subs = {21, 9, 9, 9, 1003}};

static struct nt_accounts accounts;
static struct nt_filter filters[NT_FILTERS_MAX];
static size_t n_filters;

static void make(void)
{
	nt_accounts_name(&user, &accounts);
	n_filters = nt_filters(&accounts, &offline, filters);
}

TEST(accounts_are_named_after_the_real_user)
{
	struct nt_accounts other;

	make();
	nt_accounts_name(&online, &other);
	CHECK(strlen(accounts.offline) <= 20 && strlen(accounts.online) <= 20);
	CHECK(strcmp(accounts.offline, accounts.online) != 0);
	CHECK(strcmp(accounts.offline, other.offline) != 0);
}

TEST(a_password_has_four_kinds_of_characters)
{
	uint8_t random[32] = {0};
	char password[NT_PASSWORD_SIZE];

	for (unsigned i = 0; i < 256; i++) {
		memset(random, (int)i, sizeof random);
		nt_password(random, password);
		CHECK_INT(strlen(password), 32);
		CHECK(strpbrk(password, "ABCDEFGHIJKLMNOP"));
		CHECK(strpbrk(password, "abcdefghijklmnop"));
		CHECK(strpbrk(password, "01234567"));
		CHECK(strpbrk(password, "+-.,"));
	}
}

TEST(firewall_rules_leave_the_proxy_alone)
{
	struct nt_firewall_rule rules[NT_RULES_MAX];
	size_t n;

	make();
	n = nt_firewall_rules(&accounts, &offline, &online, rules);
	CHECK_INT(n, 5);
	CHECK_STR(rules[2].remote_ports, "1-47820,47823-65535");
	CHECK_STR(rules[0].users, "D:(A;;CC;;;S-1-5-21-9-9-9-1002)");
	CHECK(rules[3].is_inbound && rules[4].is_inbound);
	for (size_t i = 0; i < n; i++) {
		cleanup_with(nt_descriptor_done) struct nt_descriptor sd;

		CHECK_INT(nt_sddl_parse(rules[i].users, &sd), 0);
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(rules[i].name, rules[k].name) != 0);
	}
}

static bool gets_out(const struct nt_sid *sids, size_t n, const struct nt_sid *deny_only,
		     size_t n_deny_only, bool is_loopback, uint16_t port)
{
	bool is_out = false;

	for (unsigned layer = NT_LAYER_CONNECT_V4; layer <= NT_LAYER_CONNECT_V6; layer++) {
		const struct nt_connection connection = {.layer = layer,
							 .is_loopback = is_loopback,
							 .remote_port = port,
							 .sids = sids,
							 .n_sids = n,
							 .deny_only = deny_only,
							 .n_deny_only = n_deny_only};

		is_out = is_out || nt_filters_permit(filters, n_filters, &connection);
	}
	return is_out;
}

TEST(the_offline_account_reaches_the_proxy_and_nothing_else)
{
	const struct nt_sid own[] = {offline, nt_sid_everyone, nt_sid_users};

	make();
	CHECK(gets_out(own, 3, NULL, 0, true, accounts.ports[0]));
	CHECK(gets_out(own, 3, NULL, 0, true, accounts.ports[1]));
	CHECK(!gets_out(own, 3, NULL, 0, false, accounts.ports[0]));
	CHECK(!gets_out(own, 3, NULL, 0, true, 445));
	CHECK(!gets_out(own, 3, NULL, 0, false, 53));
	CHECK(!gets_out(own, 3, NULL, 0, false, 443));
}

TEST(tricks_with_tokens_do_not_get_out_of_the_model)
{
	const struct nt_sid everyone[] = {nt_sid_everyone, nt_sid_users};

	make();
	/* A thread with the anonymous token: neither the account nor Everyone. */
	CHECK(!gets_out(&nt_sid_anonymous, 1, NULL, 0, false, 443));
	/* A copy of its own token in which the account is deny-only. */
	CHECK(!gets_out(everyone, 2, &offline, 1, false, 443));
}

TEST(other_accounts_are_not_touched)
{
	const struct nt_sid others[] = {user, nt_sid_everyone};
	const struct nt_sid system[] = {nt_sid_system, nt_sid_everyone};
	const struct nt_sid on[] = {online, nt_sid_everyone};

	make();
	CHECK(gets_out(others, 2, NULL, 0, false, 443));
	CHECK(gets_out(system, 2, NULL, 0, false, 443));
	CHECK(gets_out(on, 2, NULL, 0, false, 443));
}

TEST(every_step_has_its_inverse_and_a_name_of_its_own)
{
	struct nt_setup_step steps[NT_SETUP_STEPS_MAX];
	size_t n;

	make();
	n = nt_setup_steps(&accounts, &offline, &online, steps);
	CHECK(n > 20 && n <= NT_SETUP_STEPS_MAX);
	for (size_t i = 0; i < n; i++) {
		CHECK(steps[i].inverse && *steps[i].name);
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(steps[i].kind, steps[k].kind) != 0 ||
			      strcmp(steps[i].name, steps[k].name) != 0);
	}
}
