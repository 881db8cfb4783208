/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

extern const char v1_openapi_text[];
