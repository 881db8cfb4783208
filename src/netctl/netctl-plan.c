/* SPDX-License-Identifier: Apache-2.0 */
#include "base/program.h"
#include "base/str.h"
#include "isolate/plan.h"
#include "netctl/answers.h"
#include "netctl/netctl-config.h"
#include "netctl/netctl-process.h"
#include "netctl/netctl.h"
#include "spec/spec.h"

#include <limits.h>
#include <stdio.h>

/* The same checks as in a run: a line PLAN_MISSING makes the run fail. */
static void describe_needs(const struct spec *spec, struct plan *plan)
{
	struct atoll_error err = {0};
	const char *upstream;
	char path[PATH_MAX];

	if (program_find(NETCTL_PROGRAM, path, sizeof path) < 0)
		plan_add(plan, PLAN_MISSING, "network", NULL, NETCTL_PROGRAM,
			 "it is installed beside atoll, and is not there", "default");
	if (network_inspects(&spec->network) && netctl_find_trust(path, sizeof path, &err) < 0)
		plan_add(plan, PLAN_MISSING, "network.authority", NULL, "certificate check",
			 err.text, "default");
	if (netctl_find_upstream(spec, &upstream, &err) < 0)
		plan_add(plan, PLAN_MISSING, "network.upstream", "env", "HTTP CONNECT", err.text,
			 spec->network.upstream_origin);
	else if (spec->network.upstream && streq(spec->network.upstream, "env"))
		plan_add(plan, PLAN_NOTE, "network.upstream", "env",
			 upstream ? "HTTP CONNECT through the caller's proxy"
				  : "no proxy is set here: directly",
			 NULL, spec->network.upstream_origin);
}

int netctl_describe(const struct spec *spec, struct plan *plan, struct atoll_error *err)
{
	struct network_rule *rules;
	size_t n;
	int r;

	if (!network_is_on(&spec->network))
		return 0;
	describe_needs(spec, plan);
	r = answers_read(spec, &rules, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		char subject[NETWORK_NAME_MAX + 16];

		snprintf(subject, sizeof subject, "%s:%u", rules[i].host, rules[i].ports[0]);
		plan_add(plan, PLAN_ENFORCED, "network.allow", subject,
			 "egress: a person's answer to exactly this contract", NULL,
			 rules[i].origin);
	}
	answers_free(rules, n);
	return 0;
}
