/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/test.h"
#include "box/base-template.h"
#include "box/config.h"
#include "box/contract.h"
#include "box/daemon-state.h"

#include <errno.h>
#include <stdio.h>

/* What a tenant may say, and what he may not. */

static const struct config_tenant nothing;

TEST(a_tenants_contract_stands_over_ours)
{
	cleanup_free char *text = NULL;
	struct atoll_error err = {0};

	CHECK(contract_merge(
		      "limits: {memory: 2G}\nenvironment: {set: {A: \"1\"}}\n",
		      "workspace: {at: /home/user, mode: layer}\nlimits: {memory: 1G, pids: 5}\n",
		      NULL, &text, &err) == 0);
	CHECK_STR(text, "{\"workspace\":{\"at\":\"/home/user\",\"mode\":\"layer\"},"
			"\"limits\":{\"memory\":\"2G\",\"pids\":5},"
			"\"environment\":{\"set\":{\"A\":\"1\"}}}");
}

TEST(nothing_of_the_hosts_can_be_asked_for)
{
	static const char *const bad[] = {
		"workspace: /root\n",
		"workspace: {path: /root}\n",
		"workspace: {mode: direct}\n",
		"workspace: {at: /home/user, mode: read-only}\n",
		"filesystem: {read: [/root]}\n",
		"filesystem: {write: [/root]}\n",
		"filesystem: {sockets: [/run/docker.sock]}\n",
		"environment: {pass: [HOME]}\n",
		"environment: {descriptors: [3]}\n",
		"network: {secrets: [{name: A, host: b, from: env}]}\n",
		"network: {listen: [80]}\n",
		"network: {upstream: 'http://x'}\n",
		"audit: {monitor: {url: 'http://x'}}\n",
		"isolation: {accept-weaker: [all]}\n",
		"identity: online\n",
		"something-new: 1\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct atoll_error err = {0};
		char *text = NULL;

		if (contract_merge(bad[i], template_base_contract(), &nothing, &text, &err) == 0)
			test_fail(__FILE__, __LINE__, "%s", bad[i]);
		CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
		CHECK(strstr(err.text, "contract:1: '"));
	}
}

TEST(what_a_tenant_hides_stays_in_the_workspace_and_is_bounded)
{
	static const char *const bad[] = {"/**/x",	"/usr/**",	"~/**/x",      "../**/x",
					  "a/../../**", "a/..[b]/../*", "/home/user/*"};
	static const char *const good[] = {"**/x",     "src/*.key", "/etc/x",
					   "/usr/\\*", "..a/*",	    "a..b/*"};
	char contract[128];

	for (size_t i = 0; i < ARRAY_SIZE(bad) + ARRAY_SIZE(good); i++) {
		const bool is_bad = i < ARRAY_SIZE(bad);
		const char *line = is_bad ? bad[i] : good[i - ARRAY_SIZE(bad)];
		cleanup_free char *text = NULL;
		struct atoll_error err = {0};
		int r;

		snprintf(contract, sizeof contract, "filesystem: {hide: ['%s']}\n", line);
		r = contract_merge(contract, template_base_contract(), &nothing, &text, &err);
		if ((r < 0) != is_bad)
			test_fail(__FILE__, __LINE__, "%s: %s", line, err.text);
		if (is_bad && !strstr(err.text, "reaches out of the workspace"))
			test_fail(__FILE__, __LINE__, "%s: %s", line, err.text);
	}
	for (int kind = 0; kind < 2; kind++) {
		cleanup_free char *text = NULL;
		struct buf many = BUF_INIT(1 << 20);
		struct atoll_error err = {0};

		buf_add_str(&many, "filesystem: {hide: [");
		for (int i = 0; i < (kind ? 33 : 257); i++)
			buf_addf(&many, "%s'a%d%s'", i ? "," : "", i, kind ? "*" : "");
		buf_add_str(&many, "]}\n");
		CHECK(contract_merge(many.data, template_base_contract(), &nothing, &text, &err) <
		      0);
		CHECK(strstr(err.text, kind ? "more than 32 patterns" : "has 257 lines"));
		buf_done(&many);
	}
}

