/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job.h"
#include "eventlog/watching.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/program.h"
#include "base/str.h"
#include "eventlog/eventlog.h"
#include "isolate/isolate.h"
#include "job/job-layer.h"
#include "job/secret-links.h"
#include "layer/layer.h"
#include "netctl/netctl.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#define FILE_MAX (1 << 20)

/* The n-th field of a line of /etc/passwd, cut off in place. */
static const char *account_field(char *line, int n)
{
	char *field = NULL;

	for (int i = 0; i <= n; i++)
		field = strsep(&line, ":\n");
	return field ? field : "";
}

/*
 * HOME if it makes sense; else what the accounts of this machine say, in `buffer`. Only those: what
 * a directory service knows is brought by libraries that a program linked statically must not load.
 */
static const char *find_home(char *buffer, size_t size)
{
	const char *home = getenv("HOME");
	FILE *accounts;

	if (home && home[0] == '/')
		return home;
	home = "/";
	accounts = fopen("/etc/passwd", "re");
	while (accounts && fgets(buffer, (int)size, accounts)) {
		cleanup_free char *copy = strdup(buffer);

		if (!copy || strtoul(account_field(copy, 2), NULL, 10) != geteuid())
			continue;
		home = account_field(buffer, 5);
		break;
	}
	if (accounts)
		fclose(accounts);
	return home[0] == '/' ? home : "/";
}

struct atoll_job *atoll_job_new(struct atoll_error *err)
{
	struct atoll_job *job = calloc(1, sizeof *job);
	char cwd[PATH_MAX], accounts[4096];
	const char *home;

	if (!job) {
		error_oom(err);
		return NULL;
	}
	/* The kernel's answer, not PWD: free of links, and an error if the directory is gone. */
	if (!getcwd(cwd, sizeof cwd) || cwd[0] != '/') {
		error_set(err, ATOLL_FAULT_REQUEST, errno ? errno : ENOENT,
			  "the current directory is gone or unreachable");
		free(job);
		return NULL;
	}
	home = find_home(accounts, sizeof accounts);
	job->spec = spec_new(home, cwd, err);
	if (!job->spec) {
		free(job);
		return NULL;
	}
	recipe_begin(job, home, cwd);
	return job;
}

void atoll_job_free(struct atoll_job *job)
{
	if (!job)
		return;
	spec_free(job->spec);
	job_file_done(&job->file);
	buf_done(&job->recipe);
	free(job);
}

int atoll_job_load(struct atoll_job *job, const char *path, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(FILE_MAX);
	bool is_stdin = streq(path, "-");
	const char *name = is_stdin ? "standard input" : path, *real;
	cleanup_fd int fd = -1;
	int r;

	if (job->file_hash[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "a second job file '%s'; one is enough", path);
	fd = job_file_open(path, &job->file, err);
	if (fd < 0)
		return fd;
	r = fd_read_all(fd, &text);
	if (r == -E2BIG)
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"job file '%s' is larger than 1 MiB; a job file states a contract, data "
			"belongs elsewhere",
			path);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read job file '%s'", path);
	/* Relative paths in it count from where it really is. */
	real = is_stdin ? NULL : job->file.real;
	hash_sha256_hex(text.data ? text.data : "", text.used, job->file_hash);
	recipe_add(job, (const char *const[]){"load", name, real, text.data ? text.data : ""}, 4);
	return spec_load(job->spec, name, real, text.data ? text.data : "", text.used, err);
}

int atoll_job_command(struct atoll_job *job, char *const argv[], struct atoll_error *err)
{
	return spec_set_command(job->spec, argv, "command line", err);
}

static int add_descriptor(struct spec *spec, const char *value, const char *origin,
			  struct atoll_error *err)
{
	char *end;
	long fd;

	errno = 0;
	fd = strtol(value, &end, 10);
	if (errno || *end || end == value || fd < INT_MIN || fd > INT_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%s %s: a descriptor is a number from 3 to 1023", origin, value);
	return spec_add_descriptor(spec, (int)fd, origin, err);
}

typedef int (*set_function)(struct spec *, const char *, const char *, struct atoll_error *);

static const struct {
	const char *key;
	set_function set;
} setters[] = {
	{"read-at", spec_add_read_at},
	{"write-at", spec_add_write_at},
	{"socket", spec_add_socket},
	{"accept-broad", spec_add_broad},
	{"workspace", spec_set_workspace},
	{"workspace-at", spec_set_workspace_at},
	{"mode", spec_set_workspace_mode},
	{"root", spec_set_root},
	{"checkpoints", spec_set_checkpoints},
	{"record", spec_set_record},
	{"rule", spec_add_rule_verdict},
	{"hold", spec_set_hold},
	{"kept-output", spec_set_kept_output},
	{"log-size", spec_set_log_size},
	{"chdir", spec_set_cwd},
	{"env", spec_add_variable},
	{"fd", add_descriptor},
	{"identity", spec_set_identity},
	{"accept-weaker", spec_add_accepted},
	{"net", spec_set_network_mode},
	{"allow", spec_add_allow},
	{"deny", spec_add_deny},
	{"secret", spec_add_secret},
	{"listen", spec_add_listen},
	{"rate", spec_set_rate},
	{"net-bytes", spec_set_net_bytes},
	{"connections", spec_set_connections},
	{"requests", spec_set_requests},
	{"ask", spec_set_ask},
	{"proxy", spec_set_proxy},
	{"upstream", spec_set_upstream},
};

static const char *const access_keys[] = {
	[SPEC_READ] = "read",
	[SPEC_WRITE] = "write",
	[SPEC_HIDE] = "hide",
	[SPEC_PROTECT] = "protect",
};

int atoll_job_set(struct atoll_job *job, const char *key, const char *value,
		  struct atoll_error *err)
{
	char origin[64];

