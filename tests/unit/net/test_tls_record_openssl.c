/* SPDX-License-Identifier: Apache-2.0 */
/* The tests of records once more, with all ciphers by OpenSSL, also where Intel's library is there. */
#define WITHOUT_IPSEC_MB 1
#include "test_tls_record.c" /* NOLINT(bugprone-suspicious-include): the same cases with another cipher */
