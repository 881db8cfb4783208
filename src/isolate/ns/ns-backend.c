/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "init/notice.h"
#include "isolate/ns/cell.h"
#include "isolate/ns/probe.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define PEERS_SIZE (INIT_PEERS * sizeof(struct init_peer))

/* Only somebody's name and address out of ~/.gitconfig: commits need them, and nothing else of it.
 */
static void read_git_identity(struct cell *cell)
{
	cleanup_buf struct buf text = BUF_INIT(1 << 16), out = BUF_INIT(4096);
	cleanup_fd int fd = -1;
	cleanup_free char *path = path_join(cell->spec->home, ".gitconfig");
	bool in_user = false;

	/* Users of the contract's own are nobody of the host's. */
	if (cell->spec->n_users)
		return;
	fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
	if (fd < 0 || fd_read_all(fd, &text) < 0 || !text.data)
		return;
	buf_add_str(&out, "[user]\n");
	for (char *line = text.data, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		line += strspn(line, " \t");
		if (line[0] == '[')
			in_user = strncasecmp(line, "[user]", 6) == 0;
		else if (in_user &&
			 (strncasecmp(line, "name", 4) == 0 ||
			  strncasecmp(line, "email", 5) == 0) &&
			 line[strlen(line) - 1] != '\\')
			buf_addf(&out, "\t%s\n", line);
	}
	cell->gitconfig = buf_take(&out);
}

int cell_explain(struct cell *cell, struct atoll_error *err)
{
	cleanup_buf struct buf json = BUF_INIT(4 << 20), text = BUF_INIT(4 << 20);
	int r = spec_explain_json(cell->spec, &json, err);

	if (r == 0)
		r = spec_explain_text(cell->spec, &text, err);
	if (r < 0)
		return r;
	cell->contract_json = buf_take(&json);
	cell->contract_text = buf_take(&text);
	return cell->contract_json && cell->contract_text ? 0 : error_oom(err);
}

static void set_limits(struct cell *cell, const struct cell_extra *extra)
{
	const struct spec_limit *limits = cell->spec->limits;

	cell->limits.files = limits[SPEC_FILES].value;
	cell->limits.cpu_time_ms = limits[SPEC_CPU_TIME].value;
	cell->limits.memory = cell->group.has_memory ? SPEC_UNLIMITED : limits[SPEC_MEMORY].value;
	cell->limits.is_memory_counted = cell->group.has_memory;
	/* The kernel's limit is one for each id, and root inside can be any of hundreds. */
	cell->limits.pids = cell->ids.has_many && !cell->group.has_pids ? limits[SPEC_PIDS].value
									: SPEC_UNLIMITED;
	cell->limits.disk = limits[SPEC_DISK].value;
	cell->limits.disk_kept = extra->disk_kept;
	cell->keeps_affinity = limits[SPEC_CPUS].value != SPEC_UNLIMITED;
}

/* What cannot be done without is found out before anything is built. */
static int check_host(struct cell *cell, struct plan *plan, struct atoll_error *err)
{
	static const char fix[] = "needs Linux 5.19 or later with Landlock enabled (boot with "
				  "lsm=landlock,...)";

	cell->landlock_abi = landlock_abi();
	if (cell->landlock_abi >= 2)
		return 0;
	if (plan)
		plan_add(plan, PLAN_MISSING, "processes.files", NULL, "Landlock", fix, "default");
	else
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "this kernel has no Landlock (ABI 2 or later): %s", fix);
	return 0;
}

/* Of the caller, not ours: whatever we open closes at exec, and what came through our own exec does
 * not. Where the caller had none under that number, it may be our store's. */
static int check_descriptors(const struct spec *spec, struct atoll_error *err)
{
	for (size_t i = 0; i < spec->n_descriptors; i++) {
		int flags = fcntl(spec->descriptors[i], F_GETFD);

		if (flags < 0 || flags & FD_CLOEXEC)
			return error_set(err, ATOLL_FAULT_REQUEST, EBADF, "descriptor %d (%s)",
					 spec->descriptors[i], spec->descriptors_origin);
	}
	return 0;
}

void cell_free(struct cell *cell)
{
	if (!cell)
		return;
	ns_relayer_done(cell);
	cell_drop_listeners(cell);
	if (cell->user_ns_fd >= 0)
		close(cell->user_ns_fd);
	if (cell->mount_ns_fd >= 0)
		close(cell->mount_ns_fd);
	if (cell->map_ns_fd >= 0)
		close(cell->map_ns_fd);
	if (cell->layer_ns_fd >= 0)
		close(cell->layer_ns_fd);
	if (cell->kept_ns_fd >= 0)
		close(cell->kept_ns_fd);
	cgroup_release(&cell->group);
	ids_release(cell);
	if (cell->usage)
		munmap(cell->usage, sizeof *cell->usage);
	if (cell->peers)
		munmap(cell->peers, PEERS_SIZE);
	if (cell->notice_fd >= 0)
		close(cell->notice_fd);
	if (cell->notices)
		munmap(cell->notices, sizeof *cell->notices);
	ns_free_mounts(cell);
	free(cell->contract_json);
	free(cell->contract_text);
	free(cell->gitconfig);
	free(cell->passwd);
	free(cell->group_file);
	for (size_t i = 0; i < cell->n_bundles; i++)
		free(cell->bundles[i]);
	for (size_t i = 0; i < cell->n_keystores; i++)
		free(cell->keystores[i]);
	free(cell);
}

