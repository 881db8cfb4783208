# SPDX-License-Identifier: Apache-2.0
#
# A shell that lives on from one execution to the next: kernel.py sends three texts to descriptor 3, each with a NUL at
# its end (what sets the environment, the code, what takes the environment back), and reads the status from 4. First it
# says there that an interrupt does not end it any more.

__atoll_run() {
	# An interrupt ends what is being executed, and not the shell.
	trap 'return 130' INT
	eval "$__atoll_code" 3<&- 4>&-
}

trap : INT
printf 'ready\n' >&4
while IFS= read -r -d '' -u 3 __atoll_before && IFS= read -r -d '' -u 3 __atoll_code &&
	IFS= read -r -d '' -u 3 __atoll_after; do
	trap : INT
	eval "$__atoll_before"
	__atoll_run
	__atoll_status=$?
	trap : INT
	eval "$__atoll_after"
	printf '%s\n' "$__atoll_status" >&4
done
