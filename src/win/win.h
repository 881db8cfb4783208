/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Running a command on Windows
 *
 * The engine plans, applies, attests and launches (engine.h). It calls Windows through one table
 * (calls.h), which pe/ fills in with Win32 code and fake.h with a model for tests. Everything here
 * but pe/ is built and tested on Linux. doc/windows.md explains the whole.
 */
#include "win/calls.h"
#include "win/engine-probe.h"
#include "win/engine-repair.h"
#include "win/engine.h"
