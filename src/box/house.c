/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/program.h"
#include "base/state.h"
#include "base/str.h"
#include "box/box-inner.h"
#include "box/control.h"
#include "box/guest.h"
#include "box/process.h"
#include "box/secret.h"
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
 * The house: all of it
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

int64_t house_now_ms(void)
{
	return (int64_t)(clock_real_ns() / 1000000);
}

void house_random_bytes(void *ret, size_t size)
{
	/* Never fails for so few, once the machine has booted. */
	if (getrandom(ret, size, 0) != (ssize_t)size)
		abort();
}

void house_random_name(char *ret, size_t n)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char byte;

	for (size_t i = 0; i < n;) {
		house_random_bytes(&byte, 1);
		if (byte < 252) /* the largest multiple of 36 */
			ret[i++] = letters[byte % 36];
	}
	ret[n] = '\0';
}

void house_random_hex(char *ret, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[64];

	house_random_bytes(bytes, n);
	for (size_t i = 0; i < n; i++)
		ret[i] = digits[bytes[i] & 15];
	ret[n] = '\0';
}

static void call_later(struct loop_timer *timer)
{
	struct later *later = (struct later *)((char *)timer - offsetof(struct later, timer));

	later->call(later);
}

void house_later(struct house *house, struct later *later, void (*call)(struct later *later))
{
	later->call = call;
	later->timer.fire = call_later;
	if (loop_arm(house->loop, &later->timer, clock_monotonic_ns()) < 0)
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
void house_remove_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		remove_in(fd);
	rmdir(path);
}

struct loop *house_loop(struct house *house)
{
	return house->loop;
}

struct work *house_work(struct house *house)
{
	return house->work;
}

/* ---- its directory ---- */

int house_find_dir(char ret[PATH_MAX], struct atoll_error *err)
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
int house_make_dir(const char *path, struct atoll_error *err)
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

int house_subdir(struct house *house, const char *what, char ret[PATH_MAX], struct atoll_error *err)
{
	int length = snprintf(ret, PATH_MAX, "%s/%s", house->dir, what);

	if (length >= PATH_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "'%s'", house->dir);
	if (mkdir(ret, 0700) < 0 && errno != EEXIST)
		return error_set(err, ATOLL_FAULT_HOST, errno, "make '%s'", ret);
	return 0;
}

static int lock_dir(struct house *house, struct atoll_error *err)
{
	char path[PATH_MAX], pid[16] = "";

	snprintf(path, sizeof path, "%.*s/lock", PATH_MAX - 8, house->dir);
	house->lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (house->lock_fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open '%s'", path);
	if (flock(house->lock_fd, LOCK_EX | LOCK_NB) == 0) {
		int n = snprintf(pid, sizeof pid, "%d\n", getpid());

		if (ftruncate(house->lock_fd, 0) == 0)
			(void)!pwrite(house->lock_fd, pid, (size_t)n, 0);
		return 0;
	}
	if (errno != EWOULDBLOCK)
		return error_set(err, ATOLL_FAULT_HOST, errno, "lock '%s'", path);
	(void)!pread(house->lock_fd, pid, sizeof pid - 1, 0);
	pid[strcspn(pid, "\n")] = '\0';
	return error_set(err, ATOLL_FAULT_REQUEST, EBUSY,
			 "another daemon (pid %s) has '%s'; --state names another directory", pid,
			 house->dir);
}

/* ---- every second ---- */

static int open_spawner(struct atoll_error *err);

static void tick(struct loop_timer *timer)
{
	struct house *house = (struct house *)((char *)timer - offsetof(struct house, tick));

	house->n_ticks++;
	if (spawner_is_gone())
		open_spawner(NULL);
	pool_tick(house);
	rows_tick(house);
	budget_tick(house, house->n_ticks % WRITE_TICKS == 0);
	if (house->n_ticks % TIDY_TICKS == 1)
		remove_tidy(house);
	kept_tick(house, house->n_ticks % TIDY_TICKS == 1);
	loop_arm(house->loop, &house->tick, clock_monotonic_ns() + TICK_NS);
}

bool house_is_ready(const struct house *house, const char **ret_why)
{
	*ret_why = house->is_closing	   ? "the daemon is stopping"
		   : house->is_taking_over ? "the daemon is starting"
					   : NULL;
	return !*ret_why;
}

void house_count(const struct house *house, struct house_counts *ret)
{
	*ret = house->counts;
	ret->n_boxes = house->n_boxes;
	for (size_t i = 0; i < house->table_size; i++) {
		for (const struct house_box *mine = house->table[i]; mine;
		     mine = mine->next_same_hash) {
			ret->n_running += mine->box.state == BOX_RUNNING;
			ret->n_paused += mine->box.state == BOX_PAUSED;
		}
	}
	ret->n_parked = pool_parked(house);
	ret->n_removing = house->n_removing;
	ret->n_database_failures = db_failures(house->db);
	ret->n_database_waiting = db_waiting(house->db);
	for (enum work_rank rank = 0; rank < WORK_RANKS; rank++)
		ret->n_waiting[rank] = work_waiting(house->work, rank);
}

/* ---- opening and closing ---- */

/* What is ours is in nobody's sandbox. */
static int check_workspaces(const struct house *house, const struct config_tenant *tenant,
			    struct atoll_error *err)
{
	char dir[PATH_MAX];

	if (!realpath(house->dir, dir))
		return error_set(err, ATOLL_FAULT_HOST, errno, "'%s'", house->dir);
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
static int put_tenants(struct house *house, struct atoll_error *err)
{
	const struct house_config *config = house->config;
	const struct config_tenant usual = config_free_tenant(DEFAULT_TENANT);
	int r = tenant_find(house, DEFAULT_TENANT) ? 0 : tenant_put(house->db, &usual, err);

	for (size_t i = 0; r == 0 && i < config->n_tenants; i++) {
		r = check_workspaces(house, &config->tenants[i], err);
		if (r == 0)
			r = tenant_put(house->db, &config->tenants[i], err);
	}
	return r < 0 ? r : tenants_reload(house, err);
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
static int open_store(const struct house *house, struct atoll_error *err)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof path, "%.*s/atoll", PATH_MAX - 16, house->dir);
	r = house_make_dir(path, err);
	if (r < 0)
		return r;
	strcat(path, "/" LAYER_STORE_HELD);
	r = fd_write_text(path, "");
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "write '%s'", path);
	return open_spawner(err);
}

