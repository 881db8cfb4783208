/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the database is made of: statements from each version to the next (db.c). */
extern const char *const schema_steps[];
extern const int schema_version;
