/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/program.h"
#include "base/str.h"
#include "isolate/isolate.h"
#include "isolate/slots.h"
#include "job/job.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

static struct backend_finding *add_finding(struct backend_report *report, const char *what,
					   bool holds, const char *fix)
{
	struct backend_finding *finding;

	if (report->n_findings == BACKEND_FINDINGS_MAX)
		return NULL;
	finding = &report->findings[report->n_findings++];
	*finding = (struct backend_finding){.what = what, .holds = holds, .fix = fix};
	return finding;
}

/* The first line that a helper program prints; "" if it does not run. */
static void ask_program(char *path, const char *option, char *ret, size_t size)
{
	char *args[] = {path, (char *)option, NULL};
	cleanup_buf struct buf text = BUF_INIT(4096);
	posix_spawn_file_actions_t actions;
	int ends[2], status;
	pid_t pid = -1;

	ret[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	if (posix_spawn(&pid, path, &actions, NULL, args, environ) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (pid > 0 && fd_read_all(ends[0], &text) == 0 && text.data)
		snprintf(ret, size, "%.*s", (int)strcspn(text.data, "\n"), text.data);
	close(ends[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
}

/* Ask atoll-setup, which alone has the list of changes. */
static void look_at_setup(struct backend_report *report)
{
	struct backend_finding *finding;
	char path[PATH_MAX], answer[sizeof finding->result];

	if (program_find("atoll-setup", path, sizeof path) < 0)
		return;
	ask_program(path, "--status", answer, sizeof answer);
	if (!answer[0])
		return;
	finding = add_finding(report, "elevated set-up", starts_with(answer, "complete"),
			      starts_with(answer, "damaged")
				      ? "sudo atoll setup repairs it (--plan shows what it does)"
				      : "not needed; for a firewall by id as a second wall: sudo "
					"atoll setup (--plan shows what it does)");
	if (finding)
		snprintf(finding->result, sizeof finding->result, "%s", answer);
}

/* Lock a slot, if the file exists; doctor creates nothing. */
static void look_at_ids(struct backend_report *report)
{
	struct backend_finding *finding;
	struct atoll_error err = {0};
	bool exists = access(SLOTS_DIR "/" SLOTS_FILE, F_OK) == 0;
	cleanup_fd int fd = -1;
	uint32_t first = slots_classes[0].first;
	bool holds;

	if (geteuid() != 0)
		return;
	if (exists)
		fd = slots_take(SLOTS_DIR, 0, &first, &err);
	holds = exists ? fd >= 0 : access("/run", W_OK) == 0;
	finding = add_finding(report, "host ids for root's runs", holds,
			      "a writable /run; what lies at " SLOTS_DIR " must be root's alone");
	if (finding && holds)
		snprintf(finding->result, sizeof finding->result, "from %u on",
			 slots_classes[0].first);
	else if (finding)
		snprintf(finding->result, sizeof finding->result, "%s",
			 exists ? err.text : "no place for the lock");
}

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
				 "pids. `atoll run --plan` tells what that means.\n");
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
	look_at_ids(&report);
	look_at_setup(&report);
	for (size_t i = 0; i < report.n_findings; i++)
		lacking += report.findings[i].is_needed && !report.findings[i].holds;
	if (format == ATOLL_JSON)
		render_json(&report, lacking, &text);
	else
		render_text(&report, lacking, &text);
	*ret_text = buf_take(&text);
	return *ret_text ? lacking : error_oom(err);
}
