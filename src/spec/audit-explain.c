/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/audit-section.h"

#include "base/json.h"
#include "spec/spec-inner.h"

#include <stdio.h>

static const char *failure_word(enum rule_verdict verdict)
{
	return verdict == RULE_OFF ? "allow" : rule_verdict_word(verdict);
}

void spec_watch_canonical_before(const struct spec_watch *watch, struct json *json)
{
	const struct spec_monitor *monitor = &watch->monitor;

	json_uint(json, "hold", watch->hold_ms);
	if (!monitor->url)
		return;
	json_open(json, "monitor", '{');
	json_uint(json, "batch", monitor->batch);
	json_uint(json, "interval", monitor->interval_ms);
	json_str(json, "key", monitor->key);
	json_str(json, "model", monitor->model);
	json_str(json, "on-failure", failure_word(monitor->on_failure));
	json_str(json, "prompt", monitor->prompt);
	json_uint(json, "timeout", monitor->timeout_ms);
	json_str(json, "url", monitor->url);
	json_close(json, '}');
}

void spec_watch_canonical_after(const struct spec_watch *watch, struct json *json)
{
	/* In the order of their names. */
	static const enum rule_id order[RULE_COUNT] = {RULE_CREDENTIALS, RULE_MINER, RULE_DOWNLOAD,
						       RULE_ENCODED, RULE_DELETION};

	json_open(json, "rules", '{');
	for (int i = 0; i < RULE_COUNT; i++)
		json_str(json, rule_name(order[i]), rule_verdict_word(watch->rules[order[i]]));
	json_close(json, '}');
	/* Only where it is another: digests of contracts that do not say it stay as they were. */
	if (watch->log_bytes != SPEC_LOG_BYTES)
		json_uint(json, "size", watch->log_bytes);
}

void spec_watch_explain_text(const struct spec_watch *watch, struct buf *out)
{
	bool ends = false;

	for (int i = 0; i < RULE_COUNT; i++)
		ends |= watch->rules[i] > RULE_FLAG;
	if (ends || watch->monitor.url)
		buf_add_str(out, "\n");
	for (int i = 0; i < RULE_COUNT; i++)
		if (watch->rules[i] > RULE_FLAG)
			buf_addf(out, "- where it looks like this, %s: %s.\n",
				 watch->rules[i] == RULE_KILL ? "you are ended"
							      : "you are stopped until somebody "
								"decides",
				 rule_summary((enum rule_id)i));
	if (watch->monitor.url)
		buf_add_str(out,
			    "- a monitor outside is sent what is written down, and can have you "
			    "stopped or ended.\n");
}

static char *told(const char *clause, const char *text, const char *origin)
{
	char *ret;

	return asprintf(&ret, "%s %s (%s)", clause, text, origin) < 0
		       ? strdup("unknown (no memory)")
		       : ret;
}

char *spec_watch_widens(const struct spec_watch *watch,
			bool (*is_of_interest)(const void *data, const char *origin),
			const void *data)
{
	const struct spec_monitor *monitor = &watch->monitor;
	char clause[64];

	if (monitor->url && is_of_interest(data, monitor->origin))
		return told("audit.monitor", monitor->url, monitor->origin);
	for (int i = 0; i < RULE_COUNT; i++) {
		if (watch->rules[i] != RULE_OFF || !watch->rule_origins[i] ||
		    !is_of_interest(data, watch->rule_origins[i]))
			continue;
		snprintf(clause, sizeof clause, "audit.rules.%s", rule_name((enum rule_id)i));
		return told(clause, "off", watch->rule_origins[i]);
	}
	/* A smaller log tells less, and a larger one takes more of the disk. */
	if (watch->log_bytes != SPEC_LOG_BYTES && is_of_interest(data, watch->log_origin)) {
		snprintf(clause, sizeof clause, "%llu bytes", (unsigned long long)watch->log_bytes);
		return told("audit.size", clause, watch->log_origin);
	}
	return NULL;
}
