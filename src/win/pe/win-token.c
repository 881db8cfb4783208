/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller and the token of the command on Windows. Called through struct win_calls. The token is
 * made of the caller's own: fewer privileges, restricting SIDs, another default list, a lower
 * integrity level.
 */
#include "base/error.h"
#include "base/scope.h"
#include "win/pe/pe.h"

#include <bcrypt.h>
#include <stdio.h>

#define GROUP_IS_LOGON	   0xC0000000UL
#define TOKEN_FLAG_WRITE   0x0008 /* TOKEN_WRITE_RESTRICTED of TOKEN_ACCESS_INFORMATION */
#define CHANGE_NOTIFY_LUID 23

PSID win_sid(const struct nt_sid *sid, uint8_t buffer[NT_SID_SIZE_MAX])
{
	nt_sid_pack(sid, buffer);
	return buffer;
}

bool win_read_sid(PSID sid, struct nt_sid *ret)
{
	return sid && IsValidSid(sid) && nt_sid_unpack(sid, GetLengthSid(sid), ret) > 0;
}

static void close_handle(HANDLE *handle)
{
	if (*handle)
		CloseHandle(*handle);
}
#define cleanup_handle cleanup_with(close_handle)

/* One piece of information about a token, in fresh memory. */
static void *token_information(HANDLE token, TOKEN_INFORMATION_CLASS what)
{
	DWORD size = 0;
	void *data;

	GetTokenInformation(token, what, NULL, 0, &size);
	if (GetLastError() != ERROR_INSUFFICIENT_BUFFER && GetLastError() != ERROR_BAD_LENGTH)
		return NULL;
	data = calloc(1, size);
	if (data && !GetTokenInformation(token, what, data, size, &size)) {
		free(data);
		return NULL;
	}
	return data;
}

/* ---- the caller ---- */

static bool find_logon(const TOKEN_GROUPS *groups, struct nt_sid *ret)
{
	for (DWORD i = 0; groups && i < groups->GroupCount; i++)
		if ((groups->Groups[i].Attributes & GROUP_IS_LOGON) == GROUP_IS_LOGON)
			return win_read_sid(groups->Groups[i].Sid, ret);
	return false;
}

static int token_identify(void *context, struct win_identity *ret, struct atoll_error *err)
{
	cleanup_handle HANDLE token = NULL;
	cleanup_free TOKEN_USER *user = NULL;
	cleanup_free TOKEN_GROUPS *groups = NULL;
	TOKEN_ELEVATION elevation = {0};
	SYSTEM_INFO system;
	DWORD size;

	(void)context;
	if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
		return win_fail(err, "caller.identity", "OpenProcessToken");
	user = token_information(token, TokenUser);
	groups = token_information(token, TokenGroups);
	if (!user || !win_read_sid(user->User.Sid, &ret->user))
		return win_fail(err, "caller.identity", "GetTokenInformation(TokenUser)");
	if (!find_logon(groups, &ret->logon))
		return error_set(err, ATOLL_FAULT_HOST, EIO,
				 "caller.identity: the token has no logon SID");
	if (!GetTokenInformation(token, TokenElevation, &elevation, sizeof elevation, &size))
		return win_fail(err, "caller.elevated", "GetTokenInformation(TokenElevation)");
	ret->is_elevated = elevation.TokenIsElevated;
	if (!GetTokenInformation(token, TokenSessionId, &ret->session, sizeof ret->session, &size))
		return win_fail(err, "caller.session", "GetTokenInformation(TokenSessionId)");
	GetSystemInfo(&system);
	ret->n_processors = system.dwNumberOfProcessors;
	return 0;
}

static int token_random(void *context, uint8_t *ret, size_t size, struct atoll_error *err)
{
	(void)context;
	if (BCryptGenRandom(NULL, ret, (ULONG)size, BCRYPT_USE_SYSTEM_PREFERRED_RNG) != 0)
		return win_fail_code(err, "random", "BCryptGenRandom", 0);
	return 0;
}

/* ---- the token of the command ---- */

static int set_default_list(HANDLE token, const struct nt_token_spec *spec, struct atoll_error *err)
{
	cleanup_with(nt_acl_done) struct nt_acl list;
	uint8_t packed[1024];
	TOKEN_DEFAULT_DACL info = {.DefaultDacl = (ACL *)packed};

	nt_acl_init(&list);
	for (size_t i = 0; i < NT_DEFAULT_LIST; i++)
		if (nt_acl_add(&list, NT_ACE_ALLOW, 0, NT_GENERIC_ALL, &spec->default_list[i]) < 0)
			return error_oom(err);
	if (nt_acl_size(&list) > sizeof packed)
		return error_set(err, ATOLL_FAULT_BUG, E2BIG, "token.default-list");
	nt_acl_pack(&list, packed);
	if (!SetTokenInformation(token, TokenDefaultDacl, &info, sizeof info))
		return win_fail(err, "token.default-list", "SetTokenInformation(TokenDefaultDacl)");
	return 0;
}

static int set_integrity(HANDLE token, uint32_t level, struct atoll_error *err)
{
	const struct nt_sid sid = {.authority = 16, .n_subs = 1, .subs = {level}};
	uint8_t packed[NT_SID_SIZE_MAX];
	TOKEN_MANDATORY_LABEL label = {
		.Label = {.Sid = win_sid(&sid, packed), .Attributes = SE_GROUP_INTEGRITY}};

	if (!SetTokenInformation(token, TokenIntegrityLevel, &label,
				 (DWORD)(sizeof label + nt_sid_size(&sid))))
		return win_fail(err, "token.integrity", "SetTokenInformation(TokenIntegrityLevel)");
	return 0;
}

