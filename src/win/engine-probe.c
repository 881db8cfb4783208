/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of the host. Called by `atoll doctor` and `atoll self-test`. Order: the caller, the token,
 * the job object, the desktop, a list and a label in the store, then the canary child with all of
 * them.
 */
#include "win/engine-probe.h"

#include "base/error.h"
#include "base/scope.h"
#include "nt/nt.h"
#include "win/engine-tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct prober {
	const struct win_calls *calls;
	struct engine_probe *probes;
	size_t n;
	struct win_identity identity;
	struct nt_sid sid;
	struct nt_token_spec spec;
	win_handle token, job, desktop;
	char desktop_name[WIN_NAME_SIZE];
	char inside[WIN_PATH_SIZE / 8], outside[WIN_PATH_SIZE / 8];
};

__attribute__((format(printf, 4, 5))) static void note(struct prober *in, const char *name,
						       bool holds, const char *format, ...)
{
	struct engine_probe *probe = &in->probes[in->n];
	va_list args;

	if (in->n == ENGINE_PROBES_MAX)
		return;
	in->n++;
	*probe = (struct engine_probe){.holds = holds};
	snprintf(probe->name, sizeof probe->name, "%s", name);
	va_start(args, format);
	vsnprintf(probe->observed, sizeof probe->observed, format, args);
	va_end(args);
}

int engine_check_desktop(const struct nt_descriptor *sd, const struct nt_sid *logon,
			 struct atoll_error *err)
{
	struct nt_label label;

	if (!sd->has_dacl || sd->is_dacl_null || sd->dacl.n_aces == 0)
		return error_set(err, ATOLL_FAULT_HOST, EIO,
				 "desktop.list: the desktop has no list of its own");
	for (size_t i = 0; i < sd->dacl.n_aces; i++)
		if (sd->dacl.aces[i].raw || sd->dacl.aces[i].type != NT_ACE_ALLOW ||
		    !nt_sid_equal(&sd->dacl.aces[i].sid, logon))
			return error_set(err, ATOLL_FAULT_HOST, EIO,
					 "desktop.list: the desktop is open to others");
	if (nt_label_read(sd, &label) != 1 || label.level != NT_LEVEL_LOW)
		return error_set(err, ATOLL_FAULT_HOST, EIO,
				 "desktop.label: the desktop's label is not low");
	return 0;
}

static void probe_caller(struct prober *in)
{
	struct atoll_error err = {0};
	uint8_t random[12] = {0};
	char text[NT_SID_TEXT_SIZE];

	if (in->calls->identify(in->calls->context, &in->identity, &err) < 0) {
		note(in, "caller.identity", false, "%s", err.text);
		return;
	}
	nt_sid_text(&in->identity.user, text);
	note(in, "caller.identity", true, "user %s", text);
	note(in, "caller.elevated", !in->identity.is_elevated, "%s",
	     in->identity.is_elevated ? "an administrator's full token" : "an ordinary token");
	if (in->calls->random(in->calls->context, random, sizeof random, &err) < 0)
		note(in, "random", false, "%s", err.text);
	in->sid = nt_sid_from_random(random);
	nt_token_specify(&in->identity.user, &in->identity.logon, &in->sid, 1, &in->spec);
}

static void probe_token(struct prober *in)
{
	const struct win_calls *calls = in->calls;
	struct nt_token_view view = {0};
	struct atoll_error err = {0};
	const char *name;
	bool holds;

	if (calls->make_token(calls->context, &in->spec, &in->token, &err) < 0 || !in->token ||
	    calls->read_token(calls->context, in->token, &view, &err) < 0) {
		note(in, "token.made", false, "%s", err.text);
		return;
	}
	for (size_t i = 0; (name = nt_token_check(&in->spec, &view, i, &holds)); i++)
		note(in, name, holds, "%zu restricting SIDs, %zu privileges, level %#x",
		     view.n_restricting, view.n_privileges, view.integrity);
	nt_acl_done(&view.default_list);
}

static void probe_job(struct prober *in)
{
	const struct win_calls *calls = in->calls;
	const struct nt_job_limits wanted = {.kill_on_close = true,
					     .no_breakaway = true,
					     .no_clipboard = true,
					     .no_desktop = true,
					     .no_handles = true,
					     .no_system_parameters = true,
					     .memory_bytes = 1 << 30,
					     .processes = 64,
					     .cpu_time_ms = 600000};
	struct nt_job_limits found = {0};
	struct atoll_error err = {0};
	const char *name;
	bool holds;

	if (calls->make_job(calls->context, &wanted, &in->job, &err) < 0 || !in->job ||
	    calls->read_job(calls->context, in->job, &found, &err) < 0) {
		note(in, "job.made", false, "%s", err.text);
		return;
	}
	for (size_t i = 0; (name = nt_job_check(&wanted, &found, i, &holds)); i++)
		note(in, name, holds, "memory %llu, processes %llu, CPU time %llu ms",
		     (unsigned long long)found.memory_bytes, (unsigned long long)found.processes,
		     (unsigned long long)found.cpu_time_ms);
}

