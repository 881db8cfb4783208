/* SPDX-License-Identifier: Apache-2.0 */
#include "setup/setup.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"

#include <atoll/atoll.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/*
 * What is asked
 *
 * The options are described where a person meets them, in src/cli/cmd-setup.c; this program gets
 * them from there.
 */

static const struct setup_step *const steps[] = {
	&step_accounts, &step_ids, &step_groups, &step_firewall, &step_boot,
};

struct request {
	bool is_plan, is_undo, is_restore, is_status, is_json;
};

enum {
	STATUS_INCOMPLETE = 242, /* as in `atoll help setup` */
};

/* ---- telling ---- */

struct report {
	bool is_json;
	json_t *lines;
	int count, left;
};

static void report_done(struct report *report)
{
	json_decref(report->lines);
}

#define cleanup_report cleanup_with(report_done)

/* One line of text for a change: its first line stands for those of an account file. */
static void tell(struct report *report, const char *action, const json_t *change,
		 const char *reason)
{
	const char *text = change_text(change, "text");
	bool is_file = change_kind(change) == &kind_file;

	report->count++;
	if (report->is_json) {
		json_array_append_new(report->lines,
				      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*}", "action", action,
						"step", change_text(change, "step"), "kind",
						change_text(change, "kind"), "path",
						change_text(change, "path"), "text", text, "reason",
						reason));
		return;
	}
	printf("%-8s %-9s %-10s %s", action, change_text(change, "step"),
	       change_text(change, "kind"), change_text(change, "path"));
	if (!is_file && text[0] && !strchr(text, '\n'))
		printf("  %s", text);
	printf("%s%s\n", reason ? ": " : "", reason ? reason : "");
	for (; !is_file && strchr(text, '\n'); text = strchr(text, '\n') + 1)
		printf("           %.*s\n", (int)strcspn(text, "\n"), text);
}

static int finish(struct report *report, const struct setup *setup, const char *nothing,
		  struct atoll_error *err)
{
	size_t i;
	json_t *note;

	if (report->is_json) {
		json_t *whole =
			json_pack("{s:i, s:O, s:O, s:b}", "version", 1, "changes", report->lines,
				  "notes", setup->notes, "complete", report->left == 0);

		json_dumpf(whole, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(whole);
	} else {
		if (!report->count)
			puts(nothing);
		json_array_foreach(setup->notes, i, note)
		{
			printf("note: %s\n", json_string_value(note));
		}
	}
	if (fflush(stdout) != 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "write to standard output");
	return report->left ? STATUS_INCOMPLETE : 0;
}

/* ---- making ---- */

/* What an ordinary user cannot look at is left out of a plan, and said. */
static int check(const struct setup *setup, const json_t *change, struct atoll_error *err)
{
	int state = change_kind(change)->check(change, err);

	if (setup->is_restricted && (state == -EACCES || state == -EPERM))
		return CHANGE_ABSENT;
	return state;
}

/* `state`: what is there of it now. A part of it is ours, so what was there before us stands in the
 * entry already. */
static int make_one(struct setup *setup, json_t *change, int state, struct atoll_error *err)
{
	const struct change_kind *kind = change_kind(change);
	json_t *entry = ledger_find(&setup->ledger, change);
	int r = 0;

	if (!entry && json_array_append(setup->ledger.changes, change) < 0)
		return error_oom(err);
	if (kind->note && (!entry || state == CHANGE_ABSENT || !json_object_get(entry, "before")))
		r = kind->note(entry ? entry : change, err);
	if (r == 0)
		r = ledger_save(&setup->ledger, err);
	return r < 0 ? r : kind->apply(entry ? entry : change, err);
}

/* An entry that says something else than is wanted today: by an older version, or a program that
 * has been moved. */
static int retire(struct setup *setup, json_t *entry, struct atoll_error *err)
{
	char reason[SETUP_REASON_SIZE] = "";
	size_t i;
	json_t *each;
	int r = change_kind(entry)->undo(entry, reason, sizeof reason, err);

	if (r > 0)
		return error_set(err, ATOLL_FAULT_HOST, 0, "%s: %s", change_text(entry, "path"),
				 reason);
	if (r < 0)
		return r;
	json_array_foreach(setup->ledger.changes, i, each)
	{
		if (each == entry) {
			json_array_remove(setup->ledger.changes, i);
			break;
		}
	}
	return ledger_save(&setup->ledger, err);
}

static int refuse_foreign(const json_t *change, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, EEXIST,
			 "%s: there is something of that name that atoll setup did not make",
			 change_text(change, "path"));
}

