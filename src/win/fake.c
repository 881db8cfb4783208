/* SPDX-License-Identifier: Apache-2.0 */
/* The fake of the Win32 calls. Called by tests of the engine only. */
#include "win/fake.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "nt/nt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- faults ---- */

/* Every call begins here. Returns what the call does. */
static enum fake_fault step(struct fake *fake, const char *name)
{
	fake->n_calls++;
	if (!fake->fault_at || fake->n_calls < fake->fault_at ||
	    (fake->n_calls > fake->fault_at && fake->n_calls > fake->faults_to))
		return FAKE_HONEST;
	if (!fake->fault_call[0])
		snprintf(fake->fault_call, sizeof fake->fault_call, "%s", name);
	return fake->fault;
}

static int broken(const char *name, struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, EIO, "call.%s: fault", name);
}

/* `truth`: whether a success without results is what an honest call would say here. */
#define BEGIN_WITH(name, truth)                                                                    \
	struct fake *fake = context;                                                               \
	switch (step(fake, name)) {                                                                \
	case FAKE_FAILS:                                                                           \
		return broken(name, err);                                                          \
	case FAKE_LIES:                                                                            \
		fake->lie_is_truth = (truth);                                                      \
		return 0;                                                                          \
	default:                                                                                   \
		break;                                                                             \
	}
#define BEGIN(name) BEGIN_WITH(name, false)

/* ---- handles ---- */

static int add_handle(struct fake *fake, const struct fake_handle *handle, win_handle *ret)
{
	for (size_t i = 0; i < FAKE_HANDLES; i++)
		if (!fake->handles[i].kind) {
			fake->handles[i] = *handle;
			*ret = i + 1;
			fake->n_open++;
			return 0;
		}
	return -EMFILE;
}

static struct fake_handle *get(struct fake *fake, win_handle handle, enum fake_kind kind)
{
	if (handle == 0 || handle > FAKE_HANDLES || fake->handles[handle - 1].kind != kind)
		return NULL;
	return &fake->handles[handle - 1];
}

static void fake_close(void *context, win_handle handle)
{
	struct fake *fake = context;

	if (step(fake, "close") != FAKE_HONEST || handle == 0 || handle > FAKE_HANDLES)
		return;
	if (fake->handles[handle - 1].kind)
		fake->n_open--;
	fake->handles[handle - 1].kind = FAKE_NOTHING;
}

static int bad_handle(struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_HOST, EBADF, "call.handle: no such handle");
}

/* ---- caller, lock, ledger ---- */

static int fake_identify(void *context, struct win_identity *ret, struct atoll_error *err)
{
	BEGIN("identify")
	*ret = (struct win_identity){.user = fake->user,
				     .logon = fake->logon,
				     .is_elevated = fake->is_elevated,
				     .session = 1,
				     .n_processors = 4};
	return 0;
}

static int fake_random(void *context, uint8_t *ret, size_t size, struct atoll_error *err)
{
	BEGIN("random")
	for (size_t i = 0; i < size; i++)
		ret[i] = (uint8_t)((fake->n_calls * 2654435761U + i * 40503U) >> 3);
	return 0;
}

static int fake_lock(void *context, struct atoll_error *err)
{
	BEGIN("lock")
	if (fake->is_locked)
		return error_set(err, ATOLL_FAULT_HOST, EBUSY, "lock: another run works");
	fake->is_locked = true;
	return 0;
}

static void fake_unlock(void *context)
{
	struct fake *fake = context;

	if (step(fake, "unlock") == FAKE_HONEST)
		fake->is_locked = false;
}

static int fake_read_ledger(void *context, char **ret, size_t *ret_size, struct atoll_error *err)
{
	BEGIN_WITH("read_ledger", !*fake->ledger)
	*ret = strdup(fake->ledger);
	*ret_size = strlen(fake->ledger);
	return *ret ? 0 : -ENOMEM;
}

static int fake_append_ledger(void *context, const char *line, struct atoll_error *err)
{
	char *text = NULL;

	BEGIN("append_ledger")
	if (asprintf(&text, "%s%s", fake->ledger, line) < 0)
		return -ENOMEM;
	free(fake->ledger);
	fake->ledger = text;
	return 0;
}

