/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/log-list.h"

#include "auditcmd/describe-pieces.h"
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "auditcmd/find-log.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* `atoll log --list`. */

static int print_json(const struct events_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		cleanup_buf struct buf text = BUF_INIT(EVENTS_LINE_MAX);
		const json_t *start = entries[i].start;
		json_t *line = json_pack(
			"{s:s, s:I, s:I, s:O?, s:O?, s:O?, s:O?}", "run", entries[i].id,
			"written_ns", (json_int_t)entries[i].time_ns, "size",
			(json_int_t)entries[i].size, "time", json_object_get(start, "time"),
			"workspace", json_object_get(start, "workspace"), "argv",
			json_object_get(start, "argv"), "contract",
			json_object_get(start, "contract"));

		bool is_good = line && event_json(line, &text);

		json_decref(line);
		if (!is_good)
			return -ENOMEM;
		puts(text.data);
	}
	return 0;
}

static void print_entry(const struct events_entry *entry, uint64_t now_ns)
{
	cleanup_buf struct buf what = BUF_INIT(1 << 20);
	char age[32], size[32];

	amount_age(now_ns > entry->time_ns ? (now_ns - entry->time_ns) / 1000000000U : 0, age,
		   sizeof age);
	describe_argv(json_object_get(entry->start, "argv"), false, &what);
	if (event_text(entry->start, "workspace")) {
		buf_add_str(&what, "  in ");
		describe_value(json_object_get(entry->start, "workspace"), &what);
	}
	printf("%-8s  %8s  %10s  %s\n", entry->id, age, amount_size(entry->size, size, sizeof size),
	       what.used ? what.data : "no step has begun");
}

int log_list(bool is_json, struct atoll_error *err)
{
	struct events_entry *entries = NULL;
	struct timespec now;
	size_t n = 0;
	int r = events_list(true, &entries, &n, err);

	clock_gettime(CLOCK_REALTIME, &now);
	if (r == 0 && is_json && print_json(entries, n) < 0)
		r = error_oom(err);
	if (r == 0 && !is_json && n == 0)
		puts("there is no log");
	if (r == 0 && !is_json && n > 0)
		printf("%-8s  %8s  %10s  %s\n", "RUN", "AGE", "SIZE", "WHAT");
	for (size_t i = 0; r == 0 && !is_json && i < n; i++)
		print_entry(&entries[i],
			    (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec);
	events_list_free(entries, n);
	if (r == 0 && fflush(stdout) != 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "write to standard output");
	return r;
}
