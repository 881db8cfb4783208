/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

api_handler e2b_snapshot, e2b_list_snapshots, e2b_remove_template, e2b_alias;