static void probe_desktop(struct prober *in)
{
	const struct win_calls *calls = in->calls;
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;
	struct atoll_error err = {0};
	int r;

	nt_descriptor_init(&sd);
	snprintf(in->desktop_name, sizeof in->desktop_name, "atoll-probe-%08x", in->sid.subs[3]);
	r = calls->make_desktop(calls->context, in->desktop_name, &in->identity.logon, &in->desktop,
				&err);
	note(in, "desktop.made", r == 0 && in->desktop, "%s", err.text);
	if (r < 0 || !in->desktop)
		return;
	r = calls->read_desktop(calls->context, in->desktop, &sd, &err);
	if (r == 0)
		r = engine_check_desktop(&sd, &in->identity.logon, &err);
	note(in, "desktop.list", r == 0, "%zu entries %s", sd.dacl.n_aces, err.text);
}

static int make_canary(struct prober *in, const char *directory)
{
	const struct win_calls *calls = in->calls;
	char file[WIN_PATH_SIZE / 8 + 8];
	struct atoll_error err;
	int r = calls->make_directory(calls->context, directory, &err);

	snprintf(file, sizeof file, "%s\\file", directory);
	return r < 0 && r != -EEXIST ? r : calls->make_file(calls->context, file, &err);
}

static void remove_canary(struct prober *in, const char *directory)
{
	static const char *const beneath[] = {"new", "newdir", "file", "file-renamed"};
	const struct win_calls *calls = in->calls;
	char file[WIN_PATH_SIZE / 8 + 16];
	struct atoll_error err;

	for (size_t i = 0; i < ARRAY_SIZE(beneath); i++) {
		snprintf(file, sizeof file, "%s\\%s", directory, beneath[i]);
		calls->remove(calls->context, file, &err);
	}
	calls->remove(calls->context, directory, &err);
}

static void probe_list(struct prober *in)
{
	struct nt_operation grant = {.kind = NT_ADD_GRANT,
				     .path = in->inside,
				     .sid = in->sid,
				     .flags = NT_ACE_OBJECT_INHERIT | NT_ACE_CONTAINER_INHERIT,
				     .mask = NT_CHILD_RIGHTS};
	struct atoll_error err = {0};
	int r;

	r = in->calls->make_directory(in->calls->context, in->inside, &err);
	if (r == 0)
		r = tree_apply(in->calls, &grant, &err);
	note(in, "list.read-back", r > 0, "%s", err.text);
	err.text[0] = '\0';
	grant.kind = NT_ADD_LABEL;
	grant.mask = 0;
	grant.level = NT_LEVEL_LOW;
	r = tree_apply(in->calls, &grant, &err);
	note(in, "label.read-back", r > 0, "%s", err.text);
}

static void probe_canary(struct prober *in)
{
	const struct win_launch launch = {.token = in->token,
					  .job = in->job,
					  .desktop = in->desktop,
					  .desktop_name = in->desktop_name};
	struct win_canary canaries[] = {{.path = in->outside}, {.path = in->inside}};
	struct atoll_error err = {0};
	int r = make_canary(in, in->outside);

	if (r == 0)
		r = make_canary(in, in->inside);
	if (r == 0 && in->token && in->job && in->desktop)
		r = in->calls->run_canary(in->calls->context, &launch, canaries, 2, &err);
	else
		r = -ENOTSUP;
	note(in, "canary.run", r == 0, "%s", err.text);
	if (r < 0)
		return;
	note(in, "canary.outside", canaries[0].granted == 0, "granted %#x", canaries[0].granted);
	note(in, "canary.inside",
	     (canaries[1].granted & ENGINE_NEEDED_INSIDE) == ENGINE_NEEDED_INSIDE, "granted %#x",
	     canaries[1].granted);
	note(in, "canary.strong-writes",
	     !(canaries[1].granted & (1U << NT_TRY_DACL | 1U << NT_TRY_OWNER)),
	     "needed for protected paths; granted %#x", canaries[1].granted);
}

size_t engine_probe_all(const struct win_calls *calls, const char *store,
			struct engine_probe ret[ENGINE_PROBES_MAX])
{
	struct prober in = {.calls = calls, .probes = ret};

	snprintf(in.inside, sizeof in.inside, "%s\\probe-inside", store);
	snprintf(in.outside, sizeof in.outside, "%s\\probe-outside", store);
	remove_canary(&in, in.inside); /* of a probe that crashed */
	remove_canary(&in, in.outside);
	probe_caller(&in);
	probe_token(&in);
	probe_job(&in);
	probe_desktop(&in);
	probe_list(&in);
	probe_canary(&in);
	remove_canary(&in, in.inside);
	remove_canary(&in, in.outside);
	if (in.desktop)
		calls->close(calls->context, in.desktop);
	if (in.token)
		calls->close(calls->context, in.token);
	if (in.job)
		calls->close(calls->context, in.job);
	return in.n;
}
