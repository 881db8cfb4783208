/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/program/report.h"

#include "audit/program/events.h"

/* Whether the log verifies. */

json_t *report_proof(const struct report *report, const struct events *events)
{
	const json_t *head = json_object_get(report->data, "head");
	json_t *proof = json_pack("{s:b, s:s, s:s}", "checked", 0, "text", "", "command", "");

	(void)events;
	json_object_set_new(proof, "size", json_integer((json_int_t)event_number(head, "size", 0)));
	json_object_set_new(proof, "root", report_text(head, "root"));
	json_object_set_new(proof, "closed", json_boolean(event_has(head, "last")));
	json_object_set_new(proof, "note", report_text(head, "note"));
	json_object_set_new(proof, "lines", json_integer((json_int_t)events->n_lines));
	json_object_del(report->data, "head");
	return proof;
}
