/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes SDDL. Called by the planner, whose firewall rules name accounts in SDDL, by
 * `--plan`, which shows lists in this form, and by tests.
 */
#include "nt/sddl.h"

#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>

#define TEXT_MAX (1 << 20)

/* Abbreviations of SIDs that are the same on every machine. */
static const struct {
	char name[3];
	const struct nt_sid *sid;
} sid_names[] = {
	{"WD", &nt_sid_everyone},     {"CO", &nt_sid_creator_owner}, {"CG", &nt_sid_creator_group},
	{"OW", &nt_sid_owner_rights}, {"AN", &nt_sid_anonymous},     {"AU", &nt_sid_authenticated},
	{"RC", &nt_sid_restricted},   {"SY", &nt_sid_system},	     {"BA", &nt_sid_administrators},
	{"BU", &nt_sid_users},
};

/* Rights of one entry. The writer uses a name only if it stands for the whole mask. */
static const struct {
	char name[3];
	uint32_t mask;
} right_names[] = {
	{"FA", NT_FILE_ALL_ACCESS},
	{"FR", NT_FILE_GENERIC_READ},
	{"FW", NT_FILE_GENERIC_WRITE},
	{"FX", NT_FILE_GENERIC_EXECUTE},
	{"GA", NT_GENERIC_ALL},
	{"GR", NT_GENERIC_READ},
	{"GW", NT_GENERIC_WRITE},
	{"GX", NT_GENERIC_EXECUTE},
	{"RC", NT_READ_CONTROL},
	{"SD", NT_DELETE},
	{"WD", NT_WRITE_DAC},
	{"WO", NT_WRITE_OWNER},
	{"CC", 0x001},
	{"DC", 0x002},
	{"LC", 0x004},
	{"SW", 0x008},
	{"RP", 0x010},
	{"WP", 0x020},
	{"DT", 0x040},
	{"LO", 0x080},
	{"CR", 0x100},
};

static const struct {
	char name[3];
	uint8_t flag;
} flag_names[] = {
	{"OI", NT_ACE_OBJECT_INHERIT},
	{"CI", NT_ACE_CONTAINER_INHERIT},
	{"NP", NT_ACE_NO_PROPAGATE},
	{"IO", NT_ACE_INHERIT_ONLY},
	{"ID", NT_ACE_INHERITED},
	{"SA", 0x40}, /* audit what succeeds */
	{"FA", 0x80}, /* audit what fails */
};

/* Types that the reader knows and does not accept. */
static const char *const refused_types[] = {"OA", "OD", "OU", "OL", "AL", "ML", "XA",
					    "XD", "XU", "ZA", "RA", "SP", "TL", "FL"};

/* ---- reading ---- */

struct cursor {
	const char *at;
};

static bool skip(struct cursor *in, const char *text)
{
	size_t size = strlen(text);

	if (strncmp(in->at, text, size) != 0)
		return false;
	in->at += size;
	return true;
}

static int parse_sid(struct cursor *in, struct nt_sid *ret)
{
	int n;

	for (size_t i = 0; i < ARRAY_SIZE(sid_names); i++) {
		if (skip(in, sid_names[i].name)) {
			*ret = *sid_names[i].sid;
			return 0;
		}
	}
	/* Two letters that are no abbreviation above: one that depends on a domain, or unknown. */
	if (in->at[0] >= 'A' && in->at[0] <= 'Z' && in->at[1] >= 'A' && in->at[1] <= 'Z')
		return -ENOTSUP;
	n = nt_sid_parse(in->at, strlen(in->at), ret);
	if (n < 0)
		return n;
	in->at += n;
	return 0;
}

static int parse_type(struct cursor *in, uint8_t *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused_types); i++)
		if (skip(in, refused_types[i]))
			return -ENOTSUP;
	if (skip(in, "AU"))
		*ret = NT_ACE_AUDIT;
	else if (skip(in, "A"))
		*ret = NT_ACE_ALLOW;
	else if (skip(in, "D"))
		*ret = NT_ACE_DENY;
	else
		return -EINVAL;
	return skip(in, ";") ? 0 : -EINVAL;
}

