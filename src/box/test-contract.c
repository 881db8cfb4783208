/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "box/base-template.h"
#include "box/inner.h"

#include <errno.h>
#include <stdio.h>

/* What a tenant may say, and what he may not. */

TEST(a_tenants_contract_stands_over_ours)
{
	cleanup_free char *text = NULL;
	struct atoll_error err = {0};

	CHECK(contract_merge(
		      "limits: {memory: 2G}\nenvironment: {set: {A: \"1\"}}\n",
		      "workspace: {at: /home/user, mode: layer}\nlimits: {memory: 1G, pids: 5}\n",
		      &text, &err) == 0);
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

		if (contract_merge(bad[i], template_base_contract(), &text, &err) == 0)
			test_fail(__FILE__, __LINE__, "%s", bad[i]);
		CHECK_INT(err.fault, ATOLL_FAULT_POLICY);
		CHECK(strstr(err.text, "contract:1: '"));
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
		if (contract_merge(contract, template_base_contract(), &text, &err) == 0)
			test_fail(__FILE__, __LINE__, "%s", bad[i]);
		if (err.fault != ATOLL_FAULT_POLICY)
			test_fail(__FILE__, __LINE__, "%s: %s", bad[i], err.text);
		CHECK(!text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		snprintf(contract, sizeof contract, "network: {allow: [%s]}\n", good[i]);
		if (contract_merge(contract, template_base_contract(), &text, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s: %s", good[i], err.text);
		free(take_ptr(text));
	}
	CHECK(contract_merge("network: {mode: open, deny: [10.0.0.0/8]}\n",
			     template_base_contract(), &text, &err) == 0);
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

	CHECK(contract_merge("limits: {\n", "{}", &text, &err) < 0);
	CHECK(strstr(err.text, "contract:"));
}
