/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/scope.h"
#include "isolate/isolate.h"
#include "job/job.h"

static void render_json(const struct backend_report *report, int lacking, struct buf *out)
{
	struct json json = {.out = out};

	json_open(&json, NULL, '{');
	json_uint(&json, "version", 1);
	json_str(&json, "tier", ns_backend.name);
	json_bool(&json, "ready", lacking == 0);
	json_open(&json, "findings", '[');
	for (size_t i = 0; i < report->n_findings; i++) {
		const struct backend_finding *finding = &report->findings[i];

		json_open(&json, NULL, '{');
		json_str(&json, "what", finding->what);
		json_bool(&json, "needed", finding->is_needed);
		json_bool(&json, "holds", finding->holds);
		json_str(&json, "result", finding->result);
		json_str(&json, "fix", finding->holds ? NULL : finding->fix);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	buf_add_char(out, '\n');
}

static void render_text(const struct backend_report *report, int lacking, struct buf *out)
{
	bool instead = false;

	buf_addf(out, "tier %s: %s\n\n", ns_backend.name, ns_backend.summary);
	for (size_t i = 0; i < report->n_findings; i++) {
		const struct backend_finding *finding = &report->findings[i];
		const char *mark = finding->holds	? "ok     "
				   : finding->is_needed ? "MISSING"
							: "absent ";

		buf_addf(out, "  %s  %-34s %s\n", mark, finding->what, finding->result);
		if (!finding->holds && finding->fix)
			buf_addf(out, "           fix: %s\n", finding->fix);
	}
	for (size_t i = 0; i < report->n_findings; i++)
		instead = instead || (report->findings[i].is_instead && report->findings[i].holds);
	if (lacking && instead)
		buf_add_str(out, "\nThe default contract holds here only by weaker mechanisms, "
				 "each to be accepted by name: --accept-weaker hide, processes, "
				 "pids, disk. `atoll run --plan` tells what that means.\n");
	else if (lacking)
		buf_addf(out,
			 "\n%d thing%s that the default contract needs %s missing: runs are "
			 "refused.\n",
			 lacking, lacking == 1 ? "" : "s", lacking == 1 ? "is" : "are");
	else
		buf_add_str(out, "\nThe default contract holds on this host.\n");
}

int atoll_doctor(enum atoll_format format, char **ret_text, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	struct backend_report report = {0};
	int lacking = 0, r = 0;

	for (size_t i = 0; r == 0 && isolate_backends[i]; i++)
		r = isolate_backends[i]->probe(&report, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < report.n_findings; i++)
		lacking += report.findings[i].is_needed && !report.findings[i].holds;
	if (format == ATOLL_JSON)
		render_json(&report, lacking, &text);
	else
		render_text(&report, lacking, &text);
	*ret_text = buf_take(&text);
	return *ret_text ? lacking : error_oom(err);
}
