/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

extern const struct api_route e2b_template_routes[];
api_handler e2b_remove_tags;
