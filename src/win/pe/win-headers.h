/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Headers of Windows. tools/windows-build says which version: Windows 10 1809, for ConPTY. */
#include <windows.h>

#include <aclapi.h>
#include <sddl.h>

/* A keyword of 16-bit compilers, and a field of struct network. */
#undef near
