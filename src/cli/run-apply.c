/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run-apply.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/pick.h"
#include "ui/ui.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

int apply_when_parse(const char *word, enum apply_when *ret, struct atoll_error *err)
{
	static const char *const words[] = {
		[APPLY_NEVER] = "never", [APPLY_ASK] = "ask", [APPLY_AUTO] = "auto"};
	char shown[64];

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (streq(words[i], word)) {
			*ret = (enum apply_when)i;
			return 0;
		}
	}
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "--apply '%s': use auto, ask or never",
			 str_show(word, shown, sizeof shown));
}

/* Is there a controlling terminal, and is this process in its foreground group? */
static bool has_person(void)
{
	cleanup_fd int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

	return fd >= 0 && tcgetpgrp(fd) == getpgrp();
}

int apply_check(enum apply_when when, struct atoll_error *err)
{
	if (when == APPLY_ASK && !has_person())
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"--apply=ask needs a terminal to ask at; without one: --apply=auto, "
			"or 'atoll diff' and 'atoll apply' later");
	return 0;
}

/* A command that failed or was stopped may have left incomplete work. */
static bool has_succeeded(const struct atoll_result *result)
{
	return result->end == ATOLL_EXITED && result->code == 0;
}

void apply_after(enum apply_when when, const struct atoll_result *result, struct apply_outcome *ret)
{
	int r;

	if (when == APPLY_NEVER || !result->record[0] || result->layer_note[0])
		return;
	ret->is_left = when == APPLY_AUTO && !has_succeeded(result);
	if (ret->is_left)
		return;
	if (when == APPLY_ASK)
		r = pick_and_apply(result->record, &(struct pick_options){.with_text = true},
				   &ret->report, &ret->problem);
	else
		r = atoll_apply(result->record, &(struct atoll_apply_options){0}, &ret->report,
				&ret->problem);
	/* After a no the summary prints how to apply later. */
	ret->was_tried = when == APPLY_AUTO || (r != 0 && r != -ENOTTY);
	ret->has_failed = ret->was_tried && r < 0;
}

void apply_print(const struct apply_outcome *outcome, const struct atoll_result *result,
		 bool is_quiet, FILE *out)
{
	const struct atoll_apply_report *report = &outcome->report;

	if (outcome->is_left && !is_quiet)
		fputs("atoll: nothing was applied, because the command failed\n", out);
	if (!outcome->was_tried)
		return;
	if (outcome->has_failed)
		print_problem(outcome->problem.text);
	if (outcome->has_failed || is_quiet)
		return;
	fprintf(out, "atoll: applied %" PRIu64 " change%s (atoll undo %s)\n", report->n_applied,
		report->n_applied == 1 ? "" : "s", result->record);
	if (report->n_held > 0)
		fprintf(out,
			"atoll: held back %" PRIu64 " that the host would execute or trust; to "
			"apply them, name them: atoll apply %s PATH\n",
			report->n_held, result->record);
	if (report->n_dropped > 0) {
		fputs("atoll: this host could not keep: ", out);
		print_escaped(out, report->dropped);
		fputc('\n', out);
	}
}
