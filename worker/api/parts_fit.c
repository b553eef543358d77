/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a partitioned variable can fit the memory budgets of the tasks, asked before anything of it is created. Happy path: all
 * tasks are asked for INFO; the largest part, with its slots, is compared with the largest budget of a ps task, and all parts
 * with the sum of the budgets. For small variables nothing is asked. Failure modes: FAILED_PRECONDITION says what would fit.
 * If a task does not say its budget, nothing is refused here: each owner refuses what it has no room for. */
#include "api.h"

#include "common/mem.h"
#include "common/optimizer.h"
#include "common/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* for a variable with fewer bytes (value and slots) no task is asked: it fits almost any budget, and the owners check it */
#define ASKED_FROM_BYTES ((uint64_t)16 << 20)

/* Bytes of value and slots of a variable of this shape. */
static uint64_t bytes_of(const ps_variable_spec *spec, const ps_shape *shape)
{
    const uint64_t element = ps_dtype_bytes(spec->dtype), elements = (uint64_t)ps_shape_elements(shape);
    const uint64_t most = UINT64_MAX / 16; /* limit of each summand, so that the sum cannot overflow */
    const uint64_t value = elements > most / element ? most : elements * element;
    uint64_t sum = value;
    const struct psi_slot *slot = NULL;
    for (uint32_t i = 0; spec->optimizer != NULL && (slot = psi_optimizer_slot(spec->optimizer, i)) != NULL; i++) {
        sum += slot->by_row ? (uint64_t)shape->dims[0] * element : value;
    }
    return sum;
}

/* The smallest number of parts, above cut->count, with which each part has at most `budget` bytes; 0: there is none. */
static uint32_t least_parts(const ps_variable_spec *spec, const struct psi_parts *cut, uint64_t budget)
{
    struct psi_parts other = *cut;
    const uint64_t rows = (uint64_t)psi_parts_rows(cut), most = rows < PSI_PARTS_MAX ? rows : PSI_PARTS_MAX;
    for (other.count = cut->count + 1; other.count <= most; other.count++) {
        const ps_shape shape = psi_part_shape(&other, 0);
        if (bytes_of(spec, &shape) <= budget) {
            return other.count;
        }
    }
    return 0;
}

static ps_status compare(const ps_variable_spec *spec, const struct psi_parts *cut, uint64_t largest, uint64_t sum,
                         struct psi_err *err)
{
    const ps_shape first = psi_part_shape(cut, 0); /* no part is larger */
    const uint64_t part = bytes_of(spec, &first), all = bytes_of(spec, &cut->shape);
    if (part > largest) {
        const uint32_t fit = least_parts(spec, cut, largest);
        PSI_IGNORE(psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_TOO_LARGE,
                               "a part needs %" PRIu64 " bytes with its slots, and no task has a memory budget above %" PRIu64
                               " bytes (psd --memory_budget): ",
                               part, largest)); /* completed below */
        const size_t at = strlen(err->text);
        (void)snprintf(err->text + at, sizeof(err->text) - at, fit > 0 ? "%" PRIu32 " parts fit" : "no number of parts fits",
                       fit);
        return err->code;
    }
    return all <= sum
               ? PS_OK
               : psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_TOO_LARGE,
                             "it needs %" PRIu64 " bytes with its slots, and all tasks together have memory budgets of %" PRIu64
                             " bytes (psd --memory_budget): more tasks, or an optimizer with fewer slots, would fit",
                             all, sum);
}

/* Name of the directory's job, whose tasks hold the variables; NULL: not known. */
static const char *job_of_directory(const ps_task_info *infos, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (infos[i].directory) {
            return infos[i].job;
        }
    }
    return NULL;
}

ps_status psi_api_parts_fit(ps_session *s, const ps_variable_spec *spec, const struct psi_parts *cut, struct psi_err *err)
{
    struct psi_err unknown = {0};
    if (bytes_of(spec, &cut->shape) < ASKED_FROM_BYTES || psi_api_know_tasks(s, 0, &unknown) != PS_OK) {
        return PS_OK;
    }
    uint64_t largest = 0, sum = 0;
    ps_task_info *infos = psi_calloc((size_t)s->task_count + 1, sizeof(*infos));
    bool known = infos != NULL && psi_api_infos(s, false, infos, sizeof(*infos), (int)s->task_count, 0, &unknown) == PS_OK;
    const char *job = known ? job_of_directory(infos, s->task_count) : NULL;
    known = job != NULL;
    for (uint32_t i = 0; known && i < s->task_count; i++) {
        if (strcmp(infos[i].job, job) != 0) {
            continue; /* another job's tasks have only variables pinned to them: their budgets do not count */
        }
        known = infos[i].up && infos[i].budget_bytes > 0;
        largest = infos[i].budget_bytes > largest ? infos[i].budget_bytes : largest;
        sum = infos[i].budget_bytes > UINT64_MAX - sum ? UINT64_MAX : sum + infos[i].budget_bytes;
    }
    psi_free(infos);
    return known ? compare(spec, cut, largest, sum, err) : PS_OK;
}
