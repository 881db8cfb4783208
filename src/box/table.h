/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct daemon;
struct daemon_box;

int table_put(struct daemon *daemon, struct daemon_box *box);
void table_remove(struct daemon *daemon, struct daemon_box *box);
struct daemon_box *table_find(const struct daemon *daemon, const char *id);
void table_free(struct daemon *daemon);
