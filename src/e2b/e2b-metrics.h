/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

api_handler e2b_metrics, e2b_metrics_of_many;
