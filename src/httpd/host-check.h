/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/route.h"

/* Is the request's Host a name that this daemon serves? */
bool host_is_served(const struct api *api, struct exchange *exchange);
/* May the request change something? Not if Origin is a foreign page. */
bool host_may_change(const struct api *api, struct exchange *exchange);
