/* SPDX-License-Identifier: Apache-2.0 */
/* Job objects on Windows. Called through struct win_calls. */
#include "base/error.h"
#include "win/pe/pe.h"

#define INTERFACE_LIMITS                                                                           \
	(JOB_OBJECT_UILIMIT_HANDLES | JOB_OBJECT_UILIMIT_READCLIPBOARD |                           \
	 JOB_OBJECT_UILIMIT_WRITECLIPBOARD | JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS |                 \
	 JOB_OBJECT_UILIMIT_DISPLAYSETTINGS | JOB_OBJECT_UILIMIT_GLOBALATOMS |                     \
	 JOB_OBJECT_UILIMIT_DESKTOP | JOB_OBJECT_UILIMIT_EXITWINDOWS)
#define CLIPBOARD (JOB_OBJECT_UILIMIT_READCLIPBOARD | JOB_OBJECT_UILIMIT_WRITECLIPBOARD)
#define BREAKAWAY (JOB_OBJECT_LIMIT_BREAKAWAY_OK | JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK)

static int set_limits(HANDLE job, const struct nt_job_limits *limits, struct atoll_error *err)
{
	JOBOBJECT_EXTENDED_LIMIT_INFORMATION info = {0};
	DWORD *flags = &info.BasicLimitInformation.LimitFlags;

	*flags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
	if (limits->memory_bytes) {
		*flags |= JOB_OBJECT_LIMIT_JOB_MEMORY;
		info.JobMemoryLimit = (SIZE_T)limits->memory_bytes;
	}
	if (limits->processes) {
		*flags |= JOB_OBJECT_LIMIT_ACTIVE_PROCESS;
		info.BasicLimitInformation.ActiveProcessLimit = (DWORD)limits->processes;
	}
	if (limits->cpu_time_ms) {
		*flags |= JOB_OBJECT_LIMIT_JOB_TIME;
		info.BasicLimitInformation.PerJobUserTimeLimit.QuadPart =
			(LONGLONG)limits->cpu_time_ms * 10000;
	}
	if (!SetInformationJobObject(job, JobObjectExtendedLimitInformation, &info, sizeof info))
		return win_fail(err, "job.limits", "SetInformationJobObject");
	return 0;
}

static int set_rate(HANDLE job, uint64_t percent, struct atoll_error *err)
{
	JOBOBJECT_CPU_RATE_CONTROL_INFORMATION info = {
		.ControlFlags =
			JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP};

	if (percent == 0)
		return 0;
	info.CpuRate = (DWORD)percent * 100;
	if (!SetInformationJobObject(job, JobObjectCpuRateControlInformation, &info, sizeof info))
		return win_fail(err, "job.cpu-rate", "SetInformationJobObject");
	return 0;
}

/* All of them at once: the plan never asks for some. */
static int set_interface(HANDLE job, const struct nt_job_limits *limits, struct atoll_error *err)
{
	JOBOBJECT_BASIC_UI_RESTRICTIONS ui = {.UIRestrictionsClass = INTERFACE_LIMITS};

	if (!limits->no_clipboard && !limits->no_desktop && !limits->no_handles &&
	    !limits->no_system_parameters)
		return 0;
	if (!SetInformationJobObject(job, JobObjectBasicUIRestrictions, &ui, sizeof ui))
		return win_fail(err, "job.user-interface", "SetInformationJobObject");
	return 0;
}

static int job_make(void *context, const struct nt_job_limits *limits, win_handle *ret,
		    struct atoll_error *err)
{
	HANDLE job = CreateJobObjectW(NULL, NULL);
	int r;

	(void)context;
	if (!job)
		return win_fail(err, "job.made", "CreateJobObjectW");
	r = set_limits(job, limits, err);
	if (r == 0)
		r = set_rate(job, limits->cpu_percent, err);
	if (r == 0)
		r = set_interface(job, limits, err);
	if (r == 0) {
		*ret = win_item_new(WIN_ITEM_HANDLE, job);
		r = *ret ? 0 : error_oom(err);
	}
	if (r < 0)
		CloseHandle(job);
	return r;
}

static int job_read(void *context, win_handle item, struct nt_job_limits *ret,
		    struct atoll_error *err)
{
	HANDLE job = win_item_handle(item);
	JOBOBJECT_EXTENDED_LIMIT_INFORMATION info = {0};
	JOBOBJECT_BASIC_UI_RESTRICTIONS ui = {0};
	JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate = {0};
	DWORD flags;

	(void)context;
	if (!QueryInformationJobObject(job, JobObjectExtendedLimitInformation, &info, sizeof info,
				       NULL))
		return win_fail(err, "job.limits", "QueryInformationJobObject");
	/* A query that fails leaves zeros: then the limit counts as absent, and its check fails. */
	(void)QueryInformationJobObject(job, JobObjectBasicUIRestrictions, &ui, sizeof ui, NULL);
	(void)QueryInformationJobObject(job, JobObjectCpuRateControlInformation, &rate, sizeof rate,
					NULL);
	flags = info.BasicLimitInformation.LimitFlags;
	*ret = (struct nt_job_limits){
		.kill_on_close = flags & JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		.no_breakaway = !(flags & BREAKAWAY),
		.no_clipboard = (ui.UIRestrictionsClass & CLIPBOARD) == CLIPBOARD,
		.no_desktop = ui.UIRestrictionsClass & JOB_OBJECT_UILIMIT_DESKTOP,
		.no_handles = ui.UIRestrictionsClass & JOB_OBJECT_UILIMIT_HANDLES,
		.no_system_parameters =
			ui.UIRestrictionsClass & JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS,
		.memory_bytes =
			flags & JOB_OBJECT_LIMIT_JOB_MEMORY ? (uint64_t)info.JobMemoryLimit : 0,
		.processes = flags & JOB_OBJECT_LIMIT_ACTIVE_PROCESS
				     ? info.BasicLimitInformation.ActiveProcessLimit
				     : 0,
		.cpu_time_ms = flags & JOB_OBJECT_LIMIT_JOB_TIME
				       ? (uint64_t)info.BasicLimitInformation.PerJobUserTimeLimit
							 .QuadPart /
						 10000
				       : 0,
		.cpu_percent = rate.ControlFlags & JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP
				       ? rate.CpuRate / 100
				       : 0,
	};
	return 0;
}

static int job_end(void *context, win_handle job, struct atoll_error *err)
{
	(void)context;
	return TerminateJobObject(win_item_handle(job), 1)
		       ? 0
		       : win_fail(err, "job.end", "TerminateJobObject");
}

/* Processes that were ended take a moment to go. */
static int job_count(void *context, win_handle job, struct atoll_error *err)
{
	JOBOBJECT_BASIC_ACCOUNTING_INFORMATION info = {0};

	(void)context;
	for (int i = 0; i < 200; i++) {
		if (!QueryInformationJobObject(win_item_handle(job),
					       JobObjectBasicAccountingInformation, &info,
					       sizeof info, NULL))
			return win_fail(err, "job.end", "QueryInformationJobObject");
		if (info.ActiveProcesses == 0)
			break;
		Sleep(10);
	}
	return (int)info.ActiveProcesses;
}

void win_job_calls(struct win_calls *calls)
{
	calls->make_job = job_make;
	calls->read_job = job_read;
	calls->end_job = job_end;
	calls->count_job = job_count;
}
