/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "box/box-inner.h"

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
static int check_free(struct house *house, struct atoll_error *err)
{
	const struct house_config *config = house->config;
	int64_t now_ms = house_now_ms();
	bool is_short = house->free_memory_mib < config->least_memory_mib ||
			house->free_disk_mib < config->least_disk_mib;

	if (is_short || now_ms - house->looked_ms >= 100 || now_ms < house->looked_ms) {
		house->looked_ms = now_ms;
		house->free_memory_mib = free_memory_mib();
		house->free_disk_mib = free_disk_mib(house->dir);
	}
	if (house->free_memory_mib < config->least_memory_mib)
		return quota_refuse(err, ATOLL_FAULT_HOST, EAGAIN,
				    "the machine has only %llu MiB of memory free, and keeps %llu",
				    (unsigned long long)house->free_memory_mib,
				    (unsigned long long)config->least_memory_mib);
	if (house->free_disk_mib < config->least_disk_mib)
		return quota_refuse(err, ATOLL_FAULT_HOST, EAGAIN,
				    "the machine has only %llu MiB of disk free, and keeps %llu",
				    (unsigned long long)house->free_disk_mib,
				    (unsigned long long)config->least_disk_mib);
	return 0;
}

uint64_t house_disk_left(struct house *house)
{
	uint64_t free_mib = free_disk_mib(house->dir), least = house->config->least_disk_mib;

	if (free_mib == UINT64_MAX)
		return UINT64_MAX;
	return free_mib > least ? (free_mib - least) << 20 : 0;
}

int tenant_check(const struct house_tenant *mine, uint32_t memory_mib, uint32_t disk_mib,
		 uint32_t cpus, struct atoll_error *err)
{
	const struct tenant *tenant = &mine->tenant;
	struct house *house = tenant->house;
	const struct house_config *config = house->config;
	const struct sum own[] = {
		{"sandboxes", "", tenant->n_boxes, 1, tenant->max_boxes},
		{"memory", " MiB", tenant->memory_mib, memory_mib, tenant->max_memory_mib},
		{"disk", " MiB", tenant->disk_mib + tenant->kept_mib, disk_mib,
		 tenant->max_disk_mib},
		{"cpus", "", tenant->cpus, cpus, tenant->max_cpus},
	};
	const struct sum all[] = {
		{"sandboxes", "", house->n_taken, 1, config->max_boxes},
		{"memory", " MiB", house->memory_mib, memory_mib, config->max_memory_mib},
		{"disk", " MiB", house->disk_mib, disk_mib, config->max_disk_mib},
		{"cpus", "", house->cpus, cpus, config->max_cpus},
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
	return check_free(house, err);
}

bool quota_has_room(struct house *house)
{
	const struct house_config *config = house->config;

	return check_free(house, NULL) == 0 &&
	       (config->max_boxes == UINT64_MAX ||
		house->n_taken + pool_parked(house) < config->max_boxes);
}

void tenant_take(struct house_box *mine)
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
	box->house->n_taken++;
	box->house->memory_mib += box->memory_mib;
	box->house->disk_mib += box->disk_mib;
	box->house->cpus += box->cpus;
}

void tenant_give_back(struct house_box *mine)
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
	box->house->n_taken--;
	box->house->memory_mib -= box->memory_mib;
	box->house->disk_mib -= box->disk_mib;
	box->house->cpus -= box->cpus;
}