/* ---- files ---- */

static int fake_kind(void *context, const char *path)
{
	struct atoll_error *err = NULL;
	BEGIN_WITH("kind", !nt_world_at(&fake->world, path))
	const struct nt_file *file = nt_world_at(&fake->world, path);

	return !file ? NT_NOTHING : file->is_directory ? NT_IS_DIRECTORY : NT_IS_FILE;
}

static int make(struct fake *fake, const char *path, bool is_directory, struct atoll_error *err)
{
	if (nt_world_at(&fake->world, path))
		return error_set(err, ATOLL_FAULT_HOST, EEXIST, "file.make: '%s'", path);
	if (!nt_world_add(&fake->world, path, is_directory, NULL))
		return error_set(err, ATOLL_FAULT_HOST, ENOENT, "file.make: '%s'", path);
	return 0;
}

static int fake_make_directory(void *context, const char *path, struct atoll_error *err)
{
	BEGIN("make_directory")
	return make(fake, path, true, err);
}

static int fake_make_file(void *context, const char *path, struct atoll_error *err)
{
	BEGIN("make_file")
	return make(fake, path, false, err);
}

static int fake_remove(void *context, const char *path, struct atoll_error *err)
{
	BEGIN_WITH("remove", !nt_world_at(&fake->world, path))
	struct nt_file *file = nt_world_at(&fake->world, path);

	if (!file)
		return error_set(err, ATOLL_FAULT_HOST, ENOENT, "file.remove: '%s'", path);
	if (file->first_child)
		return error_set(err, ATOLL_FAULT_HOST, ENOTEMPTY, "file.remove: '%s'", path);
	nt_world_remove(&fake->world, file);
	return 0;
}

static int fake_open(void *context, const char *path, win_handle *ret, struct atoll_error *err)
{
	BEGIN("open")
	struct fake_handle handle = {.kind = FAKE_FILE, .file = nt_world_at(&fake->world, path)};

	if (!handle.file)
		return error_set(err, ATOLL_FAULT_HOST, ENOENT, "file.open: '%s'", path);
	return add_handle(fake, &handle, ret);
}

static int fake_describe(void *context, win_handle file, struct win_object *ret,
			 struct atoll_error *err)
{
	BEGIN("describe")
	const struct fake_handle *handle = get(fake, file, FAKE_FILE);

	if (!handle)
		return bad_handle(err);
	snprintf(ret->path, sizeof ret->path, "%s", handle->file->path);
	ret->is_directory = handle->file->is_directory;
	ret->is_reparse = handle->file->link != NULL;
	return 0;
}

/* By its bytes, as on Windows. */
static int copy_descriptor(const struct nt_descriptor *sd, struct nt_descriptor *ret)
{
	cleanup_free uint8_t *packed = NULL;
	int size = nt_descriptor_pack(sd, &packed);

	return size < 0 ? size : nt_descriptor_unpack(packed, (size_t)size, ret);
}

static int fake_get_security(void *context, win_handle file, struct nt_descriptor *ret,
			     struct atoll_error *err)
{
	BEGIN("get_security")
	const struct fake_handle *handle = get(fake, file, FAKE_FILE);

	return handle ? copy_descriptor(&handle->file->sd, ret) : bad_handle(err);
}

static int fake_set_security(void *context, win_handle file, const struct nt_descriptor *sd,
			     struct atoll_error *err)
{
	BEGIN("set_security")
	const struct fake_handle *handle = get(fake, file, FAKE_FILE);
	struct nt_descriptor copy;
	struct nt_acl kept;
	int r;

