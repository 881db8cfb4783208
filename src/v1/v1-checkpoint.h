/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

api_handler v1_checkpoint_make, v1_checkpoints_list, v1_rollback, v1_fork;
