/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

api_handler v1_secrets_list, v1_secret_get, v1_secret_put, v1_secret_delete;