	if (!handle)
		return bad_handle(err);
	r = copy_descriptor(sd, &copy);
	if (r < 0)
		return r;
	if (fake->ignores_labels)
		nt_label_remove(&copy);
	if (fake->ignores_lists) {
		kept = copy.dacl;
		copy.dacl = handle->file->sd.dacl;
		handle->file->sd.dacl = kept;
	}
	nt_descriptor_done(&handle->file->sd);
	handle->file->sd = copy;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_no_names(struct fake *fake, win_handle directory)
{
	const struct fake_handle *handle = get(fake, directory, FAKE_FILE);

	return handle && !handle->file->first_child;
}

static int fake_list(void *context, win_handle directory, char **ret, struct atoll_error *err)
{
	BEGIN_WITH("list", has_no_names(fake, directory))
	const struct fake_handle *handle = get(fake, directory, FAKE_FILE);
	cleanup_free const char **names = NULL;
	size_t n = 0, size = 1;
	char *at;

	if (!handle)
		return bad_handle(err);
	for (const struct nt_file *f = handle->file->first_child; f; f = f->next_sibling, n++)
		size += strlen(f->name) + 1;
	names = calloc(n + 1, sizeof *names);
	*ret = at = calloc(1, size);
	if (!names || !at)
		return -ENOMEM;
	n = 0;
	for (const struct nt_file *f = handle->file->first_child; f; f = f->next_sibling)
		names[n++] = f->name;
	qsort(names, n, sizeof *names, compare_names);
	for (size_t i = 0; i < n; i++) {
		memcpy(at, names[i], strlen(names[i]) + 1);
		at += strlen(names[i]) + 1;
	}
	return 0;
}

/* ---- token, job object, desktop ---- */

static int fake_make_token(void *context, const struct nt_token_spec *spec, win_handle *ret,
			   struct atoll_error *err)
{
	BEGIN("make_token")
	const struct fake_handle handle = {.kind = FAKE_TOKEN, .token = *spec};

	return add_handle(fake, &handle, ret);
}

static int view_token(struct fake *fake, const struct nt_token_spec *spec,
		      struct nt_token_view *ret)
{
	*ret = (struct nt_token_view){
		.user = spec->user,
		.is_restricted = !fake->ignores_restricting,
		.is_write_restricted = !fake->ignores_restricting,
		.n_privileges = fake->ignores_privileges ? 21 : 1,
		.has_only_traverse = !fake->ignores_privileges,
		.integrity = fake->ignores_integrity ? NT_LEVEL_MEDIUM : spec->integrity,
	};
	nt_acl_init(&ret->default_list);
	for (size_t i = 0; i < spec->n_restricting && !fake->ignores_restricting; i++)
		ret->restricting[ret->n_restricting++] = spec->restricting[i];
	for (size_t i = 0; i < NT_DEFAULT_LIST; i++)
		if (nt_acl_add(&ret->default_list, NT_ACE_ALLOW, 0, NT_GENERIC_ALL,
			       &spec->default_list[i]) < 0)
			return -ENOMEM;
	return 0;
}

static int fake_read_token(void *context, win_handle token, struct nt_token_view *ret,
			   struct atoll_error *err)
{
	BEGIN("read_token")
	const struct fake_handle *handle = get(fake, token, FAKE_TOKEN);

	return handle ? view_token(fake, &handle->token, ret) : bad_handle(err);
}

static int fake_make_job(void *context, const struct nt_job_limits *limits, win_handle *ret,
			 struct atoll_error *err)
{
	BEGIN("make_job")
	struct fake_handle handle = {.kind = FAKE_JOB, .limits = *limits};

	if (fake->ignores_limits)
		handle.limits.memory_bytes = handle.limits.processes = 0;
	if (fake->ignores_interface)
		handle.limits.no_clipboard = handle.limits.no_handles = false;
	return add_handle(fake, &handle, ret);
}

static int fake_read_job(void *context, win_handle job, struct nt_job_limits *ret,
			 struct atoll_error *err)
{
	BEGIN("read_job")
	const struct fake_handle *handle = get(fake, job, FAKE_JOB);

	if (!handle)
		return bad_handle(err);
	*ret = handle->limits;
	return 0;
}

static int fake_make_desktop(void *context, const char *name, const struct nt_sid *logon,
			     win_handle *ret, struct atoll_error *err)
{
	BEGIN("make_desktop")
	const struct fake_handle handle = {.kind = FAKE_DESKTOP, .desktop = *logon};

	(void)name;
	return add_handle(fake, &handle, ret);
}

static int fake_read_desktop(void *context, win_handle desktop, struct nt_descriptor *ret,
			     struct atoll_error *err)
{
	const struct nt_label low = {.level = NT_LEVEL_LOW, .policy = NT_NO_WRITE_UP};

