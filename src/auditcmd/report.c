/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/report.h"

#include "auditcmd/auditcmd.h"
#include "auditcmd/call-options.h"
#include "auditcmd/events.h"
#include "auditcmd/report-model.h"
#include "auditcmd/report-page.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "ui/ui.h"

#define PAGE_MAX ((size_t)256 << 20)

static int write_page(int fd, void *data, struct atoll_error *err)
{
	const struct buf *page = data;
	int r = fd_write_all(fd, page->data, page->used);

	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write the report") : 0;
}

/* A log with a bad line is still reported, and the page says where reading stopped. */
static int read_log(struct events *events, struct report *report, struct atoll_error *err)
{
	cleanup_event struct event event = {0};
	uint64_t n_bad = 0;
	int r;

	while ((r = events_next(events, &event, err)) != 0) {
		if (r == -EBADMSG && events->n_lines > 1) {
			n_bad++;
			continue;
		}
		if (r > 0)
			r = report_add(report, &event, err);
		if (r < 0)
			return r;
	}
	json_object_set_new(report->data, "bad_lines", json_integer((json_int_t)n_bad));
	json_object_set_new(report->data, "half_line", json_boolean(events->is_cut));
	return report_finish(report, events, err);
}

static int run_report(char **args, struct atoll_error *err)
{
	cleanup_with(report_done) struct report report = {0};
	cleanup_buf struct buf page = BUF_INIT(PAGE_MAX);
	cleanup_events struct events *events = NULL;
	const char *word, *path = NULL;
	const struct call_option table[] = {{"html", &path, NULL}, {0}};
	int r = call_options_read(args, table, &word, 1, err);

	if (r == 0 && (!path || !*path))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "say where to write the report: atoll report --html FILE");
	if (r == 0)
		r = events_open(word, &events, err);
	if (r == 0)
		r = report_init(&report, err);
	if (r == 0)
		r = read_log(events, &report, err);
	if (r == 0)
		r = report_page(&report, &page, err);
	if (r == 0)
		r = streq(path, "-") ? write_page(STDOUT_FILENO, &page, err)
				     : export_file(path, write_page, &page, err);
	return r;
}

const struct audit_command audit_command_report = {"report", run_report};
