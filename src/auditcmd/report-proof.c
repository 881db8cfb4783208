/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/report-proof.h"

#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "auditcmd/report-model.h"
#include "auditcmd/report.h"
#include "base/buf.h"
#include "base/scope.h"

#include <atoll/audit.h>

/* Verifies the log with the store's key, as `atoll verify` does. */

static json_t *make_finding(const struct events *events)
{
	static const char *const findings[] = {[ATOLL_FINDING_GOOD] = "good",
					       [ATOLL_FINDING_OPEN] = "open",
					       [ATOLL_FINDING_BROKEN] = "broken",
					       [ATOLL_FINDING_UNKNOWN] = "unknown"};
	const struct atoll_verify_options options = {0};
	cleanup_buf struct buf text = BUF_INIT(8192);
	struct atoll_verified found = {.finding = ATOLL_FINDING_UNKNOWN};
	struct atoll_error err = {0};
	int r = events->id[0] ? atoll_verify(events->id, &options, &found, &err)
			      : atoll_verify_file(events->path, &options, &found, &err);

	event_show(r < 0 ? err.text : found.text, &text);
	return json_pack("{s:s, s:o, s:I}", "finding",
			 findings[r < 0 ? ATOLL_FINDING_UNKNOWN : found.finding], "text",
			 report_move_text(&text), "signed", (json_int_t)found.n_signed);
}

json_t *report_proof(const struct report *report, const struct events *events)
{
	const json_t *head = json_object_get(report->data, "head");
	json_t *proof = make_finding(events);

	json_object_set_new(proof, "size", json_integer((json_int_t)event_number(head, "size", 0)));
	json_object_set_new(proof, "root", report_text(head, "root"));
	json_object_set_new(proof, "closed", json_boolean(event_has(head, "last")));
	json_object_set_new(proof, "note", report_text(head, "note"));
	json_object_set_new(proof, "lines", json_integer((json_int_t)events->n_lines));
	json_object_del(report->data, "head");
	return proof;
}
