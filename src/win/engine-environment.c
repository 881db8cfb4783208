/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the environment of the command. Called once per run, while the plan is made. */
#include "win/engine-environment.h"

#include "base/error.h"
#include "base/scope.h"
#include "nt/nt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Without these cmd.exe, PowerShell or the C library's loader do not start. */
static const char *const passed[] = {
	"SystemRoot",
	"SystemDrive",
	"windir",
	"ComSpec",
	"Path",
	"PATHEXT",
	"OS",
	"NUMBER_OF_PROCESSORS",
	"ProgramFiles",
	"ProgramFiles(x86)",
	"ProgramW6432",
	"CommonProgramFiles",
	"CommonProgramFiles(x86)",
	"CommonProgramW6432",
	"ProgramData",
	"PROCESSOR_ARCHITECTURE",
	"USERPROFILE",
	"USERNAME",
	"HOMEDRIVE",
	"HOMEPATH",
	"APPDATA",
	"LOCALAPPDATA",
	"PSModulePath",
};

#define VARIABLES_MAX (ARRAY_SIZE(passed) + NT_JOB_VARIABLES_MAX + 16)

struct list {
	char *items[VARIABLES_MAX + 1];
	size_t n;
	bool failed;
};

static void add(struct list *list, const char *name, const char *value)
{
	if (asprintf(&list->items[list->n], "%s=%s", name, value) < 0) {
		list->items[list->n] = NULL;
		list->failed = true;
		return;
	}
	list->n++;
}

static const char *find(const char *const *environment, const char *name)
{
	const size_t size = strlen(name);

	for (; *environment; environment++) {
		char found[256];

		if (strcspn(*environment, "=") != size || size >= sizeof found)
			continue;
		memcpy(found, *environment, size);
		found[size] = '\0';
		if (nt_environment_compare(found, name) == 0)
			return *environment + size + 1;
	}
	return NULL;
}

static void pass(struct list *list, const char *const *environment, const char *name)
{
	const char *value = find(environment, name);

	if (value)
		add(list, name, value);
}

int engine_environment(const struct nt_request *request, const struct engine_options *options,
		       char **ret, struct atoll_error *err)
{
	const struct nt_job *job = request->job;
	struct list list = {0};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
		pass(&list, options->environment, passed[i]);
	for (size_t i = 0; i < job->n_variables; i++) {
		if (job->variables[i].value)
			add(&list, job->variables[i].name, job->variables[i].value);
		else
			pass(&list, options->environment, job->variables[i].name);
	}
	/* Last, so that a job does not replace them. */
	add(&list, "TEMP", request->temp);
	add(&list, "TMP", request->temp);
	add(&list, "GIT_CONFIG_COUNT", "1");
	add(&list, "GIT_CONFIG_KEY_0", "http.sslBackend");
	add(&list, "GIT_CONFIG_VALUE_0", "openssl");
	r = list.failed ? -ENOMEM : nt_environment_block((const char *const *)list.items, ret);
	for (size_t i = 0; i < list.n; i++)
		free(list.items[i]);
	return r < 0 ? error_set(err, ATOLL_FAULT_REQUEST, -r, "environment") : r;
}
