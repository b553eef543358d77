/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the values that steps report to the log.
 *
 * Happy path: on_step() stores each step's values, in place of older ones of the same name. At the end of an interval one line
 * has all values that were reported since the last line, also those that only some steps report. Failure mode: no room for
 * another name: a line is written at once.
 */
#include "hooks.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

struct logging {
    struct psi_every every;
    struct psi_kept kept;
    uint32_t count; /* number of names; 0: all */
    char names[PS_STEP_VALUES_MAX][PS_STEP_NAME_BYTES_MAX + 1];
};

static bool wanted(const struct logging *h, const char *name)
{
    uint32_t i = 0;
    while (i < h->count && strcmp(h->names[i], name) != 0) {
        i++;
    }
    return h->count == 0 || i < h->count;
}

static void line(struct logging *h, ps_session *s, int64_t step)
{
    struct psi_kv kv[1 + PS_STEP_VALUES_MAX] = {PSI_KV("global_step", step)};
    char texts[PS_STEP_VALUES_MAX][32];
    for (uint32_t i = 0; i < h->kept.count; i++) {
        kv[1 + i] = PSI_KV(h->kept.of[i].name, psi_api_value_text(texts[i], h->kept.of[i].value));
    }
    if (h->kept.count > 0) {
        psi_api_log_fields(s, PS_LOG_INFO, "step_values", kv, 1 + h->kept.count);
    }
    h->kept.count = 0;
}

static ps_status on_step(void *ctx, ps_session *s, const ps_step_values *values)
{
    struct logging *h = ctx;
    for (uint32_t i = 0; i < values->count; i++) {
        if (wanted(h, values->names[i]) &&
            !psi_kept_take(&h->kept, values->names[i], values->values[i], values->global_step, 0)) {
            line(h, s, values->global_step);
            /* cannot fail, because line() has removed all names */
            PSI_IGNORE(psi_kept_take(&h->kept, values->names[i], values->values[i], values->global_step, 0));
        }
    }
    if (h->kept.count > 0 && psi_every_due(&h->every, values->global_step, psi_io_now_ms())) {
        line(h, s, values->global_step);
    }
    return PS_OK;
}

static ps_status names_copy(struct logging *h, const char *const *names, uint32_t count, struct psi_err *err)
{
    if (count > PS_STEP_VALUES_MAX || (count > 0 && names == NULL)) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        count > PS_STEP_VALUES_MAX ? "count: %u names; %d is the most" : "names is NULL", count,
                        PS_STEP_VALUES_MAX);
    }
    for (; h->count < count; h->count++) {
        const char *name = names[h->count] == NULL ? "" : names[h->count];
        const ps_status st = psi_value_name_check(name, strlen(name), err);
        if (st != PS_OK) {
            return st;
        }
        (void)snprintf(h->names[h->count], sizeof(h->names[0]), "%s", name);
    }
    return PS_OK;
}

ps_status ps_add_logging_hook(ps_session *s, const char *const *names, uint32_t count, int64_t every_steps, double every_seconds)
{
    static const struct psi_hook hook = {.name = "logging", .hook = {.after_run = on_step}};
    struct psi_err err = {0};
    struct logging *h = psi_calloc(1, sizeof(*h));
    if (h == NULL) {
        (void)psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for a hook");
    } else if (psi_every_init(&h->every, every_steps, every_seconds, &err) == PS_OK) {
        PSI_IGNORE(names_copy(h, names, count, &err)); /* psi_hooks_add() reports err */
    }
    const ps_status st = psi_hooks_add(s, &hook, h, sizeof(*h), "ps_add_logging_hook", &err);
    psi_free(h);
    return st;
}
