/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/names.h"

#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"

#include <stdint.h>

static const char *const editor[] = {
	".vscode",
	".idea",
	".zed",
	".fleet",
	".devcontainer",
	".vs",
	".devcontainer.json",
	"*.code-workspace",
	"*.sublime-project",
	".exrc",
	".vimrc",
	".nvimrc",
	".gvimrc",
	".nvim.lua",
	".dir-locals.el",
	".dir-locals-2.el",
	".vim",
	".helix",
	".emacs",
	".emacs.d",
	".config/nvim",
	".config/code",
	".config/cursor",
	".config/vscodium",
	".vscode-server",
	NULL,
};

static const char *const agent[] = {
	".claude",
	".codex",
	".cursor",
	".gemini",
	".agents",
	".windsurf",
	".continue",
	".kiro",
	".roo",
	".cline",
	".clinerules",
	".aider.conf.yml",
	".mcp.json",
	".opencode",
	"opencode.json",
	".goose",
	".amp",
	".qwen",
	".copilot",
	".cursorrules",
	".windsurfrules",
	".github/copilot-instructions.md",
	NULL,
};

static const char *const ci[] = {
	".github/workflows",   ".github/actions",
	".gitlab-ci.yml",      ".gitlab/ci",
	".circleci",	       ".travis.yml",
	".drone.yml",	       ".woodpecker",
	".woodpecker.yml",     ".buildkite",
	".forgejo/workflows",  ".gitea/workflows",
	"azure-pipelines.yml", "bitbucket-pipelines.yml",
	"jenkinsfile",	       "appveyor.yml",
	".appveyor.yml",       ".cirrus.yml",
	".semaphore",	       ".teamcity",
	"cloudbuild.yaml",     NULL,
};

static const char *const hook_manager[] = {
	".husky",
	".lefthook",
	"lefthook.yml",
	".lefthook.yml",
	"lefthook.yaml",
	".lefthook.yaml",
	".pre-commit-config.yaml",
	".githooks",
	".overcommit.yml",
	".envrc",
	".mise.toml",
	NULL,
};

static const char *const package_manager[] = {
	".npmrc",
	".yarnrc",
	".yarnrc.yml",
	".pnpmfile.cjs",
	".pnpmfile.mjs",
	".cargo/config",
	".cargo/config.toml",
	".pypirc",
	".config/pip",
	".pip",
	"pip.conf",
	".condarc",
	".gemrc",
	".bundle/config",
	".bazelrc",
	".m2/settings.xml",
	".gradle/init.gradle",
	".gradle/init.d",
	".gradle/gradle.properties",
	NULL,
};

static const char *const start_up[] = {
	".bashrc",
	".bash_profile",
	".bash_login",
	".bash_logout",
	".bash_aliases",
	".profile",
	".zshenv",
	".zshrc",
	".zprofile",
	".zlogin",
	".zlogout",
	".kshrc",
	".mkshrc",
	".cshrc",
	".tcshrc",
	".login",
	".logout",
	".inputrc",
	".xprofile",
	".xinitrc",
	".xserverrc",
	".xsession",
	".xsessionrc",
	".xresources",
	".pam_environment",
	".config/fish",
	".config/nushell",
	".config/systemd",
	".config/autostart",
	".config/environment.d",
	".config/plasma-workspace",
	".local/bin",
	".local/lib", /* python's own for each user: what lies there runs at every start */
	".cargo/bin",
	".cargo/env",
	".bash_completion",
	".forward",
	".procmailrc",
	".mailcap",
	".local/share/applications",
	".local/share/systemd",
	".local/share/dbus-1",
	".tmux.conf",
	".config/tmux",
	".screenrc",
	".gdbinit",
	".lldbinit",
	".config/gdb",
	".pythonrc",
	".pythonstartup",
	".rprofile",
	".irbrc",
	".pryrc",
	".rvmrc",
	".ghci",
	".pdbrc",
	".psqlrc",
	".sqliterc",
	".wgetrc",
	".curlrc",
	NULL,
};

static const char *const git[] = {".gitconfig", ".config/git", NULL};

static const char *const credential[] = {
	".ssh",		  ".gnupg",	".netrc",	    ".aws", ".kube", ".docker",
	".config/gcloud", ".config/gh", ".git-credentials", NULL,
};

static const char *const own[] = {".config/atoll", ".local/state/atoll", ".local/share/atoll",
				  NULL};

const struct names_group names_groups[] = {
	{"editor settings", editor},
	{"agent settings", agent},
	{"CI settings", ci},
	{"git hook managers", hook_manager},
	{"package manager settings", package_manager},
	{"shell and login start-up files", start_up},
	{"git settings", git},
	{"keys and credentials", credential},
	{"atoll's own files", own},
};
const size_t names_group_count = ARRAY_SIZE(names_groups);

