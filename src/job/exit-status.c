/* SPDX-License-Identifier: Apache-2.0 */
#include <atoll/atoll.h>

/* Exit statuses of our own are together at the end of the range, where commands rarely go. */
enum {
	STATUS_REQUEST = 240,
	STATUS_POLICY,
	STATUS_HOST,
	STATUS_TIMED_OUT,
	STATUS_MEMORY,
	STATUS_LIMIT,
	STATUS_BUG,
	STATUS_STOPPED,
	STATUS_UNRECORDED,
};

int atoll_result_status(const struct atoll_result *result)
{
	switch (result->end) {
	case ATOLL_EXITED:
	case ATOLL_NOT_STARTED:
		return result->code;
	case ATOLL_SIGNALED:
		return 128 + result->code;
	case ATOLL_TIMED_OUT:
		return STATUS_TIMED_OUT;
	case ATOLL_OUT_OF_MEMORY:
		return STATUS_MEMORY;
	case ATOLL_OVER_LIMIT:
		return STATUS_LIMIT;
	case ATOLL_STOPPED:
		return STATUS_STOPPED;
	case ATOLL_UNRECORDED:
		return STATUS_UNRECORDED;
	}
	return STATUS_BUG;
}

int atoll_error_status(const struct atoll_error *err)
{
	switch (err->fault) {
	case ATOLL_FAULT_REQUEST:
		return STATUS_REQUEST;
	case ATOLL_FAULT_POLICY:
		return STATUS_POLICY;
	case ATOLL_FAULT_HOST:
		return STATUS_HOST;
	default:
		return STATUS_BUG;
	}
}
