/* SPDX-License-Identifier: Apache-2.0 */
/* test_monitored.c in sessions that make no thread: blocking calls drive them, and a recovery. */
#define API_PROGRESS PS_PROGRESS_CALLER
#include "test_monitored.c" /* NOLINT(bugprone-suspicious-include): one text, two programs */
