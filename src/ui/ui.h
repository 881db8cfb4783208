/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The user interface that the commands share
 *
 * Three programs consist of commands: atoll (src/cli/), atoll-audit (src/auditcmd/) and
 * atoll-remote (src/remote/). A command is a const struct with its texts, its options and a run
 * function. main() finds the command by its name and calls run(); run() reads the options, does its
 * work, prints to standard output, and returns an exit status or an error. main() prints the error.
 *
 *   command.h      struct command, and reading a command line by its option table
 *   options.h      option tables, one option at a time
 *   help.h         --help, made from a struct command
 *   print.h        text from a sandbox, escaped for a terminal; wrapped text; words for a shell
 *   amount.h       times and sizes as a person writes and reads them
 *   pager.h        long output through less or $PAGER
 *   export-file.h  a file that appears under its name only when it is complete
 *   interact.h     signals, progress and the terminal while a command runs in a sandbox
 *
 * The component knows no command by name and does not use the library, except for the structs of
 * <atoll/atoll.h> in interact.h.
 */

#include "ui/amount.h"
#include "ui/command.h"
#include "ui/export-file.h"
#include "ui/help.h"
#include "ui/interact.h"
#include "ui/options.h"
#include "ui/pager.h"
#include "ui/print.h"
