/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include <jansson.h>
#include <stddef.h>

/*
 * Receipts: signed statements about a run that other programs can check
 *
 * A receipt is a file of two lines. Each line is a DSSE envelope around an in-toto Statement v1
 * (the form that in-toto calls a bundle). Both statements have the same subjects: the changed files
 * and the output. The first has the predicate SLSA Provenance v1; the second has a predicate of
 * atoll for facts that do not fit there. Both name the event log and its signed head.
 *
 *   sign.c           keys and signatures
 *   dsse.c           envelopes
 *   sshsig.c         signatures that ssh-keygen can check
 *   effects.c        reads the effects of steps from an event log
 *   statement.c      makes the two statements from them
 *   attest.c         `atoll attest`
 *   bundle.c         a sigstore bundle, and the log of receipts that its entry is in
 *   tpm.c, tsm.c     a TPM or a confidential machine signs the head; tpm-check.c checks that
 *   receipt-read.c   reads a receipt and checks its signatures
 *   receipt-check.c  `atoll verify --receipt`
 *   replay.c         `atoll replay`
 */

#define RECEIPT_PAYLOAD_TYPE   "application/vnd.in-toto+json"
#define RECEIPT_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define RECEIPT_PROVENANCE     "https://slsa.dev/provenance/v1"
#define RECEIPT_PREDICATE      "https://atoll.dev/receipt/v1"
#define RECEIPT_BUILD_TYPE     "https://atoll.dev/run/v1"
#define RECEIPT_BUILDER	       "https://atoll.dev/atoll"
#define RECEIPT_SSH_NAMESPACE  "atoll-receipt"
/* A receipt is read as a whole and may come from anybody: a larger file is refused. */
#define RECEIPT_MAX ((size_t)64 << 20)

/* Sets a message without the text of an errno, and is the negative errno `code` for programs. */
#define receipt_refuse(err, code, ...) (error_set(err, ATOLL_FAULT_POLICY, 0, __VA_ARGS__), -(code))

#define cleanup_json cleanup_with(receipt_json_done)
static inline void receipt_json_done(json_t **json)
{
	json_decref(*json);
}
