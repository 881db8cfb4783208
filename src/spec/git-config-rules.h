/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/git-config-read.h"

/* Effect of an entry of a git config, judged by its key and value alone. */
enum git_config_class {
	GIT_CONFIG_PLAIN, /* harmless in every repository */
	GIT_CONFIG_TALKS, /* names whom git contacts, or what it sends there; the value is well
			     formed */
	GIT_CONFIG_OTHER, /* starts a program, reads another file, hides something, or is unknown */
};

struct git_vet;
/* Of `how`, the place of the config counts. */
enum git_config_class git_config_classify(const struct git_config_entry *entry,
					  const struct git_vet *how);