static bool parse_flag(struct cursor *in, uint8_t *flags)
{
	for (size_t i = 0; i < ARRAY_SIZE(flag_names); i++) {
		if (skip(in, flag_names[i].name)) {
			*flags |= flag_names[i].flag;
			return true;
		}
	}
	return false;
}

static int parse_flags(struct cursor *in, uint8_t *ret)
{
	uint8_t flags = 0;

	while (!skip(in, ";"))
		if (!parse_flag(in, &flags))
			return -EINVAL;
	*ret = flags;
	return 0;
}

/* "0x..." or decimal, up to the semicolon. */
static int parse_number(struct cursor *in, uint32_t *ret)
{
	const unsigned base = skip(in, "0x") ? 16 : 10;
	uint64_t value = 0;
	size_t n = 0;

	for (; *in->at && *in->at != ';'; in->at++, n++) {
		int digit = str_hex_value(*in->at);

		if (digit < 0 || (unsigned)digit >= base)
			return -EINVAL;
		value = value * base + (unsigned)digit;
		if (value > UINT32_MAX)
			return -EINVAL;
	}
	*ret = (uint32_t)value;
	return n > 0 && skip(in, ";") ? 0 : -EINVAL;
}

static bool parse_right(struct cursor *in, uint32_t *mask)
{
	for (size_t i = 0; i < ARRAY_SIZE(right_names); i++) {
		if (skip(in, right_names[i].name)) {
			*mask |= right_names[i].mask;
			return true;
		}
	}
	return false;
}

static int parse_rights(struct cursor *in, uint32_t *ret)
{
	uint32_t mask = 0;

	if (*in->at >= '0' && *in->at <= '9')
		return parse_number(in, ret);
	while (!skip(in, ";"))
		if (!parse_right(in, &mask))
			return -EINVAL;
	*ret = mask;
	return 0;
}

/* Behind the opening parenthesis. */
static int parse_ace(struct cursor *in, struct nt_acl *acl)
{
	struct nt_ace ace = {0};
	int r = parse_type(in, &ace.type);

	if (r == 0)
		r = parse_flags(in, &ace.flags);
	if (r == 0)
		r = parse_rights(in, &ace.mask);
	if (r < 0)
		return r;
	/* Object types are GUIDs of a directory service; entries for files have none. */
	if (!skip(in, ";;"))
		return -ENOTSUP;
	r = parse_sid(in, &ace.sid);
	if (r < 0)
		return r;
	if (*in->at == ';')
		return -ENOTSUP;
	if (!skip(in, ")"))
		return -EINVAL;
	r = nt_acl_insert(acl, acl->n_aces, ace.type, ace.flags, ace.mask, &ace.sid);
	return r == -E2BIG ? -EINVAL : r;
}

struct list_bits {
	uint16_t protected, auto_inherited;
};

static int parse_list(struct cursor *in, const struct list_bits *bits, struct nt_descriptor *sd,
		      bool *ret_is_null, struct nt_acl *ret)
{
	for (;;) {
		if (skip(in, "NO_ACCESS_CONTROL"))
			*ret_is_null = true;
		else if (skip(in, "P"))
			sd->control |= bits->protected;
		else if (skip(in, "AI"))
			sd->control |= bits->auto_inherited;
		else if (!skip(in, "AR")) /* a request to Windows, no state of the descriptor */
			break;
	}
	while (skip(in, "(")) {
		int r = *ret_is_null ? -EINVAL : parse_ace(in, ret);

		if (r < 0)
			return r;
	}
	return 0;
}