/* Tenants write in these directories, so a job file there needs trust. `atoll run` looks them up in
 * the user's store, not in the daemon's: note them before the daemon's store is opened. */
static int note_workspaces(const struct house *house, struct atoll_error *err)
{
	const struct house_config *config = house->config;
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->n_tenants; i++)
		r = places_note_paths(config->tenants[i].workspaces,
				      config->tenants[i].n_workspaces, err);
	return r;
}

static int open_all(struct house *house, struct atoll_error *err)
{
	char path[PATH_MAX];
	int r = house_make_dir(house->dir, err);

	if (r == 0)
		r = lock_dir(house, err);
	if (r == 0)
		r = note_workspaces(house, err);
	if (r < 0)
		return r;
	/* Everything of the library's is beneath from here on, also for the holders. */
	setenv("XDG_STATE_HOME", house->dir, 1);
	r = open_store(house, err);
	if (r < 0)
		return r;
	snprintf(path, sizeof path, "%.*s/state.db", PATH_MAX - 16, house->dir);
	r = db_open(path, house->loop, &house->db, err);
	if (r == 0)
		r = work_open(house->loop, 0, &house->work, err);
	if (r == 0)
		r = house_subdir(house, "home", house->homes, err);
	if (r == 0)
		r = tenants_load(house, err);
	if (r == 0)
		r = put_tenants(house, err);
	if (r == 0)
		r = volumes_load(house, err);
	if (r == 0)
		r = kinds_load(house, err);
	if (r == 0)
		r = house_secrets_load(house, err);
	if (r == 0)
		r = boxes_load(house, err);
	if (r == 0)
		r = remove_strangers(house, err);
	if (r == 0)
		networks_tidy(house);
	return r < 0 ? r : control_open(house, err);
}

int house_open(const struct house_options *options, struct house **ret, struct atoll_error *err)
{
	struct house *house = calloc(1, sizeof *house);
	int r;

	if (!house)
		return error_oom(err);
	house->loop = options->loop;
	house->config = options->config;
	house->lock_fd = -1;
	house->control.fd = -1;
	snprintf(house->dir, sizeof house->dir, "%s", options->dir);
	house->is_taking_over = true;
	meter_listen(house);
	r = open_all(house, err);
	if (r < 0) {
		house_close(house, false);
		return r;
	}
	house->is_taking_over = false;
	house->tick.fire = tick;
	loop_arm(house->loop, &house->tick, clock_monotonic_ns());
	*ret = house;
	return 0;
}

static void end_all(struct house *house)
{
	const char **ids = calloc(house->n_boxes + 1, sizeof *ids);
	struct box *box = NULL;
	size_t n = 0;

	while (ids && (box = box_next_any(house, box))) {
		ids[n++] = box->sandbox;
		row_remove(inner(box));
	}
	if (n)
		atoll_sandboxes_remove(ids, n, true, NULL, NULL);
	free(ids);
}

/* Whoever holds on to a box, or reads along, does so no more. */
static void let_go(struct house *house)
{
	for (struct box *box = NULL; (box = box_next_any(house, box));) {
		box_call_gone(inner(box));
		guest_end(box);
		process_forget_all(box);
	}
}

void house_let_go(struct house *house)
{
	if (!house)
		return;
	house->is_closing = true;
	control_close(house);
	let_go(house);
}

void house_close(struct house *house, bool is_final)
{
	if (!house)
		return;
	house_let_go(house);
	loop_disarm(house->loop, &house->tick);
	work_close(house->work);
	if (is_final)
		end_all(house);
	pools_free(house);
	if (house->db)
		budget_tick(house, true);
	rows_tick(house);
	db_close(house->db);
	rows_free(house);
	table_free(house);
	kinds_free(house);
	volumes_free(house);
	house_secrets_free(house);
	tenants_free(house);
	spawner_close();
	box_unlisten(&house->listener);
	if (house->lock_fd >= 0)
		close(house->lock_fd);
	free(house);
}
