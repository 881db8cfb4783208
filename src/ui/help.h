/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

struct command;
struct command_section;

/* `atoll COMMAND --help`: usage, description, options and sections, all from the struct. */
void help_command(const struct command *command, FILE *out);

/* Parts of a help text: a term with its text in the second column; a titled list of such rows. */
void help_row(FILE *out, const char *term, const char *text);
void help_section(FILE *out, const struct command_section *section);