static int parse_part(struct cursor *in, struct nt_descriptor *sd)
{
	static const struct list_bits dacl = {NT_SE_DACL_PROTECTED, NT_SE_DACL_AUTO_INHERITED};
	static const struct list_bits sacl = {NT_SE_SACL_PROTECTED, NT_SE_SACL_AUTO_INHERITED};

	if (!sd->has_owner && skip(in, "O:")) {
		sd->has_owner = true;
		return parse_sid(in, &sd->owner);
	}
	if (!sd->has_group && skip(in, "G:")) {
		sd->has_group = true;
		return parse_sid(in, &sd->group);
	}
	if (!sd->has_dacl && skip(in, "D:")) {
		sd->has_dacl = true;
		return parse_list(in, &dacl, sd, &sd->is_dacl_null, &sd->dacl);
	}
	if (!sd->has_sacl && skip(in, "S:")) {
		sd->has_sacl = true;
		return parse_list(in, &sacl, sd, &sd->is_sacl_null, &sd->sacl);
	}
	return -EINVAL;
}

int nt_sddl_parse(const char *text, struct nt_descriptor *ret)
{
	struct cursor in = {.at = text};

	nt_descriptor_init(ret);
	while (*in.at) {
		int r = parse_part(&in, ret);

		if (r < 0) {
			nt_descriptor_done(ret);
			return r;
		}
	}
	return 0;
}

/* ---- writing ---- */

static void put_sid(struct buf *out, const struct nt_sid *sid)
{
	char text[NT_SID_TEXT_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(sid_names); i++) {
		if (nt_sid_equal(sid, sid_names[i].sid)) {
			buf_add_str(out, sid_names[i].name);
			return;
		}
	}
	nt_sid_text(sid, text);
	buf_add_str(out, text);
}

static void put_rights(struct buf *out, uint32_t mask)
{
	for (size_t i = 0; i < ARRAY_SIZE(right_names); i++) {
		if (mask == right_names[i].mask) {
			buf_add_str(out, right_names[i].name);
			return;
		}
	}
	buf_addf(out, "0x%x", mask);
}

static int put_ace(struct buf *out, const struct nt_ace *ace)
{
	static const char *const types[] = {"A", "D", "AU"};

	if (ace->raw || ace->type >= ARRAY_SIZE(types) || (ace->flags & 0x20))
		return -ENOTSUP;
	buf_addf(out, "(%s;", types[ace->type]);
	for (size_t i = 0; i < ARRAY_SIZE(flag_names); i++)
		if (ace->flags & flag_names[i].flag)
			buf_add_str(out, flag_names[i].name);
	buf_add_char(out, ';');
	put_rights(out, ace->mask);
	buf_add_str(out, ";;;");
	put_sid(out, &ace->sid);
	buf_add_char(out, ')');
	return 0;
}

static int put_list(struct buf *out, const char *name, unsigned control,
		    const struct list_bits *bits, bool is_null, const struct nt_acl *acl)
{
	buf_add_str(out, name);
	if (control & bits->protected)
		buf_add_char(out, 'P');
	if (control & bits->auto_inherited)
		buf_add_str(out, "AI");
	if (is_null)
		buf_add_str(out, "NO_ACCESS_CONTROL");
	for (size_t i = 0; !is_null && i < acl->n_aces; i++) {
		int r = put_ace(out, &acl->aces[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

int nt_sddl_text(const struct nt_descriptor *sd, char **ret)
{
	static const struct list_bits dacl = {NT_SE_DACL_PROTECTED, NT_SE_DACL_AUTO_INHERITED};
	static const struct list_bits sacl = {NT_SE_SACL_PROTECTED, NT_SE_SACL_AUTO_INHERITED};
	cleanup_buf struct buf out = BUF_INIT(TEXT_MAX);
	int r = 0;

	if (sd->has_owner) {
		buf_add_str(&out, "O:");
		put_sid(&out, &sd->owner);
	}
	if (sd->has_group) {
		buf_add_str(&out, "G:");
		put_sid(&out, &sd->group);
	}
	if (sd->has_dacl)
		r = put_list(&out, "D:", sd->control, &dacl, sd->is_dacl_null, &sd->dacl);
	if (r == 0 && sd->has_sacl)
		r = put_list(&out, "S:", sd->control, &sacl, sd->is_sacl_null, &sd->sacl);
	if (r < 0)
		return r;
	*ret = buf_take(&out);
	return *ret ? 0 : -ENOMEM;
}
