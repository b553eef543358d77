/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a task in a fake shell: they wait in t->calls until the test ends them. Happy path: effect CALL -> t->calls ->
 * shell_finish(). Aborts when the core breaks its contract.
 */
#include "fake_shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void broken(const char *what)
{
    (void)fprintf(stderr, "fake shell: %s\n", what);
    abort();
}

void shell_call_effect(struct shell_task *t, const struct psd_effect *e)
{
    struct shell_call *known = NULL;
    for (uint32_t i = 0; i < t->call_count; i++) {
        known = t->calls[i].id == e->call ? &t->calls[i] : known;
    }
    if (e->kind == PSD_EFFECT_CALL && known != NULL) {
        if (!known->early || known->cancelled) {
            broken("a call that is whole or cancelled becomes whole");
        }
        known->early = false;
        return;
    }
    if (e->kind != PSD_EFFECT_CALL_CANCEL) {
        if (known != NULL || t->call_count == SHELL_CALLS_MAX || e->call == 0 || e->call_out == NULL) {
            broken("a call without number or memory, or one too many");
        }
        t->calls[t->call_count++] = (struct shell_call){.id = e->call,
                                                        .row = e->call_row,
                                                        .in = e->call_in,
                                                        .in_bytes = e->call_in_bytes,
                                                        .out = e->call_out,
                                                        .out_bytes = e->call_out_bytes,
                                                        .early = e->kind == PSD_EFFECT_CALL_EARLY};
        return;
    }
    if (known != NULL) {
        if (known->cancelled) {
            broken("a call cancelled twice");
        }
        known->cancelled = true;
    }
}

void shell_finish(struct shell_task *t, uint32_t index, ps_status st, const void *out, size_t out_bytes, const char *error)
{
    if (index >= t->call_count || out_bytes > t->calls[index].out_bytes ||
        (t->calls[index].early && !t->calls[index].cancelled)) {
        broken("the test ends a call that there is not");
    }
    struct shell_call call = t->calls[index];
    memmove(&t->calls[index], &t->calls[index + 1], (t->call_count - index - 1) * sizeof(t->calls[0]));
    t->call_count--;
    if (out_bytes > 0) {
        memcpy(call.out, out, out_bytes);
    }
    psd_task_call_finished(t->core, call.id, st, PS_REASON_NONE, out_bytes, error);
    shell_settle(t);
    shell_run(t->net);
}