static int restrict_token(HANDLE own, const struct nt_token_spec *spec, HANDLE *ret,
			  struct atoll_error *err)
{
	uint8_t packed[NT_RESTRICTING_MAX + 1][NT_SID_SIZE_MAX];
	SID_AND_ATTRIBUTES restricting[NT_RESTRICTING_MAX] = {0};
	SID_AND_ATTRIBUTES administrators = {
		.Sid = win_sid(&nt_sid_administrators, packed[NT_RESTRICTING_MAX])};

	for (size_t i = 0; i < spec->n_restricting; i++)
		restricting[i].Sid = win_sid(&spec->restricting[i], packed[i]);
	if (!CreateRestrictedToken(own, DISABLE_MAX_PRIVILEGE | LUA_TOKEN | WRITE_RESTRICTED, 1,
				   &administrators, 0, NULL, (DWORD)spec->n_restricting,
				   restricting, ret))
		return win_fail(err, "token.made", "CreateRestrictedToken");
	return 0;
}

static int token_make(void *context, const struct nt_token_spec *spec, win_handle *ret,
		      struct atoll_error *err)
{
	cleanup_handle HANDLE own = NULL;
	cleanup_handle HANDLE token = NULL;
	int r;

	(void)context;
	if (!OpenProcessToken(GetCurrentProcess(),
			      TOKEN_DUPLICATE | TOKEN_QUERY | TOKEN_ASSIGN_PRIMARY |
				      TOKEN_ADJUST_DEFAULT | TOKEN_ADJUST_SESSIONID |
				      TOKEN_ADJUST_PRIVILEGES,
			      &own))
		return win_fail(err, "token.made", "OpenProcessToken");
	r = restrict_token(own, spec, &token, err);
	if (r == 0)
		r = set_default_list(token, spec, err);
	/* Last: a lower token may not change itself any more. */
	if (r == 0)
		r = set_integrity(token, spec->integrity, err);
	if (r < 0)
		return r;
	*ret = win_item_new(WIN_ITEM_HANDLE, token);
	if (!*ret)
		return error_oom(err);
	token = NULL;
	return 0;
}

/* ---- reading back ---- */

static void read_restricting(HANDLE token, struct nt_token_view *ret)
{
	cleanup_free TOKEN_GROUPS *sids = token_information(token, TokenRestrictedSids);

	for (DWORD i = 0; sids && i < sids->GroupCount; i++)
		if (ret->n_restricting <= NT_RESTRICTING_MAX &&
		    win_read_sid(sids->Groups[i].Sid, &ret->restricting[ret->n_restricting]))
			ret->n_restricting++;
	ret->is_restricted = ret->n_restricting > 0;
}

static void read_flags(HANDLE token, struct nt_token_view *ret)
{
	cleanup_free TOKEN_ACCESS_INFORMATION *info =
		token_information(token, TokenAccessInformation);

	ret->is_write_restricted = info && (info->Flags & TOKEN_FLAG_WRITE);
}

static void read_privileges(HANDLE token, struct nt_token_view *ret)
{
	cleanup_free TOKEN_PRIVILEGES *list = token_information(token, TokenPrivileges);

	ret->n_privileges = list ? list->PrivilegeCount : 1000;
	ret->has_only_traverse = list && list->PrivilegeCount == 1 &&
				 list->Privileges[0].Luid.LowPart == CHANGE_NOTIFY_LUID &&
				 list->Privileges[0].Luid.HighPart == 0;
}

static void read_administrators(HANDLE token, struct nt_token_view *ret)
{
	cleanup_free TOKEN_GROUPS *groups = token_information(token, TokenGroups);
	struct nt_sid sid;

	ret->has_administrators = !groups; /* unknown counts as present */
	for (DWORD i = 0; groups && i < groups->GroupCount; i++)
		if (win_read_sid(groups->Groups[i].Sid, &sid) &&
		    nt_sid_equal(&sid, &nt_sid_administrators) &&
		    !(groups->Groups[i].Attributes & SE_GROUP_USE_FOR_DENY_ONLY))
			ret->has_administrators = true;
}

int win_read_token(HANDLE token, struct nt_token_view *ret, struct atoll_error *err)
{
	cleanup_free TOKEN_USER *user = token_information(token, TokenUser);
	cleanup_free TOKEN_MANDATORY_LABEL *label = token_information(token, TokenIntegrityLevel);
	cleanup_free TOKEN_DEFAULT_DACL *list = token_information(token, TokenDefaultDacl);
	struct nt_sid sid;

	*ret = (struct nt_token_view){0};
	nt_acl_init(&ret->default_list);
	if (!user || !win_read_sid(user->User.Sid, &ret->user))
		return win_fail(err, "token.user", "GetTokenInformation(TokenUser)");
	read_restricting(token, ret);
	read_flags(token, ret);
	read_privileges(token, ret);
	read_administrators(token, ret);
	if (label && win_read_sid(label->Label.Sid, &sid) && sid.authority == 16)
		ret->integrity = sid.subs[0];
	if (list && list->DefaultDacl)
		nt_acl_unpack((const uint8_t *)list->DefaultDacl, list->DefaultDacl->AclSize,
			      &ret->default_list);
	return 0;
}

static int token_read(void *context, win_handle token, struct nt_token_view *ret,
		      struct atoll_error *err)
{
	(void)context;
	return win_read_token(win_item_handle(token), ret, err);
}

void win_token_calls(struct win_calls *calls)
{
	calls->identify = token_identify;
	calls->random = token_random;
	calls->make_token = token_make;
	calls->read_token = token_read;
}
