/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Windows paths
 *
 * One Windows file has many spellings. A contract may name a file in one spelling only: an absolute
 * path on a drive or a share, without streams, devices, short names and components that Windows
 * rewrites. nt_path_read() accepts exactly these paths and writes each in one form; everything else
 * is refused with a reason. The Win32 code opens the path, asks Windows for the name of the open
 * file, and refuses where that name differs.
 *
 *	accepted                     written as
 *	c:\a\.\b\..\c, C:/a/c        C:\a\c
 *	\\?\C:\a\c                   C:\a\c
 *	\\server\share\x             \\server\share\x
 *	\\?\UNC\server\share\x       \\server\share\x
 */

enum nt_path_problem {
	NT_PATH_OK,
	NT_PATH_EMPTY,
	NT_PATH_TOO_LONG,   /* over 32,767 bytes, or a component over 255 characters */
	NT_PATH_RELATIVE,   /* a\b, C:a or \a: depends on the current directory or drive */
	NT_PATH_DEVICE,	    /* \\.\ and \??\, or a component such as NUL, COM1.txt, CONIN$ */
	NT_PATH_STREAM,	    /* name:stream */
	NT_PATH_CHARACTER,  /* < > " | ? * or a control character */
	NT_PATH_ENCODING,   /* no valid UTF-8 */
	NT_PATH_TRAILING,   /* a component that ends in a dot or a blank: Windows drops these */
	NT_PATH_SHORT_NAME, /* PROGRA~1: names a file that has another, long name */
	NT_PATH_ABOVE_ROOT, /* .. above the drive or share, or .. in a \\?\ path */
	NT_PATH_SHARE,	    /* \\server without a share */
};

/* Write the one form of an absolute path. `size` is the room in `ret`; 32,768 is always enough. */
enum nt_path_problem nt_path_read(const char *text, char *ret, size_t size);

/* Why a path was refused, as the end of a sentence: "names a device". */
const char *nt_path_explain(enum nt_path_problem problem);

/*
 * Whether two paths in the one form are equal, and whether `path` is `above` or lies beneath it.
 * Letters compare without case for ASCII and byte for byte otherwise: NTFS folds more letters, by a
 * table that each volume has of its own. So "equal" is certain and "different" is not; a caller
 * that needs to know that two files differ compares their file identifiers.
 */
bool nt_path_equal(const char *a, const char *b);
bool nt_path_is_within(const char *path, const char *above);
