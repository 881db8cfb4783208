/* SPDX-License-Identifier: Apache-2.0 */
/* The private desktop on Windows. Called through struct win_calls. */
#include "base/error.h"
#include "base/scope.h"
#include "nt/nt.h"
#include "win/pe/pe.h"
#include "win/pe/win-text.h"

/* All rights of a desktop: those of its own, and the standard ones. */
#define DESKTOP_ALL 0x000f01ffUL

static int pack_security(const struct nt_sid *logon, uint8_t **ret)
{
	cleanup_with(nt_descriptor_done) struct nt_descriptor sd;
	const struct nt_label low = {.level = NT_LEVEL_LOW, .policy = NT_NO_WRITE_UP};
	int r;

	nt_descriptor_init(&sd);
	sd.has_dacl = true;
	r = nt_acl_add(&sd.dacl, NT_ACE_ALLOW, 0, DESKTOP_ALL, logon);
	if (r == 0)
		r = nt_label_set(&sd, &low);
	return r < 0 ? r : nt_descriptor_pack(&sd, ret);
}

static int desktop_make(void *context, const char *name, const struct nt_sid *logon,
			win_handle *ret, struct atoll_error *err)
{
	SECURITY_INFORMATION what = DACL_SECURITY_INFORMATION | LABEL_SECURITY_INFORMATION;
	cleanup_free uint8_t *security = NULL;
	cleanup_free wchar_t *wide = win_wide(name);
	HDESK desktop;

	(void)context;
	if (!wide || pack_security(logon, &security) < 0)
		return error_oom(err);
	desktop = CreateDesktopW(wide, NULL, NULL, 0, GENERIC_ALL | WRITE_OWNER | WRITE_DAC, NULL);
	if (!desktop)
		return win_fail(err, "desktop.made", "CreateDesktopW");
	if (!SetUserObjectSecurity(desktop, &what, security)) {
		int r = win_fail(err, "desktop.list", "SetUserObjectSecurity");

		CloseDesktop(desktop);
		return r;
	}
	*ret = win_item_new(WIN_ITEM_DESKTOP, desktop);
	return *ret ? 0 : error_oom(err);
}

static int desktop_read(void *context, win_handle desktop, struct nt_descriptor *ret,
			struct atoll_error *err)
{
	SECURITY_INFORMATION what = DACL_SECURITY_INFORMATION | LABEL_SECURITY_INFORMATION;
	cleanup_free uint8_t *data = NULL;
	DWORD size = 0;

	(void)context;
	GetUserObjectSecurity(win_item_handle(desktop), &what, NULL, 0, &size);
	data = size ? calloc(1, size) : NULL;
	if (!data || !GetUserObjectSecurity(win_item_handle(desktop), &what, data, size, &size))
		return win_fail(err, "desktop.list", "GetUserObjectSecurity");
	if (nt_descriptor_unpack(data, size, ret) < 0)
		return error_set(err, ATOLL_FAULT_HOST, EIO, "desktop.list: odd descriptor");
	return 0;
}

void win_desktop_calls(struct win_calls *calls)
{
	calls->make_desktop = desktop_make;
	calls->read_desktop = desktop_read;
}
