/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds any bytes to the rules: a hit must be printable, and the number of hits must be limited. */
#include "audit/event-rules.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum rule_verdict verdicts[RULE_COUNT] = {RULE_FLAG, RULE_FLAG, RULE_FLAG,
							       RULE_FLAG, RULE_FLAG};
	struct rules *rules = rules_new(verdicts);
	const uint8_t *end;
	size_t n_hits = 0;

	if (!rules)
		return 0;
	for (; size; size -= (size_t)(end - data), data = end) {
		struct rule_hit hits[RULE_COUNT];
		size_t n;

		end = memchr(data, '\n', size);
		end = end ? end + 1 : data + size;
		n = rules_look(rules, (const char *)data, (size_t)(end - data), hits);
		for (size_t i = 0; i < n; i++)
			if (!str_is_printable(hits[i].why) || !hits[i].why[0])
				abort();
		n_hits += n;
	}
	if (n_hits > RULE_COUNT * (RULE_HITS_MAX + 1))
		abort();
	rules_free(rules);
	return 0;
}
