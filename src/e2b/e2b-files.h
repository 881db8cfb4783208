/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

/* GET and HEAD /files */
void e2b_files(struct api_call *call, struct box *box);
/* Answers with the status for an error of the guest: 404, 400, 401, 403, 507, ... */
void e2b_files_fail(struct api_call *call, const char *user, const struct atoll_error *err);
