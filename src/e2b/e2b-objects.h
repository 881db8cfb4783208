/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "box/box.h"
#include "httpd/httpd.h"

/* Objects of the protocol as JSON. */

void e2b_write_entry(struct json *json, const char *key, const struct guest_entry *entry);
/* {path, name, type, metadata}: a file that was uploaded. */
void e2b_write_uploaded(struct json *json, const struct guest_entry *entry);
void e2b_write_sandbox(struct json *json, const char *key, const struct box *box);
void e2b_write_listed(struct json *json, const struct box *box, bool is_detailed);
void e2b_write_pairs(struct json *json, const char *key, const struct box_pairs *pairs);
void e2b_write_json(struct json *json, const char *key, const json_t *value);
/* `text` is JSON already. */
void e2b_write_raw(struct json *json, const char *key, const char *text);
