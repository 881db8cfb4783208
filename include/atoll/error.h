/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How libatoll fails
 *
 * Every function that can fail returns 0 (or a useful number) on success and a negative errno on
 * failure; the story is in the struct atoll_error that the caller lent as the last parameter. It is
 * written only on failure, and may be NULL where nobody wants the story.
 */

/* Whose problem a failure is. The exit status and the HTTP status follow from it. */
enum atoll_fault {
	ATOLL_FAULT_NONE,
	ATOLL_FAULT_REQUEST, /* the request makes no sense */
	ATOLL_FAULT_POLICY,  /* it makes sense, and the policy says no */
	ATOLL_FAULT_HOST,    /* this kernel or machine cannot do it */
	ATOLL_FAULT_JOB,     /* the job ran, and failed */
	ATOLL_FAULT_BUG,     /* we are wrong */
};

/* On the caller's stack and without pointers: works when memory has run out, and a child
 * can write it to its parent byte for byte. */
struct atoll_error {
	enum atoll_fault fault;
	int errnum; /* of the call that failed; 0 if none did */
	char text[496];
};
