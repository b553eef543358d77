/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a plan and answers to them, from anybody (worker/plan/run.c): the input is one of the two. */
#include "run_check.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1); /* its end is where a sanitizer sees one */
    PSI_ASSERT(copy != NULL);
    if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    run_decode_check(copy, bytes);
    free(copy);
    return 0;
}