/* Our own network is no tenant's. */
TEST(only_public_addresses_can_be_allowed)
{
	static const char *const bad[] = {
		"127.0.0.1",	  "127.0.0.1:8642",  "10.0.0.0/8",    "192.168.1.1:22",
		"172.16.0.1",	  "169.254.169.254", "100.64.0.0/10", "'[::1]'",
		"'[fd00::1]:80'", "'[fe80::1]'",     "192.0.0.0/8",
	};
	static const char *const good[] = {"example.org", "8.8.8.8:53", "8.8.8.0/24",
					   "'*.example.org:443'"};
	char contract[128], *text = NULL;
	struct atoll_error err = {0};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err = (struct atoll_error){0};
		snprintf(contract, sizeof contract,
			 "network: {mode: rules, allow: [example.org, %s]}\n", bad[i]);
		if (contract_merge(contract, template_base_contract(), &nothing, &text, &err) == 0)
			test_fail(__FILE__, __LINE__, "%s", bad[i]);
		if (err.fault != ATOLL_FAULT_POLICY)
			test_fail(__FILE__, __LINE__, "%s: %s", bad[i], err.text);
		CHECK(!text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		snprintf(contract, sizeof contract, "network: {allow: [%s]}\n", good[i]);
		if (contract_merge(contract, template_base_contract(), &nothing, &text, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s: %s", good[i], err.text);
		free(take_ptr(text));
	}
	CHECK(contract_merge("network: {mode: open, deny: [10.0.0.0/8]}\n",
			     template_base_contract(), &nothing, &text, &err) == 0);
	free(text);
}

TEST(quotas_count_what_a_contract_says)
{
	struct atoll_error err = {0};
	struct box_sizes sizes;

	CHECK(contract_sizes("limits: {memory: 2G, disk: 1537K, cpus: 1.5}", &sizes, &err) == 0);
	CHECK_INT(sizes.memory_mib, 2048);
	CHECK_INT(sizes.disk_mib, 2);
	CHECK_INT(sizes.cpus, 2);
	CHECK(contract_sizes("limits: {pids: 600, files: unlimited}", &sizes, &err) == 0);
	CHECK_INT(sizes.pids, 600);
	CHECK(sizes.files == UINT32_MAX);
	CHECK(contract_sizes("limits: {memory: unlimited, disk: unlimited, cpus: unlimited}",
			     &sizes, &err) == 0);
	CHECK(sizes.memory_mib == UINT32_MAX && sizes.disk_mib == UINT32_MAX &&
	      sizes.cpus == UINT32_MAX);
	CHECK(contract_sizes("limits: 3", &sizes, &err) < 0);
}

TEST(what_is_no_yaml_is_refused_with_its_line)
{
	struct atoll_error err = {0};
	char *text = NULL;

	CHECK(contract_merge("limits: {\n", "{}", &nothing, &text, &err) < 0);
	CHECK(strstr(err.text, "contract:"));
}

TEST(a_granted_directory_can_be_the_workspace_and_nothing_beneath_it)
{
	char *granted[] = {(char *)"/srv/ci", NULL};
	struct config_tenant grants = {.workspaces = granted, .n_workspaces = 1};
	static const char *const good[] = {"workspace: /srv/ci\n", "workspace: {path: /srv/ci}\n"};
	static const char *const bad[] = {
		"workspace: /srv/ci/x\n",	  "workspace: {path: /srv}\n",
		"workspace: {path: /srv/ci/}\n",  "workspace: {path: /srv/ci/../ci}\n",
		"workspace: {path: [/srv/ci]}\n", "workspace: {path: /srv/ci, mode: direct}\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		cleanup_free char *text = NULL;
		struct atoll_error err = {0};
		char path[PATH_MAX] = "none";

		CHECK_INT(contract_merge(good[i], template_base_contract(), &grants, &text, &err),
			  0);
		/* Whatever way it is said, it is a layer. */
		CHECK(strstr(text, "\"mode\":\"layer\"") && strstr(text, "\"at\":\"/home/user\""));
		CHECK_INT(contract_workspace(text, path, &err), 0);
		CHECK_STR(path, "/srv/ci");
		CHECK(contract_merge(good[i], template_base_contract(), &nothing, &text, &err) < 0);
		CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct atoll_error err = {0};
		char *text = NULL;

		if (contract_merge(bad[i], template_base_contract(), &grants, &text, &err) == 0)
			test_fail(__FILE__, __LINE__, "%s", bad[i]);
		CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
	}
}

/* Also where one word stands for the section. */
TEST(nothing_near_is_reached_whatever_a_contract_says)
{
	static const char *const contracts[] = {
		"network: open\n",
		"network: {mode: open}\n",
		"network: {allow: [example.org]}\n",
		"{}\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(contracts); i++) {
		cleanup_free char *text = NULL;
		struct atoll_error err = {0};

		CHECK_INT(contract_merge(contracts[i], template_base_contract(), &nothing, &text,
					 &err),
			  0);
		CHECK(strstr(text, "\"near\":[]"));
	}
	for (int i = 0; i < 2; i++) {
		char *text = NULL;
		struct atoll_error err = {0};

		CHECK(contract_merge(i ? "network: {near: [10.0.0.1]}\n" : "network: {near: []}\n",
				     template_base_contract(), &nothing, &text, &err) < 0);
		CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
	}
}

TEST(what_the_operator_grants_of_his_network_may_be_allowed)
{
	static const char base[] = "network: {mode: rules, near: ['10.0.0.5:5432', 10.1.0.0/16]}\n";
	static const struct {
		const char *allow;
		bool is_good;
	} lines[] = {{"10.0.0.5:5432", true},	   {"10.0.0.5:22", false}, {"10.0.0.5", false},
		     {"10.1.2.3", true},	   {"10.1.0.0/24", true},  {"10.0.0.0/8", false},
		     {"'10.0.0.5:5432,22'", false}};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		cleanup_free char *text = NULL;
		struct atoll_error err = {0};
		char contract[96];

		snprintf(contract, sizeof contract, "network: {allow: [%s]}\n", lines[i].allow);
		if ((contract_merge(contract, base, &nothing, &text, &err) == 0) !=
		    lines[i].is_good)
			test_fail(__FILE__, __LINE__, "%s: %s", lines[i].allow, err.text);
	}
}

TEST(a_secret_is_what_the_tenant_has_stored_and_nothing_else)
{
	static const char *const from[] = {"env",	 "env:PATH",	"file:/etc/shadow",
					   "command:id", "secret:",	"secret:../x",
					   "secret:Big", "secret:sec_x"};
	cleanup_free char *text = NULL;
	struct atoll_error err = {0};
	char contract[160];

	CHECK_INT(contract_merge("network: {allow: [a.test], secrets: [{name: K, host: a.test, "
				 "from: 'secret:key'}]}\n",
				 template_base_contract(), &nothing, &text, &err),
		  0);
	CHECK(strstr(text, "\"from\":\"secret:key\""));
	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		char *none = NULL;

		snprintf(contract, sizeof contract,
			 "network: {secrets: [{name: K, host: a.test, from: '%s'}]}\n", from[i]);
		if (contract_merge(contract, template_base_contract(), &nothing, &none, &err) == 0)
			test_fail(__FILE__, __LINE__, "%s", from[i]);
	}
	CHECK(contract_merge("network: {secrets: [{name: K, host: a.test}]}\n",
			     template_base_contract(), &nothing, &text, &err) < 0);
}
