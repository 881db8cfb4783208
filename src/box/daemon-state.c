/* SPDX-License-Identifier: Apache-2.0 */
#include "box/daemon-state.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/program.h"
#include "base/state.h"
#include "base/str.h"
#include "box/box-network-values.h"
#include "box/box-remove.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/budget.h"
#include "box/config.h"
#include "box/control.h"
#include "box/create.h"
#include "box/db.h"
#include "box/event.h"
#include "box/guest-link.h"
#include "box/life.h"
#include "box/meter.h"
#include "box/pool.h"
#include "box/process.h"
#include "box/row.h"
#include "box/secret.h"
#include "box/table.h"
#include "box/template.h"
#include "box/tenant-disk.h"
#include "box/tenant.h"
#include "box/volume.h"
#include "box/work.h"
#include "job/job.h"
#include "layer/layer.h"
#include "sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

/*
 * The daemon: all of it
 *
 *	lock_dir()	one daemon for a directory
 *	db_open()	what has to survive
 *	tenants, kinds, boxes: from the database into memory
 *	remove_strangers()	what no row names: half made or removed, parked by the last one
 *
 * Boxes of the last daemon are simply there again: their holders have not noticed anything.
 */

#define TICK_NS	    INT64_C(1000000000)
#define WRITE_TICKS 30
#define TIDY_TICKS  1800

/* ---- small things ---- */

int64_t daemon_now_ms(void)
{
	return (int64_t)(clock_real_ns() / 1000000);
}

void daemon_random_bytes(void *ret, size_t size)
{
	/* Never fails for so few, once the machine has booted. */
	if (getrandom(ret, size, 0) != (ssize_t)size)
		abort();
}

void daemon_random_name(char *ret, size_t n)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char byte;

	for (size_t i = 0; i < n;) {
		daemon_random_bytes(&byte, 1);
		if (byte < 252) /* the largest multiple of 36 */
			ret[i++] = letters[byte % 36];
	}
	ret[n] = '\0';
}

void daemon_random_hex(char *ret, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[64];

	daemon_random_bytes(bytes, n);
	for (size_t i = 0; i < n; i++)
		ret[i] = digits[bytes[i] & 15];
	ret[n] = '\0';
}

static void call_later(struct loop_timer *timer)
{
	struct later *later = (struct later *)((char *)timer - offsetof(struct later, timer));

	later->call(later);
}

void daemon_call_later(struct daemon *daemon, struct later *later,
		       void (*call)(struct later *later))
{
	later->call = call;
	later->timer.fire = call_later;
	if (loop_arm(daemon->loop, &later->timer, clock_monotonic_ns()) < 0)
		abort();
}

static void remove_in(int fd)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (!streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	else
		close(fd);
}

/* Only files are in those. */
void daemon_remove_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		remove_in(fd);
	rmdir(path);
}

struct loop *daemon_loop(struct daemon *daemon)
{
	return daemon->loop;
}

struct work *daemon_work(struct daemon *daemon)
{
	return daemon->work;
}

/* ---- its directory ---- */

int daemon_find_dir(char ret[PATH_MAX], struct atoll_error *err)
{
	char state[PATH_MAX];
	int r = state_path(state, err);

	if (r == 0)
		r = state_check_home(err);
	if (r < 0)
		return r;
	if (strlen(state) + sizeof "/daemon" > PATH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "the daemon's state");
	snprintf(ret, PATH_MAX, "%.*s/daemon", PATH_MAX - 8, state);
	return 0;
}

/* It stands beneath `state`, which state_open() has made. */
int daemon_make_dir(const char *path, struct atoll_error *err)
{
	char part[PATH_MAX];
	struct stat st;

	for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
		snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		mkdir(part, 0700);
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make '%s', the daemon's state",
				 path);
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' holds the daemon's state: it has to be a directory of yours "
				 "that is open to nobody else (chmod 700)",
				 path);
	return 0;
}

int daemon_subdir(struct daemon *daemon, const char *what, char ret[PATH_MAX],
		  struct atoll_error *err)
{
	int length = snprintf(ret, PATH_MAX, "%s/%s", daemon->dir, what);

	if (length >= PATH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "'%s'", daemon->dir);
	if (mkdir(ret, 0700) < 0 && errno != EEXIST)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make '%s'", ret);
	return 0;
}

