/* SPDX-License-Identifier: Apache-2.0 */
#include "box/quota.h"

#include "base/error.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/config.h"
#include "box/daemon-state.h"
#include "box/pool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/*
 * How much there may be
 *
 * A tenant's quotas and the machine's are sums of what boxes may use at most, where somebody states
 * them. Besides, the machine keeps some memory and disk free, whatever is stated: boxes use far
 * less than they may, so sums alone would either waste the machine or kill it.
 */

int quota_refuse(struct atoll_error *err, enum atoll_fault fault, int errnum, const char *format,
		 ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	error_set(err, fault, 0, "%s", text);
	if (err)
		err->errnum = errnum;
	return -errnum;
}

static int over(struct atoll_error *err, const char *what, uint64_t used, uint64_t more,
		uint64_t most, const char *unit)
{
	return quota_refuse(err, ATOLL_FAULT_POLICY, EDQUOT,
			    "%s: %llu%s are used, %llu more would be over the quota of %llu", what,
			    (unsigned long long)used, unit, (unsigned long long)more,
			    (unsigned long long)most);
}

struct sum {
	const char *what, *unit;
	uint64_t used, more, most;
};

static const struct sum *first_over(const struct sum *sums, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (sums[i].most != UINT64_MAX && sums[i].used + sums[i].more > sums[i].most)
			return &sums[i];
	}
	return NULL;
}

/* What the kernel thinks could be had without swapping; UINT64_MAX if it does not say. */
static uint64_t free_memory_mib(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = UINT64_MAX;
	char line[128];

	while (file && fgets(line, sizeof line, file)) {
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	}
	if (file)
		fclose(file);
	return kib == UINT64_MAX ? UINT64_MAX : kib / 1024;
}

static uint64_t free_disk_mib(const char *path)
{
	struct statvfs fs;

	return statvfs(path, &fs) < 0 ? UINT64_MAX : (uint64_t)fs.f_bavail * fs.f_frsize >> 20;
}

/* Looked at ten times a second at most while there is enough: there may be a thousand creations. */
static int check_free(struct daemon *daemon, struct atoll_error *err)
{
	const struct daemon_config *config = daemon->config;
	int64_t now_ms = daemon_now_ms();
	bool is_short = daemon->free_memory_mib < config->least_memory_mib ||
			daemon->free_disk_mib < config->least_disk_mib;

	if (is_short || now_ms - daemon->looked_ms >= 100 || now_ms < daemon->looked_ms) {
		daemon->looked_ms = now_ms;
		daemon->free_memory_mib = free_memory_mib();
		daemon->free_disk_mib = free_disk_mib(daemon->dir);
	}
	if (daemon->free_memory_mib < config->least_memory_mib)
		return quota_refuse(err, ATOLL_FAULT_HOST, EAGAIN,
				    "the machine has only %llu MiB of memory free, and keeps %llu",
				    (unsigned long long)daemon->free_memory_mib,
				    (unsigned long long)config->least_memory_mib);
	if (daemon->free_disk_mib < config->least_disk_mib)
		return quota_refuse(err, ATOLL_FAULT_HOST, EAGAIN,
				    "the machine has only %llu MiB of disk free, and keeps %llu",
				    (unsigned long long)daemon->free_disk_mib,
				    (unsigned long long)config->least_disk_mib);
	return 0;
}

uint64_t daemon_disk_left(struct daemon *daemon)
{
	uint64_t free_mib = free_disk_mib(daemon->dir), least = daemon->config->least_disk_mib;

	if (free_mib == UINT64_MAX)
		return UINT64_MAX;
	return free_mib > least ? (free_mib - least) << 20 : 0;
}

int tenant_check(const struct daemon_tenant *mine, uint32_t memory_mib, uint32_t disk_mib,
		 uint32_t cpus, struct atoll_error *err)
{
	const struct tenant *tenant = &mine->tenant;
	struct daemon *daemon = tenant->daemon;
	const struct daemon_config *config = daemon->config;
	const struct sum own[] = {
		{"sandboxes", "", tenant->n_boxes, 1, tenant->max_boxes},
		{"memory", " MiB", tenant->memory_mib, memory_mib, tenant->max_memory_mib},
		{"disk", " MiB", tenant->disk_mib + tenant->stored_mib, disk_mib,
		 tenant->max_disk_mib},
		{"cpus", "", tenant->cpus, cpus, tenant->max_cpus},
	};
	const struct sum all[] = {
		{"sandboxes", "", daemon->n_taken, 1, config->max_boxes},
		{"memory", " MiB", daemon->memory_mib, memory_mib, config->max_memory_mib},
		{"disk", " MiB", daemon->disk_mib, disk_mib, config->max_disk_mib},
		{"cpus", "", daemon->cpus, cpus, config->max_cpus},
	};
	const struct sum *sum = first_over(own, 4);
	char why[192];

	if (sum)
		return over(err, sum->what, sum->used, sum->more, sum->most, sum->unit);
	if (tenant_is_spent(tenant, why, sizeof why))
		return quota_refuse(err, ATOLL_FAULT_POLICY, EDQUOT, "%s", why);
	sum = first_over(all, 4);
	if (sum)
		return quota_refuse(err, ATOLL_FAULT_HOST, EAGAIN,
				    "the machine is full: %llu of %llu %s%s are taken",
				    (unsigned long long)sum->used, (unsigned long long)sum->most,
				    sum->unit[0] ? sum->unit + 1 : "", sum->what);
	return check_free(daemon, err);
}

bool quota_has_room(struct daemon *daemon)
{
	const struct daemon_config *config = daemon->config;

	return check_free(daemon, NULL) == 0 &&
	       (config->max_boxes == UINT64_MAX ||
		daemon->n_taken + pool_parked(daemon) < config->max_boxes);
}

void tenant_charge(struct daemon_box *mine)
{
	struct box *box = &mine->box;
	struct tenant *tenant = box->tenant;

	if (mine->is_counted)
		return;
	mine->is_counted = true;
	tenant->n_boxes++;
	tenant->memory_mib += box->memory_mib;
	tenant->disk_mib += box->disk_mib;
	tenant->cpus += box->cpus;
	box->daemon->n_taken++;
	box->daemon->memory_mib += box->memory_mib;
	box->daemon->disk_mib += box->disk_mib;
	box->daemon->cpus += box->cpus;
}

void tenant_uncharge(struct daemon_box *mine)
{
	struct box *box = &mine->box;
	struct tenant *tenant = box->tenant;

	if (!mine->is_counted)
		return;
	mine->is_counted = false;
	tenant->n_boxes--;
	tenant->memory_mib -= box->memory_mib;
	tenant->disk_mib -= box->disk_mib;
	tenant->cpus -= box->cpus;
	box->daemon->n_taken--;
	box->daemon->memory_mib -= box->memory_mib;
	box->daemon->disk_mib -= box->disk_mib;
	box->daemon->cpus -= box->cpus;
}