	BEGIN("read_desktop")
	const struct fake_handle *handle = get(fake, desktop, FAKE_DESKTOP);

	if (!handle)
		return bad_handle(err);
	ret->has_dacl = true;
	if (nt_acl_add(&ret->dacl, NT_ACE_ALLOW, 0, 0xf01ff, &handle->desktop) < 0)
		return -ENOMEM;
	if (fake->ignores_desktop_list &&
	    nt_acl_add(&ret->dacl, NT_ACE_ALLOW, 0, 0xf01ff, &nt_sid_everyone) < 0)
		return -ENOMEM;
	return nt_label_set(ret, &low);
}

/* ---- processes ---- */

static struct nt_token model_token(const struct fake *fake, const struct nt_token_spec *spec)
{
	static const struct nt_group groups[] = {
		{.sid = {.authority = 1, .n_subs = 1}},
		{.sid = {.authority = 5, .n_subs = 1, .subs = {11}}},
		{.sid = {.authority = 5, .n_subs = 2, .subs = {32, 545}}},
		{.sid = {.authority = 5, .n_subs = 2, .subs = {32, 544}}, .is_deny_only = true},
	};
	struct nt_token token =
		nt_token_model(spec, groups, ARRAY_SIZE(groups), fake->write_covers);

	if (fake->ignores_second_walk)
		token.restriction = NT_UNRESTRICTED;
	if (fake->ignores_integrity || fake->ignores_second_walk)
		token.integrity = NT_LEVEL_MEDIUM;
	return token;
}

/* The attempts in an order in which none takes away what a later one needs. */
static unsigned try_all(struct fake *fake, const struct nt_token *token, const char *directory)
{
	static const enum nt_attempt order[] = {
		NT_TRY_CREATE, NT_TRY_MKDIR, NT_TRY_OVERWRITE, NT_TRY_APPEND, NT_TRY_ATTRIBUTES,
		NT_TRY_STREAM, NT_TRY_OWNER, NT_TRY_RENAME,    NT_TRY_DELETE, NT_TRY_DACL};
	unsigned granted = 0;

	for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
		const char *name = order[i] == NT_TRY_CREATE  ? "new"
				   : order[i] == NT_TRY_MKDIR ? "newdir"
				   : order[i] == NT_TRY_DELETE && granted & 1U << NT_TRY_RENAME
					   ? "file-renamed"
				   : order[i] == NT_TRY_DACL && granted & 1U << NT_TRY_CREATE
					   ? "new"
					   : "file";
		char path[WIN_PATH_SIZE / 8];

		snprintf(path, sizeof path, "%s\\%s", directory, name);
		if (nt_world_try(&fake->world, token, order[i], path) == 0)
			granted |= 1U << order[i];
	}
	return granted;
}

static int fake_run_canary(void *context, const struct win_launch *launch,
			   struct win_canary *canaries, size_t n, struct atoll_error *err)
{
	BEGIN("run_canary")
	const struct fake_handle *handle = get(fake, launch->token, FAKE_TOKEN);
	struct nt_token token;

	if (!handle || !get(fake, launch->job, FAKE_JOB) ||
	    !get(fake, launch->desktop, FAKE_DESKTOP))
		return bad_handle(err);
	token = model_token(fake, &handle->token);
	for (size_t i = 0; i < n; i++)
		canaries[i].granted = try_all(fake, &token, canaries[i].path);
	return 0;
}

static int fake_start(void *context, const struct win_launch *launch, win_handle *ret,
		      struct atoll_error *err)
{
	BEGIN("start")
	const struct fake_handle handle = {
		.kind = FAKE_PROCESS,
		.process = {.token = launch->token, .job = launch->job, .is_suspended = true}};

	return add_handle(fake, &handle, ret);
}

static int fake_inspect(void *context, win_handle process, win_handle job,
			struct win_process_view *ret, struct atoll_error *err)
{
	BEGIN("inspect")
	const struct fake_handle *handle = get(fake, process, FAKE_PROCESS), *token;

