/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct atoll_error;

/* Times and sizes as a person writes and reads them */

/* "90s", "12h", "7d", "2w": seconds. */
int amount_parse_age(const char *text, uint64_t *ret_s, struct atoll_error *err);
/* "512M", "5G": bytes, in steps of 1024. */
int amount_parse_size(const char *text, uint64_t *ret_bytes, struct atoll_error *err);

/* "5 min", "3.2 MiB": rounded. Return `ret`. */
const char *amount_age(uint64_t seconds, char *ret, size_t size);
const char *amount_size(uint64_t bytes, char *ret, size_t size);
