/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The daemon's configuration: a YAML file, read as strictly as a job file
 *
 *	listen: [127.0.0.1:8642, "unix:/run/atoll.sock"]
 *	tls: {certificate: cert.pem, key: key.pem}
 *	names: [sandboxes.example.com]
 *	machine: {sandboxes: 5000, memory: 64G, disk: 200G, cpus: 64, free-memory: 512M, free-disk:
 *2G} base: {memory: 1G, disk: 10G, cpus: 2, pids: 512, record: off} pool: {most: 16, least: 1}
 *	idle: 30m
 *	log: {requests: true}
 *	tenants:
 *	  ci:
 *	    sandboxes: 100
 *	    memory: 32G
 *	    disk: 50G
 *	    cpus: 16
 *	    budget: {cpu: 10h, memory: 500 , bytes: 10G, steps: 100000, then: pause}
 *	    workspaces: [/srv/ci]
 *	    near: [10.0.0.5:5432]
 *
 * A quota or limit that is not stated is none: UINT64_MAX.
 */

#define CONFIG_LISTEN_MAX 8
#define CONFIG_NAMES_MAX  64

enum config_budget_end {
	CONFIG_BUDGET_PAUSE,
	CONFIG_BUDGET_END,
};

struct config_budget {
	uint64_t cpu_s, gib_s, bytes, steps; /* UINT64_MAX: none */
	enum config_budget_end then;
};

struct config_tenant {
	char name[64];
	uint64_t max_boxes, max_memory_mib, max_disk_mib, max_cpus;
	struct config_budget budget;
	/* What his contracts may name: directories, as they really are, and addresses that are not
	 * public, or this host's own. None if nothing is said. */
	char **workspaces, **near;
	size_t n_workspaces, n_near;
};

struct daemon_config {
	char *listen[CONFIG_LISTEN_MAX];
	size_t n_listen;
	char *certificate, *key;       /* absolute; NULL */
	char *names[CONFIG_NAMES_MAX]; /* that requests may be for, besides this machine's own */
	size_t n_names;

	uint64_t max_boxes, max_memory_mib, max_disk_mib, max_cpus; /* of all tenants together */
	uint64_t least_memory_mib, least_disk_mib; /* free, or nothing new is begun */

	/* Of a box of the template `base`. */
	uint32_t base_memory_mib, base_disk_mib, base_cpus, base_pids;
	char base_record[8]; /* "off", "steps", "full" */

	uint32_t pool_least, pool_most; /* parked for a template that is asked for */
	uint64_t idle_s;		/* UINT64_MAX: never */
	bool logs_requests;

	struct config_tenant *tenants;
	size_t n_tenants;

	/* What boxes are made from besides `base`: it, with this directory or archive as the home.
	 */
	struct config_template {
		char name[128];
		char *path; /* absolute */
	} * templates;
	size_t n_templates;
};

void config_init(struct daemon_config *config);
void config_done(struct daemon_config *config);
/* Over what config_init() has set. */
int config_read(const char *path, struct daemon_config *config, struct atoll_error *err);
/* Without one of its own a tenant has these. */
struct config_tenant config_free_tenant(const char *name);
