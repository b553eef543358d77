/* SPDX-License-Identifier: Apache-2.0 */
/* test_reconnect.c, word for word, with sessions that have no thread of their own and one thread each that drives them. */
#define API_PROGRESS PS_PROGRESS_CALLER
#include "test_reconnect.c" /* NOLINT(bugprone-suspicious-include): one text, two programs */
