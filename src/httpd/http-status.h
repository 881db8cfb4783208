/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The words behind a status in the first line of an answer: "Not Found". */
const char *server_reason(unsigned status);
