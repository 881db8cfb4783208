/* SPDX-License-Identifier: Apache-2.0 */
/* Ledgers that a crash or a stranger damaged. What is read is written and read as the same. */
#include "base/scope.h"
#include "nt/nt-ledger.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nt_ledger ledger, again;

	if (nt_ledger_read((const char *)data, size, &ledger) < 0)
		return 0;
	for (size_t i = 0; i < ledger.n_things; i++) {
		const char *const fields[] = {ledger.things[i].name, NULL};
		cleanup_free char *line = nt_ledger_line(ledger.things[i].kind, fields);

		if (!line)
			continue; /* longer with its escapes than a line may be */
		if (nt_ledger_read(line, strlen(line), &again) < 0)
			continue;
		if (again.n_things != 1 || strcmp(again.things[0].name, ledger.things[i].name) != 0)
			abort();
		nt_ledger_done(&again);
	}
	nt_ledger_done(&ledger);
	return 0;
}
