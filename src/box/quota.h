/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct daemon_box;
struct daemon_tenant;

/* 0, -EDQUOT or -EAGAIN with the story: may it have one more of this size? */
int tenant_check(const struct daemon_tenant *tenant, uint32_t memory_mib, uint32_t disk_mib,
		 uint32_t cpus, struct atoll_error *err);
/* Is the machine far enough from its limits to make what nobody has asked for yet? */
bool quota_has_room(struct daemon *daemon);
/* Set `err` and return -errnum. The words are the format's alone: those of the number (EDQUOT,
 * EAGAIN), which is for the status, would speak of a disk. */
int quota_refuse(struct atoll_error *err, enum atoll_fault fault, int errnum, const char *format,
		 ...) __attribute__((format(printf, 4, 5)));
void tenant_charge(struct daemon_box *box);
void tenant_uncharge(struct daemon_box *box);