static int lock_dir(struct daemon *daemon, struct atoll_error *err)
{
	char path[PATH_MAX], pid[16] = "";

	snprintf(path, sizeof path, "%.*s/lock", PATH_MAX - 8, daemon->dir);
	daemon->lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (daemon->lock_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", path);
	if (flock(daemon->lock_fd, LOCK_EX | LOCK_NB) == 0) {
		int n = snprintf(pid, sizeof pid, "%d\n", getpid());

		if (ftruncate(daemon->lock_fd, 0) == 0)
			(void)!pwrite(daemon->lock_fd, pid, (size_t)n, 0);
		return 0;
	}
	if (errno != EWOULDBLOCK)
		return error_set(err, ATOLL_FAULT_HOST, errno, "lock '%s'", path);
	(void)!pread(daemon->lock_fd, pid, sizeof pid - 1, 0);
	pid[strcspn(pid, "\n")] = '\0';
	return error_set(err, ATOLL_FAULT_REQUEST, EBUSY,
			 "another daemon (pid %s) has '%s'; --state names another directory", pid,
			 daemon->dir);
}

/* ---- every second ---- */

static int open_spawner(struct atoll_error *err);

static void tick(struct loop_timer *timer)
{
	struct daemon *daemon = (struct daemon *)((char *)timer - offsetof(struct daemon, tick));

	daemon->n_ticks++;
	if (spawner_is_gone())
		open_spawner(NULL);
	pool_tick(daemon);
	rows_tick(daemon);
	budget_tick(daemon, daemon->n_ticks % WRITE_TICKS == 0);
	if (daemon->n_ticks % TIDY_TICKS == 1)
		remove_tidy(daemon);
	stored_tick(daemon, daemon->n_ticks % TIDY_TICKS == 1);
	loop_arm(daemon->loop, &daemon->tick, clock_monotonic_ns() + TICK_NS);
}

bool daemon_is_ready(const struct daemon *daemon, const char **ret_why)
{
	*ret_why = daemon->is_closing	    ? "the daemon is stopping"
		   : daemon->is_taking_over ? "the daemon is starting"
					    : NULL;
	return !*ret_why;
}

void daemon_count(const struct daemon *daemon, struct daemon_counts *ret)
{
	*ret = daemon->counts;
	ret->n_boxes = daemon->n_boxes;
	for (size_t i = 0; i < daemon->table_size; i++) {
		for (const struct daemon_box *mine = daemon->table[i]; mine;
		     mine = mine->next_same_hash) {
			ret->n_running += mine->box.state == BOX_RUNNING;
			ret->n_paused += mine->box.state == BOX_PAUSED;
		}
	}
	ret->n_parked = pool_parked(daemon);
	ret->n_removing = daemon->n_removing;
	ret->n_database_failures = db_failures(daemon->db);
	ret->n_database_waiting = db_waiting(daemon->db);
	for (enum work_rank rank = 0; rank < WORK_RANKS; rank++)
		ret->n_waiting[rank] = work_waiting(daemon->work, rank);
}

/* ---- opening and closing ---- */

/* What is ours is in nobody's sandbox. */
static int check_workspaces(const struct daemon *daemon, const struct config_tenant *tenant,
			    struct atoll_error *err)
{
	char dir[PATH_MAX];

	if (!realpath(daemon->dir, dir))
		return error_set(err, ATOLL_FAULT_HOST, errno, "'%s'", daemon->dir);
	for (size_t i = 0; i < tenant->n_workspaces; i++) {
		if (path_is_within(tenant->workspaces[i], dir) ||
		    path_is_within(dir, tenant->workspaces[i]))
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "'%s' cannot be a workspace of tenant '%s': the daemon's "
					 "own state is at '%s'",
					 tenant->workspaces[i], tenant->name, dir);
	}
	return 0;
}

/* Tenants that the configuration names, and one for whoever has started it. */
static int put_tenants(struct daemon *daemon, struct atoll_error *err)
{
	const struct daemon_config *config = daemon->config;
	const struct config_tenant usual = config_free_tenant(DEFAULT_TENANT);
	int r = tenant_find(daemon, DEFAULT_TENANT) ? 0 : tenant_put(daemon->db, &usual, err);

	for (size_t i = 0; r == 0 && i < config->n_tenants; i++) {
		r = check_workspaces(daemon, &config->tenants[i], err);
		if (r == 0)
			r = tenant_put(daemon->db, &config->tenants[i], err);
	}
	return r < 0 ? r : tenants_reload(daemon, err);
}

static int open_spawner(struct atoll_error *err)
{
	char path[PATH_MAX];
	int r = program_find("atoll-spawner", path, sizeof path);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r,
				 "find 'atoll-spawner', which is installed beside atoll-daemon");
	return spawner_open(path, err);
}

/* The store is ours, and what is in it goes when we say so. Holders are forked by a small program
 * of their own, as long as there are no threads here. */
static int open_store(const struct daemon *daemon, struct atoll_error *err)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof path, "%.*s/atoll", PATH_MAX - 16, daemon->dir);
	r = daemon_make_dir(path, err);
	if (r < 0)
		return r;
	strcat(path, "/" LAYER_STORE_HELD);
	r = fd_write_text(path, "");
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "write '%s'", path);
	return open_spawner(err);
}

