/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

api_handler v1_file_get, v1_file_put, v1_file_delete, v1_file_stat, v1_file_list, v1_file_move,
	v1_file_mkdir;
