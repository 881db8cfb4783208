/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "box/base-template.h"
#include "box/inner.h"

#include <errno.h>

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

TEST(what_is_no_yaml_is_refused_with_its_line)
{
	struct atoll_error err = {0};
	char *text = NULL;

	CHECK(contract_merge("limits: {\n", "{}", &text, &err) < 0);
	CHECK(strstr(err.text, "contract:"));
}