	recipe_add(job, (const char *const[]){"set", key, value}, 3);
	snprintf(origin, sizeof origin, "--%s", key);
	for (size_t i = 0; i < ARRAY_SIZE(access_keys); i++) {
		if (streq(key, access_keys[i]))
			return spec_add_rule(job->spec, (enum spec_access)i, value, origin, err);
	}
	for (size_t i = 0; i < ARRAY_SIZE(setters); i++) {
		if (streq(key, setters[i].key))
			return setters[i].set(job->spec, value, origin, err);
	}
	for (int id = 0; id < SPEC_LIMIT_COUNT; id++) {
		if (streq(origin, spec_limits[id].flag))
			return spec_set_limit(job->spec, (enum spec_limit_id)id, value, origin,
					      err);
	}
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "there is no clause '%s'", key);
}

struct own_place {
	struct spec *spec;
	struct atoll_error *err;
};

static int protect_program(const char *path, void *data)
{
	const struct own_place *place = data;
	struct spec *spec = place->spec;

	/* Few lines grant writing: this costs less than asking which line is the strongest. */
	for (size_t i = 0; i < spec->n_rules; i++) {
		if (spec->rules[i].access == SPEC_WRITE &&
		    path_is_within(path, spec->rules[i].path)) {
			int r = spec_protect_late(spec, path, false, SPEC_ORIGIN_DEFAULT,
						  place->err);

			return r < 0 ? r : obeyed_protect_links(spec, path, place->err);
		}
	}
	return 0;
}

/* The program that runs the next job, and its helpers, when they lie in a writable root: whoever
 * could replace them would be outside of every sandbox. */
static int protect_programs(struct atoll_job *job, struct atoll_error *err)
{
	struct own_place place = {.spec = job->spec, .err = err};
	char path[2 * PATH_MAX];
	int r = program_each_place(protect_program, &place);

	/* The next call comes by the same links. */
	if (r == 0 && program_called_as(path, sizeof path))
		r = obeyed_protect_links(job->spec, path, err);
	return r;
}

int job_finish(struct atoll_job *job, struct atoll_error *err)
{
	int r;

	if (job->is_finished)
		return 0;
	r = spec_finish(job->spec, err);
	if (r == 0 && !job->is_trusted)
		r = trust_check(job, err);
	if (r == 0)
		r = secret_links_hide(job->spec, err);
	if (r == 0)
		r = obeyed_protect(job->spec, err);
	if (r == 0 && !job->is_held)
		r = protect_programs(job, err);
	if (r == 0)
		r = layer_check_reach(job->spec, err);
	job->is_finished = r == 0;
	return r;
}

int atoll_job_digest(struct atoll_job *job, char ret_hex[65], struct atoll_error *err)
{
	int r = job_finish(job, err);

	return r < 0 ? r : spec_digest(job->spec, ret_hex, err);
}

int atoll_job_plan(struct atoll_job *job, enum atoll_format format, char **ret_text,
		   struct atoll_error *err)
{
	cleanup_with(plan_done) struct plan plan = {0};
	cleanup_buf struct buf text = BUF_INIT(16 << 20);
	const struct backend *backend;
	struct cell_extra extra = {0};
	struct cell *cell = NULL;
	char **env;
	int r = job_finish(job, err);

	if (r < 0)
		return r;
	env = env_build(job->spec, &(struct env_extra){0}, err);
	if (!env)
		return -ENOMEM;
	backend = isolate_choose(NULL);
	extra.layer_is_memory = job->spec->workspace_mode == SPEC_WORKSPACE_LAYER &&
				layer_store_needs_memory(job->spec->workspace);
	r = backend->prepare(job->spec, env, &extra, &plan, &cell, err);
	if (r == 0)
		r = netctl_describe(job->spec, &plan, err);
	watching_describe(job->spec, &plan);
	if (r == 0)
		eventlog_describe(job->spec, &plan);
	if (r == 0)
		r = plan_render(&plan, job->spec, format, &text, err);
	if (r == 0 && !(*ret_text = buf_take(&text)))
		r = error_oom(err);
	backend->release(cell);
	env_free(env);
	return r;
}

const char *atoll_schema(void)
{
	return spec_schema;
}

const char *atoll_version(void)
{
	return ATOLL_VERSION;
}
