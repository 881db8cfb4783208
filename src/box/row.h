/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/db.h"

#include <sqlite3.h>

struct daemon;
struct daemon_box;

void row_insert(struct daemon_box *box, db_done *done, void *data);
void row_update(struct daemon_box *box);
void row_remove(struct daemon_box *box);
/* Every second: removals that could not be written. */
void rows_tick(struct daemon *daemon);
void rows_free(struct daemon *daemon);
struct daemon_box *row_read(struct daemon *daemon, sqlite3_stmt *statement);
extern const char row_select[];