static int make_change(struct setup *setup, json_t *change, bool is_plan, struct report *report,
		       struct atoll_error *err)
{
	const struct change_kind *kind = change_kind(change);
	json_t *entry = ledger_find(&setup->ledger, change);
	const char *action = entry ? "repair" : "add";
	int state, r = 0;

	if (entry && !streq(change_text(entry, "text"), change_text(change, "text"))) {
		action = "replace";
		if (!is_plan)
			r = retire(setup, entry, err);
		if (r < 0)
			return r;
		state = CHANGE_ABSENT;
	} else {
		state = check(setup, change, err);
	}
	if (state < 0)
		return state;
	if (state == CHANGE_PRESENT && (entry || kind->is_shared || !setup->ledger.is_readable))
		return 0;
	if (!entry && state != CHANGE_ABSENT)
		return refuse_foreign(change, err);
	if (!is_plan)
		r = make_one(setup, change, state, err);
	if (r == 0)
		tell(report, action, change, NULL);
	return r;
}

static int make_all(struct setup *setup, const struct request *request, struct atoll_error *err)
{
	cleanup_report struct report report = {.is_json = request->is_json, .lines = json_array()};
	size_t i;
	json_t *change;
	int r = 0;

	json_array_foreach(setup->wanted, i, change)
	{
		r = make_change(setup, change, request->is_plan, &report, err);
		if (r < 0)
			return error_context(err, r, "%s", change_text(change, "step"));
	}
	/* Nothing was wanted, and nothing was there: no directory stays behind. */
	if (!request->is_plan && json_array_size(setup->ledger.changes) == 0)
		r = ledger_remove(&setup->ledger, err);
	return r < 0 ? r : finish(&report, setup, "nothing to do: the machine is set up", err);
}

/* After a boot: what is entered, and does not live on disk. */
static int restore_all(struct setup *setup, const struct request *request, struct atoll_error *err)
{
	cleanup_report struct report report = {.is_json = request->is_json, .lines = json_array()};
	size_t i;
	json_t *change;
	int r = 0;

	json_array_foreach(setup->ledger.changes, i, change)
	{
		const struct change_kind *kind = change_kind(change);
		int state = kind->is_volatile ? kind->check(change, err) : CHANGE_PRESENT;

		if (state == CHANGE_PRESENT)
			continue;
		r = state < 0 ? state : kind->apply(change, err);
		if (r < 0)
			return error_context(err, r, "%s", change_text(change, "step"));
		tell(&report, "restore", change, NULL);
	}
	return finish(&report, setup, "nothing to do: everything is there", err);
}

/* ---- undoing ---- */

static int plan_undo(const json_t *change, struct report *report, struct atoll_error *err)
{
	int state = change_kind(change)->check(change, err);

	if (state == CHANGE_DIFFERENT)
		tell(report, "leave", change, "it was changed since");
	else if (state == CHANGE_PRESENT || state == CHANGE_PARTIAL)
		tell(report, "remove", change, NULL);
	return state < 0 ? state : 0;
}

static int undo_change(struct setup *setup, size_t at, struct report *report,
		       struct atoll_error *err)
{
	json_t *change = json_array_get(setup->ledger.changes, at);
	char reason[SETUP_REASON_SIZE] = "";
	int r = change_kind(change)->undo(change, reason, sizeof reason, err);

	if (r < 0)
		return r;
	if (r > 0) {
		report->left++;
		tell(report, "left", change, reason);
		return 0;
	}
	tell(report, "remove", change, NULL);
	json_array_remove(setup->ledger.changes, at);
	return ledger_save(&setup->ledger, err);
}