/* The most components that a name of the table has. */
enum {
	DEPTH_MAX = 3,
};

static const char whole_container[] =
	"directories that hold trusted settings (make the directory, move the files one by one)";

/*
 * Folding
 *
 * The union of what file systems do, as far as the result is ASCII: ext4 and f2fs with casefold
 * (Unicode full case folding, ignorable code points dropped), HFS+ and APFS, NTFS and vfat (upper
 * case; trailing dots and blanks, streams), ZFS (upper case, where a dotless i becomes I).
 */

struct range {
	uint32_t first, last;
};

/* Default_Ignorable_Code_Point of Unicode; those that HFS+ skips are among them. */
static const struct range ignorable[] = {
	{0x00ad, 0x00ad},   {0x034f, 0x034f}, {0x061c, 0x061c},	  {0x115f, 0x1160},
	{0x17b4, 0x17b5},   {0x180b, 0x180f}, {0x200b, 0x200f},	  {0x202a, 0x202e},
	{0x2060, 0x206f},   {0x3164, 0x3164}, {0xfe00, 0xfe0f},	  {0xfeff, 0xfeff},
	{0xffa0, 0xffa0},   {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
	{0xe0000, 0xe0fff},
};

static const struct {
	uint32_t code;
	const char *text;
} ascii_folds[] = {
	{0x00df, "ss"},	 {0x0130, "i"},	 {0x0131, "i"},	 {0x017f, "s"},	 {0x1e9e, "ss"},
	{0x212a, "k"},	 {0xfb00, "ff"}, {0xfb01, "fi"}, {0xfb02, "fl"}, {0xfb03, "ffi"},
	{0xfb04, "ffl"}, {0xfb05, "st"}, {0xfb06, "st"},
};

static uint32_t decode_utf8(const char *text, size_t length)
{
	static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t code = (unsigned char)text[0] & lead_bits[length];

	for (size_t i = 1; i < length; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	return code;
}

/* What a character beyond ASCII folds to: "" for nothing, NULL for itself. */
static const char *fold_character(uint32_t code)
{
	for (size_t i = 0; i < ARRAY_SIZE(ignorable); i++)
		if (code >= ignorable[i].first && code <= ignorable[i].last)
			return "";
	for (size_t i = 0; i < ARRAY_SIZE(ascii_folds); i++)
		if (code == ascii_folds[i].code)
			return ascii_folds[i].text;
	return NULL;
}

bool names_fold(const char *component, size_t size, char ret_folded[NAMES_FOLD_SIZE])
{
	size_t used = 0;

	for (size_t i = 0; i < size && component[i] != ':';) {
		unsigned char c = component[i];
		size_t length = 1;
		const char *fold = NULL;

		/* No fold is longer than the character it stands for, so this holds for all. */
		if (used + 4 >= NAMES_FOLD_SIZE)
			return false;
		if (c < 0x80) {
			ret_folded[used++] = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
			i++;
			continue;
		}
		length = utf8_length(component + i, size - i);
		if (length)
			fold = fold_character(decode_utf8(component + i, length));
		else
			length = 1;
		if (fold) {
			while (*fold)
				ret_folded[used++] = *fold++;
		} else {
			memcpy(ret_folded + used, component + i, length);
			used += length;
		}
		i += length;
	}
	while (used && (ret_folded[used - 1] == '.' || ret_folded[used - 1] == ' '))
		used--;
	ret_folded[used] = '\0';
	return true;
}

/* Is `folded` a short name, "stem~1.ext", as vfat and NTFS make it for a long `name`? Which digit
 * the name got depends on its neighbours, so every digit will do. */
static bool is_short_name(const char *folded, const char *name, size_t size)
{
	const char *tilde = strchr(folded, '~');
	const char *end = name + size, *dot = NULL, *have = folded;
	size_t stem = 0, extension = 0;

	if (!tilde || tilde[1] < '1' || tilde[1] > '9')
		return false;
	while (name < end && *name == '.')
		name++;
	for (const char *c = name; c < end; c++)
		if (*c == '.')
			dot = c;
	for (const char *c = name; c < (dot ? dot : end) && stem < 6; c++) {
		if (*c == '.')
			continue;
		if (*have++ != *c)
			return false;
		stem++;
	}
	if (have != tilde)
		return false;
	have += 2;
	if (!dot)
		return *have == '\0';
	if (*have++ != '.')
		return false;
	for (const char *c = dot + 1; c < end && extension < 3; c++, extension++)
		if (*have++ != *c)
			return false;
	return *have == '\0';
}

static bool same(const char *folded, const char *name, size_t size)
{
	if (strncmp(folded, name, size) == 0 && folded[size] == '\0')
		return true;
	return is_short_name(folded, name, size);
}

bool names_same(const char *folded, const char *name)
{
	return same(folded, name, strlen(name));
}

bool names_is_git(const char *component, size_t size)
{
	char folded[NAMES_FOLD_SIZE];

	return names_fold(component, size, folded) && names_same(folded, ".git");
}

/* The first component of `path` beneath `root`; "" if that is `root` itself. A path that is not
 * beneath it is judged from its beginning. */
static const char *beneath(const char *root, const char *path)
{
	const char *rest = path;

	if (path_is_within(path, root))
		rest += strlen(root);
	while (*rest == '/')
		rest++;
	return rest;
}

static const char *end_of_component(const char *component)
{
	return strchrnul(component, '/');
}

static const char *next_component(const char *component)
{
	component = end_of_component(component);
	while (*component == '/')
		component++;
	return component;
}

const char *names_git_inside(const char *root, const char *path)
{
	for (const char *c = beneath(root, path); *c; c = next_component(c))
		if (names_is_git(c, end_of_component(c) - c))
			return next_component(c);
	return NULL;
}

enum match {
	MATCH_NONE,
	MATCH_BEGINS, /* the path ends within the name: ".github" of ".github/workflows" */
	MATCH_FULL,
};

static bool matches_one(const char *name, size_t size, const char *folded)
{
	size_t length;

	if (*name != '*')
		return same(folded, name, size);
	name++, size--;
	length = strlen(folded);
	return length >= size && memcmp(folded + length - size, name, size) == 0;
}

/* Compare a name of the table, component by component, with `path` from where `folded` was made. A
 * full match that ends before `from` is none: the grant lies beneath it. */
static enum match matches(const char *name, const char *folded, const char *path, const char *from)
{
	char next[NAMES_FOLD_SIZE];

	for (;;) {
		size_t size = end_of_component(name) - name;

		if (!matches_one(name, size, folded))
			return MATCH_NONE;
		if (name[size] == '\0')
			return path >= from ? MATCH_FULL : MATCH_NONE;
		name += size + 1;
		path = next_component(path);
		if (*path == '\0')
			return MATCH_BEGINS;
		if (!names_fold(path, end_of_component(path) - path, next))
			return MATCH_NONE;
		folded = next;
	}
}

/* The best match of all names at one component, and the group it is in. */
static enum match look_up(const char *folded, const char *path, const char *from,
			  const char **ret_what)
{
	enum match best = MATCH_NONE;
	bool is_short = strchr(folded, '~');

	for (size_t i = 0; i < names_group_count; i++) {
		for (const char *const *name = names_groups[i].names; *name; name++) {
			enum match match;

			/* Nearly every file that is ever made ends here, for every name. */
			if (**name != '*' && !is_short &&
			    ((*name)[0] != folded[0] || (*name)[1] != folded[1]))
				continue;
			match = matches(*name, folded, path, from);
			if (match == MATCH_FULL) {
				*ret_what = names_groups[i].what;
				return MATCH_FULL;
			}
			if (match > best)
				best = match;
		}
	}
	return best;
}

const char *names_refuse(const char *root, const char *path, enum names_action action)
{
	const char *from = beneath(root, path);
	const char *what = NULL;
	char folded[NAMES_FOLD_SIZE];

	if (*from == '\0')
		return NULL;
	for (const char *c = path + strspn(path, "/"); *c; c = next_component(c)) {
		const char *last = c;

		/* No name is long enough to reach from here to beneath the root. */
		for (unsigned i = 1; i < DEPTH_MAX && last < from; i++)
			last = next_component(last);
		if (last < from)
			continue;
		/* What does not fit is no name of ours, and no file system's either. */
		if (!names_fold(c, end_of_component(c) - c, folded))
			continue;
		if (c >= from && names_same(folded, ".git"))
			return NULL;
		switch (look_up(folded, c, from, &what)) {
		case MATCH_FULL:
			return what;
		case MATCH_BEGINS:
			if (action == NAMES_RENAME_DIR_TO || action == NAMES_SYMLINK)
				return whole_container;
			break;
		case MATCH_NONE:
			break;
		}
	}
	return NULL;
}

bool names_is_container(const char *component)
{
	char folded[NAMES_FOLD_SIZE];
	const char *what;

	return names_fold(component, strlen(component), folded) &&
	       look_up(folded, component, component, &what) == MATCH_BEGINS;
}
