/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the objects that a command runs under. Called by the engine after the roots are ready. */
#include "win/engine-objects.h"

#include "base/error.h"
#include "base/scope.h"
#include "win/engine-probe.h"

#include <errno.h>

static int fail(struct atoll_error *err, const char *check, const char *what)
{
	return error_set(err, ATOLL_FAULT_HOST, EIO, "%s: %s", check, what);
}

int engine_make_token(const struct win_calls *calls, const struct nt_token_spec *spec,
		      win_handle *ret, struct atoll_error *err)
{
	struct nt_token_view view = {0};
	const char *differs;
	int r = calls->make_token(calls->context, spec, ret, err);

	if (r == 0 && !*ret)
		r = fail(err, "token.made", "there is no token");
	if (r == 0)
		r = calls->read_token(calls->context, *ret, &view, err);
	if (r < 0)
		return r;
	differs = nt_token_differs(spec, &view);
	nt_acl_done(&view.default_list);
	return differs ? fail(err, differs, "the token is not the one that was asked for") : 0;
}

int engine_make_job(const struct win_calls *calls, const struct nt_job_limits *limits,
		    win_handle *ret, struct atoll_error *err)
{
	struct nt_job_limits found = {0};
	const char *differs;
	int r = calls->make_job(calls->context, limits, ret, err);

	if (r == 0 && !*ret)
		r = fail(err, "job.made", "there is no job object");
	if (r == 0)
		r = calls->read_job(calls->context, *ret, &found, err);
	if (r < 0)
		return r;
	differs = nt_job_differs(limits, &found);
	return differs ? fail(err, differs, "the job object does not have the limit") : 0;
}

int engine_make_desktop(const struct win_calls *calls, const char *name, const struct nt_sid *logon,
			win_handle *ret, struct atoll_error *err)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;
	int r = calls->make_desktop(calls->context, name, logon, ret, err);

	nt_descriptor_init(&sd);
	if (r == 0 && !*ret)
		r = fail(err, "desktop.made", "there is no desktop");
	if (r == 0)
		r = calls->read_desktop(calls->context, *ret, &sd, err);
	return r < 0 ? r : engine_check_desktop(&sd, logon, err);
}
