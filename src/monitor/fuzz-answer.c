/* SPDX-License-Identifier: Apache-2.0 */
/* What a service says is a stranger's: either a verdict that there is, or none. */
#include "base/str.h"
#include "monitor/monitor.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct batch batch = {.n = 3, .first = 2, .last = 4};
	struct monitor_answer answer;
	const char *problem = NULL;

	if (answer_read((const char *)data, size, &batch, &answer, &problem) < 0)
		return problem ? 0 : (abort(), 0);
	if (answer.verdict >= RULE_VERDICTS || answer.n_about > MONITOR_ABOUT_MAX ||
	    !str_is_printable(answer.why))
		abort();
	return 0;
}
