/* SPDX-License-Identifier: Apache-2.0 */
/* test_interrupt_monitored.c, word for word, with sessions that have no thread of their own. */
#define API_PROGRESS PS_PROGRESS_CALLER
#include "test_interrupt_monitored.c" /* NOLINT(bugprone-suspicious-include): one text, two programs */
