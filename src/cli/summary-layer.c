/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/summary-layer.h"

#include "base/json.h"
#include "ui/ui.h"

#include <atoll/atoll.h>
#include <inttypes.h>

static uint64_t count_changes(const struct atoll_result *result)
{
	return result->n_added + result->n_changed + result->n_deleted;
}

void summary_layer_text(const struct atoll_result *result, FILE *out)
{
	uint64_t n = count_changes(result);

	if (!result->record[0])
		return;
	if (n > 0)
		fprintf(out, "atoll: %" PRIu64 " file%s changed (atoll diff %s; atoll apply %s)\n",
			n, n == 1 ? "" : "s", result->record, result->record);
	if (result->n_marked > 0)
		fprintf(out,
			"atoll: %" PRIu64 " of them the host would execute or trust: applied only "
			"if named\n",
			result->n_marked);
	if (result->n_conflicts > 0)
		fprintf(out,
			"atoll: the host has changed %" PRIu64 " of them meanwhile; 'atoll diff "
			"--stat %s' shows which\n",
			result->n_conflicts, result->record);
	if (result->layer_note[0]) {
		fprintf(out, "atoll: the changes of %s are incomplete: ", result->record);
		print_escaped(out, result->layer_note);
		fputc('\n', out);
	}
}

void summary_layer_json(const struct atoll_result *result, struct json *json)
{
	json_str(json, "record", result->record[0] ? result->record : NULL);
	json_open(json, "changes", '{');
	json_uint(json, "added", result->n_added);
	json_uint(json, "changed", result->n_changed);
	json_uint(json, "deleted", result->n_deleted);
	json_uint(json, "marked", result->n_marked);
	json_uint(json, "conflicts", result->n_conflicts);
	json_close(json, '}');
	json_str(json, "layer_note", result->layer_note[0] ? result->layer_note : NULL);
}