static int undo_all(struct setup *setup, const struct request *request, struct atoll_error *err)
{
	cleanup_report struct report report = {.is_json = request->is_json, .lines = json_array()};
	int r = 0;

	for (size_t i = json_array_size(setup->ledger.changes); r == 0 && i-- > 0;)
		r = request->is_plan
			    ? plan_undo(json_array_get(setup->ledger.changes, i), &report, err)
			    : undo_change(setup, i, &report, err);
	if (r == 0 && !request->is_plan && json_array_size(setup->ledger.changes) == 0)
		r = ledger_remove(&setup->ledger, err);
	return r < 0 ? r
		     : finish(&report, setup, "nothing to do: atoll setup has left nothing", err);
}

/* ---- one line for `atoll doctor` ---- */

static int tell_status(struct setup *setup, struct atoll_error *err)
{
	const json_t *first = NULL;
	int missing = 0;
	size_t i;
	json_t *change;

	json_array_foreach(setup->wanted, i, change)
	{
		int state;

		if (change_kind(change)->is_shared)
			continue;
		state = change_kind(change)->check(change, err);
		/* As an ordinary user: what cannot be seen is not counted. */
		if (state == -EACCES || state == -EPERM)
			continue;
		missing += state != CHANGE_PRESENT;
		first = first || state == CHANGE_PRESENT ? first : change;
	}
	if (!setup->ledger.exists)
		puts("absent");
	else if (missing)
		printf("damaged: %s %s is missing or changed\n", change_text(first, "kind"),
		       change_text(first, "path"));
	else
		printf("complete%s\n", setup->is_restricted ? ", as far as a user can see" : "");
	return 0;
}

/* ---- the whole ---- */

static int plan_all(struct setup *setup, struct atoll_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		int r = steps[i]->plan(setup, err);

		if (r < 0)
			return error_context(err, r, "%s", steps[i]->name);
	}
	return 0;
}

static int carry_out(struct setup *setup, const struct request *request, struct atoll_error *err)
{
	const bool is_looking = request->is_plan || request->is_status;
	int r;

	setup->is_restricted = geteuid() != 0;
	if (setup->is_restricted && !is_looking)
		return error_set(
			err, ATOLL_FAULT_POLICY, 0,
			"setup changes the machine and needs root: sudo atoll setup (--plan "
			"shows what it would do)");
	r = ledger_open(&setup->ledger, !is_looking, err);
	if (r < 0)
		return r;
	if (request->is_plan && !setup->ledger.is_readable)
		json_array_append_new(
			setup->notes,
			json_string("an ordinary user cannot see all of it: the ledger "
				    "is root's, and so is the packet filter"));
	if (request->is_undo)
		return undo_all(setup, request, err);
	if (request->is_restore)
		return restore_all(setup, request, err);
	r = plan_all(setup, err);
	if (r < 0 && request->is_status) {
		printf("%s: %s\n", setup->ledger.exists ? "damaged" : "absent", err->text);
		return 0;
	}
	if (r < 0)
		return r;
	return request->is_status ? tell_status(setup, err) : make_all(setup, request, err);
}

static int read_request(char **args, struct request *ret, struct atoll_error *err)
{
	for (; *args; args++) {
		if (streq(*args, "--plan"))
			ret->is_plan = true;
		else if (streq(*args, "--undo"))
			ret->is_undo = true;
		else if (streq(*args, "--restore"))
			ret->is_restore = true;
		else if (streq(*args, "--status"))
			ret->is_status = true;
		else if (streq(*args, "--json"))
			ret->is_json = true;
		else
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "unknown option '%s'; see 'atoll help setup'", *args);
	}
	if (ret->is_undo && ret->is_restore)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--undo and --restore are opposites; give one");
	return 0;
}

int main(int argc, char **argv)
{
	struct setup setup = {.ledger = {.dir_fd = -1, .lock_fd = -1},
			      .wanted = json_array(),
			      .notes = json_array()};
	struct request request = {0};
	struct atoll_error err = {0};
	char shown[sizeof err.text];
	int r = read_request(argv + (argc > 0), &request, &err);

	if (r == 0)
		r = carry_out(&setup, &request, &err);
	ledger_close(&setup.ledger);
	json_decref(setup.wanted);
	json_decref(setup.notes);
	if (r >= 0)
		return r;
	fprintf(stderr, "atoll: %s\n", str_show(err.text, shown, sizeof shown));
	return atoll_error_status(&err);
}
