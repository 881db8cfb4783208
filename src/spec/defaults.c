/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds when nobody says anything
 *
 * Places that may not exist are optional. A line that somebody wrote about exactly the same path
 * takes the place of a default (spec-finish.c), or nobody could ever grant ~/.npmrc; otherwise the
 * most specific line wins as always.
 */
#include "base/path.h"
#include "spec/spec-inner.h"

/* Programs, libraries and their settings. */
static const char *const system_reads[] = {
	"/usr",
	"/bin",
	"/sbin",
	"/lib",
	"/lib32",
	"/lib64",
	"/libx32",
	"/etc",
	"/opt",
	"/nix",
	/* How many CPUs there are: thread pools ask. */
	"/sys/devices/system/cpu",
	"/sys/devices/system/node",
	NULL,
};

/* Toolchains that people install in their home. */
static const char *const home_reads[] = {
	".cargo/bin",
	".cargo/registry",
	".cargo/git",
	".cargo/env",
	".rustup",
	".nvm",
	".fnm",
	".volta",
	".pyenv",
	".rbenv",
	".asdf",
	".sdkman",
	".deno",
	".bun",
	".local/bin",
	".local/lib",
	".local/share/mise",
	".local/share/pnpm",
	".local/share/uv",
	".local/pipx",
	"go",
	".npm-global",
	NULL,
};

/*
 * Secrets beneath /etc. A directory stands here as a whole where credentials lie in it under any
 * name, and only the part that matters where the rest is everybody's (polkit-1, NetworkManager):
 * most of the list is absent or root's alone on most machines, and if all of it is, nothing has to
 * be put over /etc (isolate/ns/prepare.c).
 */
static const char *const etc_hides[] = {
	"shadow",
	"shadow-",
	"gshadow",
	"gshadow-",
	"sudoers",
	"sudoers.d",
	"security/opasswd",
	"ssh/ssh_host_rsa_key",
	"ssh/ssh_host_dsa_key",
	"ssh/ssh_host_ecdsa_key",
	"ssh/ssh_host_ed25519_key",
	"ssl/private",
	"letsencrypt",
	"NetworkManager/system-connections",
	"wpa_supplicant",
	"wireguard",
	"openvpn",
	"ipsec.secrets",
	"ipsec.d/private",
	"ppp/chap-secrets",
	"ppp/pap-secrets",
	"krb5.keytab",
	"crypttab",
	"docker",
	"kubernetes",
	"rancher",
	"cups/ssl",
	"exim4/passwd.client",
	"postfix/sasl_passwd",
	"mysql/debian.cnf",
	"polkit-1/localauthority",
	"polkit-1/rules.d",
	"audit",
	NULL,
};

/* Who has an account on the host, where a contract says who there is inside; passwd and group
 * themselves are made anew. */
static const char *const account_hides[] = {
	"passwd-", "group-", "subuid", "subuid-", "subgid", "subgid-", NULL,
};

/* Secrets in a home: they matter when somebody grants the home or a directory in it. */
static const char *const home_hides[] = {
	".ssh",
	".gnupg",
	".aws",
	".azure",
	".config/gcloud",
	".config/gh",
	".config/glab-cli",
	".kube",
	".docker",
	".netrc",
	".npmrc",
	".pypirc",
	".gem/credentials",
	".m2/settings.xml",
	".gradle/gradle.properties",
	".cargo/credentials",
	".cargo/credentials.toml",
	".password-store",
	".mozilla",
	".config/google-chrome",
	".config/chromium",
	".config/BraveSoftware",
	".thunderbird",
	".bash_history",
	".zsh_history",
	".python_history",
	".node_repl_history",
	".psql_history",
	".mysql_history",
	".local/share/keyrings",
	".git-credentials",
	".config/git/credentials",
	".config/op",
	".config/sops",
	".vault-token",
	".terraform.d",
	".config/rclone",
	".config/hub",
	/* Our own state: signing keys, recorded trust, the log. */
	".config/atoll",
	".local/state/atoll",
	".local/share/atoll",
	".claude.json",
	".claude/.credentials.json",
	".codex/auth.json",
	".gemini",
	NULL,
};

static int add_list(struct spec *spec, enum spec_access access, const char *above,
		    const char *const *places, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && places[i]; i++) {
		cleanup_free char *path = above ? path_join(above, places[i]) : strdup(places[i]);
		struct spec_rule rule = {.access = access,
					 .is_optional = true,
					 .path = path,
					 .origin = (char *)SPEC_ORIGIN_DEFAULT};

		if (!path)
			return error_oom(err);
		r = spec_append_rule(spec, &rule, err);
	}
	return r;
}

int defaults_add(struct spec *spec, struct atoll_error *err)
{
	int r = add_list(spec, SPEC_READ, NULL, system_reads, err);

	/* With users of its own inside it is nobody's home; and it may be where the workspace is
	 * seen. */
	if (r == 0 && !spec->n_users &&
	    !(spec_is_moved(spec) && (path_is_within(spec->home, spec->workspace_at) ||
				      path_is_within(spec->home, spec->workspace))))
		r = add_list(spec, SPEC_READ, spec->home, home_reads, err);
	/* An image has no secrets of the host's, and is whole. */
	if (r == 0 && !spec->image)
		r = add_list(spec, SPEC_HIDE, "/etc", etc_hides, err);
	if (r == 0 && spec->n_users && !spec->image)
		r = add_list(spec, SPEC_HIDE, "/etc", account_hides, err);
	if (r == 0)
		r = add_list(spec, SPEC_HIDE, spec->home, home_hides, err);
	return r;
}
