/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "isolate/isolate.h"

int ns_probe(struct backend_report *ret, struct atoll_error *err);
