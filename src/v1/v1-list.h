/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

api_handler v1_sandboxes_list, v1_sandboxes_create, v1_sandboxes_delete;
