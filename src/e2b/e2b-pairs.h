/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

/* Pairs from an object of strings; e2b_free_pairs() frees them. False: the object has another
 * value. */
bool e2b_read_pairs(const json_t *object, struct box_pairs *ret);
void e2b_free_pairs(struct box_pairs *pairs);
/* The query's metadata=, which is encoded three times: "a=b%2520c", as it is after the query was
 * decoded, has the name "a" and the value "b c". False: too many pairs. */
bool e2b_read_filter(const char *text, struct box_pairs *ret);
