/* SPDX-License-Identifier: Apache-2.0 */
/* test_interrupt.c, word for word, with sessions that have no thread of their own. */
#define API_PROGRESS PS_PROGRESS_CALLER
#include "test_interrupt.c" /* NOLINT(bugprone-suspicious-include): one text, two programs */
