/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

/* The receipt of a sandbox, which may have ended. */
void v1_record_receipt(struct api_call *call, const char *sandbox);
api_handler v1_log, v1_receipt;