/* Tenants write in these directories, so a job file there needs trust: the workspaces, and the
 * daemon's own directory with volumes, templates and layers. `atoll run` looks them up in the
 * user's store, not in the daemon's: note them before the daemon's store is opened. */
static int note_written(const struct daemon *daemon, struct atoll_error *err)
{
	const struct daemon_config *config = daemon->config;
	char *const own[] = {(char *)daemon->dir};
	int r = layer_places_note_paths(own, 1, err);

	for (size_t i = 0; r == 0 && i < config->n_tenants; i++)
		r = layer_places_note_paths(config->tenants[i].workspaces,
					    config->tenants[i].n_workspaces, err);
	return r;
}

static int open_all(struct daemon *daemon, struct atoll_error *err)
{
	char path[PATH_MAX];
	int r = daemon_make_dir(daemon->dir, err);

	if (r == 0)
		r = lock_dir(daemon, err);
	if (r == 0)
		r = note_written(daemon, err);
	if (r < 0)
		return r;
	/* Everything of the library's is beneath from here on, also for the holders. */
	setenv("XDG_STATE_HOME", daemon->dir, 1);
	r = open_store(daemon, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof path, "%.*s/state.db", PATH_MAX - 16, daemon->dir);
	r = db_open(path, daemon->loop, &daemon->db, err);
	if (r == 0)
		r = work_open(daemon->loop, 0, &daemon->work, err);
	if (r == 0)
		r = daemon_subdir(daemon, "home", daemon->homes, err);
	if (r == 0)
		r = tenants_load(daemon, err);
	if (r == 0)
		r = put_tenants(daemon, err);
	if (r == 0)
		r = volumes_load(daemon, err);
	if (r == 0)
		r = kinds_load(daemon, err);
	if (r == 0)
		r = daemon_secrets_load(daemon, err);
	if (r == 0)
		r = boxes_load(daemon, err);
	if (r == 0)
		r = remove_strangers(daemon, err);
	if (r == 0)
		networks_tidy(daemon);
	return r < 0 ? r : control_open(daemon, err);
}

int daemon_open(const struct daemon_options *options, struct daemon **ret, struct atoll_error *err)
{
	struct daemon *daemon = calloc(1, sizeof *daemon);
	int r;

	if (!daemon)
		return error_oom(err);
	daemon->loop = options->loop;
	daemon->config = options->config;
	daemon->lock_fd = -1;
	daemon->control.fd = -1;
	snprintf(daemon->dir, sizeof daemon->dir, "%s", options->dir);
	daemon->is_taking_over = true;
	meter_listen(daemon);
	r = open_all(daemon, err);
	if (r < 0) {
		daemon_close(daemon, false);
		return r;
	}
	daemon->is_taking_over = false;
	daemon->tick.fire = tick;
	loop_arm(daemon->loop, &daemon->tick, clock_monotonic_ns());
	*ret = daemon;
	return 0;
}

static void end_all(struct daemon *daemon)
{
	const char **ids = calloc(daemon->n_boxes + 1, sizeof *ids);
	struct box *box = NULL;
	size_t n = 0;

	while (ids && (box = box_next_any(daemon, box))) {
		ids[n++] = box->sandbox;
		row_remove(inner(box));
	}
	if (n)
		atoll_sandboxes_remove(ids, n, true, NULL, NULL);
	free(ids);
}

/* Whoever holds on to a box, or reads along, does so no more. */
static void let_go(struct daemon *daemon)
{
	for (struct box *box = NULL; (box = box_next_any(daemon, box));) {
		box_call_gone(inner(box));
		guest_end(box);
		process_forget_all(box);
	}
}

void daemon_disconnect(struct daemon *daemon)
{
	if (!daemon)
		return;
	daemon->is_closing = true;
	control_close(daemon);
	let_go(daemon);
}

void daemon_close(struct daemon *daemon, bool is_final)
{
	if (!daemon)
		return;
	daemon_disconnect(daemon);
	loop_disarm(daemon->loop, &daemon->tick);
	work_close(daemon->work);
	if (is_final)
		end_all(daemon);
	pools_free(daemon);
	if (daemon->db)
		budget_tick(daemon, true);
	rows_tick(daemon);
	db_close(daemon->db);
	rows_free(daemon);
	table_free(daemon);
	kinds_free(daemon);
	volumes_free(daemon);
	daemon_secrets_free(daemon);
	tenants_free(daemon);
	spawner_close();
	box_unlisten(&daemon->listener);
	if (daemon->lock_fd >= 0)
		close(daemon->lock_fd);
	free(daemon);
}