/* Shared with the first process, and zero until it writes. */
static void *map_shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int cell_new(const struct spec *spec, char *const *env, const struct cell_extra *extra,
	     struct plan *plan, struct cell **ret, struct atoll_error *err)
{
	static const struct cell_extra nothing;
	struct cell *cell = calloc(1, sizeof *cell);
	int r;

	if (!cell)
		return error_oom(err);
	cell->spec = spec;
	cell->env = env;
	cell->extra = extra ? extra : &nothing;
	cell->group.is_of_many = cell->extra->is_service;
	cell->group.v2_fd = cell->group.main.fd = cell->group.cpu.fd = -1;
	cell->ids.slot_fd = cell->layer_fd = cell->user_ns_fd = cell->mount_ns_fd = -1;
	cell->map_ns_fd = cell->layer_ns_fd = cell->notice_fd = -1;
	cell->kept_ns_fd = cell->storage_fd = -1;
	r = check_host(cell, plan, err);
	if (r == 0)
		r = check_descriptors(spec, err);
	if (r == 0)
		r = ids_choose(cell, err);
	if (r == 0)
		r = ns_prepare_mounts(cell, plan, err);
	if (r == 0 && !plan)
		r = quota_check_space(cell, err);
	if (r < 0) {
		cell_free(cell);
		return r;
	}
	cgroup_prepare(&cell->group, spec);
	cell->usage = map_shared(sizeof *cell->usage);
	if (network_is_on(&spec->network))
		cell->peers = map_shared(PEERS_SIZE);
	if (spec->record == SPEC_RECORD_FULL)
		cell->notices = map_shared(sizeof *cell->notices);
	if (!cell->usage || (network_is_on(&spec->network) && !cell->peers) ||
	    (spec->record == SPEC_RECORD_FULL && !cell->notices)) {
		cell_free(cell);
		return error_oom(err);
	}
	read_git_identity(cell);
	authority_find_bundles(cell);
	set_limits(cell, extra);
	*ret = cell;
	return 0;
}

static int prepare(const struct spec *spec, char *const *env, const struct cell_extra *extra,
		   struct plan *plan, struct cell **ret, struct atoll_error *err)
{
	int r = ns_check_calls(false, err);

	if (r == 0)
		r = cell_new(spec, env, extra, plan, ret, err);
	if (r == 0 && plan) {
		(*ret)->is_plan = true;
		ns_describe(*ret, plan);
	}
	return r;
}

/* Killing the first process kills the rest. By descriptor: a caller that ignores SIGCHLD has it
 * reaped for it, and then the number is somebody else's. */
static void stop(struct cell *cell, const struct cell_handle *handle)
{
	(void)cell;
	syscall(SYS_pidfd_send_signal, handle->pid_fd, SIGKILL, NULL, 0);
}

void cell_account(const struct cell *cell, struct cell_usage *ret)
{
	const struct init_usage *seen = cell->usage;

	*ret = (struct cell_usage){
		.memory_peak = seen->memory_peak,
		.memory = seen->memory,
		.processes = seen->processes,
		.cpu_ms = seen->cpu_ms,
		.processes_peak = seen->processes_peak,
		.written = seen->written,
		.files = seen->files,
	};
	cgroup_account(&cell->group, ret);
}

#define NOTE_WAIT_NS  100000
#define NOTE_WAIT_MAX 50

/* The first process may be about to write it; it is not waited for longer than that takes. */
int32_t cell_find_process(const struct cell *cell, uint16_t local_port, char ret_program[16])
{
	ret_program[0] = '\0';
	if (!cell->peers)
		return 0;
	for (int i = 0; __atomic_load_n(&cell->peers[0].pid, __ATOMIC_SEQ_CST); i++) {
		/* It was killed within connect(), or that takes long: the next caller, who may have
		 * thousands of ports to ask about, does not wait for it again. */
		if (i == NOTE_WAIT_MAX)
			__atomic_store_n(&cell->peers[0].pid, 0, __ATOMIC_SEQ_CST);
		else
			nanosleep(&(struct timespec){.tv_nsec = NOTE_WAIT_NS}, NULL);
	}
	memcpy(ret_program, cell->peers[local_port].program, 16);
	ret_program[15] = '\0';
	return cell->peers[local_port].pid;
}

const struct backend ns_backend = {
	.name = "process",
	.summary = "namespaces, Landlock, seccomp and a guard on this kernel",
	.probe = ns_probe,
	.prepare = prepare,
	.describe = ns_describe,
	.start = ns_start,
	.exec = ns_exec,
	.relayer = ns_relayer,
	.written = ns_written,
	.kept_id = ns_kept_id,
	.has_terminals = true,
	.find_process = cell_find_process,
	.account = cell_account,
	.keep_listener = cell_keep_listener,
	.stop = stop,
	.release = cell_free,
};