	token = handle ? get(fake, handle->process.token, FAKE_TOKEN) : NULL;
	if (!token)
		return bad_handle(err);
	ret->is_in_job = handle->process.job == job;
	ret->is_suspended = handle->process.is_suspended;
	return view_token(fake, &token->token, &ret->token);
}

static int fake_resume(void *context, win_handle process, struct atoll_error *err)
{
	BEGIN("resume")
	struct fake_handle *handle = get(fake, process, FAKE_PROCESS);

	if (!handle)
		return bad_handle(err);
	handle->process.is_suspended = false;
	fake->n_started++;
	fake->n_wrong += !get(fake, handle->process.token, FAKE_TOKEN) ||
			 !get(fake, handle->process.job, FAKE_JOB);
	return 0;
}

static int fake_wait(void *context, win_handle process, uint64_t timeout_ms, uint32_t *ret_status,
		     struct atoll_error *err)
{
	BEGIN("wait")
	struct fake_handle *handle = get(fake, process, FAKE_PROCESS);

	(void)timeout_ms;
	if (!handle)
		return bad_handle(err);
	if (handle->process.is_suspended || fake->runs_for_ever)
		return -ETIME;
	handle->process.has_ended = true;
	*ret_status = fake->status;
	return 0;
}

static int fake_end_job(void *context, win_handle job, struct atoll_error *err)
{
	BEGIN("end_job")
	struct fake_handle *handle = get(fake, job, FAKE_JOB);

	if (!handle)
		return bad_handle(err);
	for (size_t i = 0; i < FAKE_HANDLES; i++)
		if (fake->handles[i].kind == FAKE_PROCESS && fake->handles[i].process.job == job)
			fake->handles[i].process.has_ended = true;
	return 0;
}

static int fake_count_job(void *context, win_handle job, struct atoll_error *err)
{
	int n = 0;

	BEGIN_WITH("count_job", true)
	if (!get(fake, job, FAKE_JOB))
		return bad_handle(err);
	for (size_t i = 0; i < FAKE_HANDLES; i++)
		n += fake->handles[i].kind == FAKE_PROCESS && fake->handles[i].process.job == job &&
		     !fake->handles[i].process.has_ended;
	return n;
}

/* ---- the table ---- */

int fake_init(struct fake *fake)
{
	*fake = (struct fake){
		.user = {.authority = 5, .n_subs = 5, .subs = {21, 9, 9, 9, 1001}},
		.logon = {.authority = 5, .n_subs = 3, .subs = {5, 0, 4711}},
		.write_covers = NT_COVERS_CHANGES,
		.ledger = strdup(""),
		.handles = calloc(FAKE_HANDLES, sizeof *fake->handles),
	};
	if (!fake->ledger || !fake->handles)
		return -ENOMEM;
	return nt_world_init(&fake->world, "O:SYD:(A;OICI;FA;;;SY)(A;;0x1200a9;;;BU)");
}

void fake_done(struct fake *fake)
{
	nt_world_done(&fake->world);
	free(fake->ledger);
	free(fake->handles);
	*fake = (struct fake){0};
}

struct win_calls fake_calls(struct fake *fake)
{
	return (struct win_calls){
		.context = fake,
		.identify = fake_identify,
		.random = fake_random,
		.lock = fake_lock,
		.unlock = fake_unlock,
		.read_ledger = fake_read_ledger,
		.append_ledger = fake_append_ledger,
		.kind = fake_kind,
		.make_directory = fake_make_directory,
		.make_file = fake_make_file,
		.remove = fake_remove,
		.open = fake_open,
		.describe = fake_describe,
		.get_security = fake_get_security,
		.set_security = fake_set_security,
		.list = fake_list,
		.close = fake_close,
		.make_token = fake_make_token,
		.read_token = fake_read_token,
		.make_job = fake_make_job,
		.read_job = fake_read_job,
		.make_desktop = fake_make_desktop,
		.read_desktop = fake_read_desktop,
		.run_canary = fake_run_canary,
		.start = fake_start,
		.inspect = fake_inspect,
		.resume = fake_resume,
		.wait = fake_wait,
		.end_job = fake_end_job,
		.count_job = fake_count_job,
	};
}
