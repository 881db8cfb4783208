/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct atoll_error;
struct netctl;
struct spec;

/* A sealed memfd with the configuration of egress. `uid` 0: egress runs with the caller's id. */
int netctl_write_config(const struct netctl *net, uint32_t uid, struct atoll_error *err);
/* The file with the authorities that sign servers' certificates. */
int netctl_find_trust(char *ret, size_t size, struct atoll_error *err);
/* The proxy that `upstream: env` means here: NULL for none; -EINVAL if it cannot be used. */
int netctl_find_upstream(const struct spec *spec, const char **ret, struct atoll_error *err);
