/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/box.h"

#include <limits.h>

struct atoll_error;

/* What stands on the command line of `atoll serve`, over the configuration. */
struct serve_options {
	struct daemon_config config;
	char dir[PATH_MAX];
	bool has_dir;			       /* it was said; the usual one otherwise */
	const char *listen[CONFIG_LISTEN_MAX]; /* instead of the configuration's */
	size_t n_listen;
	const char *certificate, *key;
	bool ends_sandboxes;
	char **words; /* behind the options: "key", "new" */
	/* of commands */
	const char *tenant, *label;
	struct config_tenant quotas;
	bool has_quotas;
};

/* `args` is used for the words. */
int options_read(char **args, struct serve_options *ret, struct atoll_error *err);
void options_done(struct serve_options *options);

/* ---- commands.c: `atoll serve key ...`, `atoll serve tenant ...` ---- */

int commands_run(const struct serve_options *options, struct atoll_error *err);

/* ---- notify.c: systemd ---- */

/* A word for whoever started us ("READY=1"); nothing if nobody wants to hear it. */
void notify_send(const char *words);
/* How often it wants to hear that we live, in nanoseconds; 0: it does not. */
long long notify_watchdog_ns(void);
