/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Summaries: the values of steps, in event files for TensorBoard. Only the chief's session writes.
 *
 * Happy path: when the chief becomes ready, on_created() makes a file with a record of the first step. on_step() stores each
 * step's values, in place of older ones of the same name. At the end of each interval it writes the stored values, with their
 * steps, and what the tasks have counted. The rest is written when the session ends, also after an error. Failure modes: if the
 * first on_created() cannot make a file, the session fails; a later failure is one line in the log, and ends the summaries.
 */
#include "hooks.h"

#include "common/mem.h"
#include "counted.h"
#include "events.h"

#include <string.h>
#include <time.h>

_Static_assert(sizeof(((psi_events_Value *)0)->tag) >= PS_STEP_NAME_BYTES_MAX + 1, "names fit");
_Static_assert(sizeof(((psi_events_Summary *)0)->value) / sizeof(psi_events_Value) >= PS_STEP_VALUES_MAX, "what is kept fits");

/* Values that the hook adds, unless the program reports them itself. */
enum own { RATE, STEPS, AGE, LEAD, OWN_COUNT };
static const char *const own_names[OWN_COUNT] = {
    [RATE] = "learning_rate", [STEPS] = "global_step/sec", [AGE] = "age", [LEAD] = "lead"};

struct summary {
    char dir[PSI_EVENTS_DIR_BYTES_MAX + 1];
    struct psi_every every;
    struct psi_kept kept;
    struct psi_events events;
    bool begun, lost;       /* begun: on_created() was called before; lost: a write has failed, so no more summaries are made */
    bool theirs[OWN_COUNT]; /* the program reports the value itself */
    struct psi_counted ages, leads;
    int64_t at_step; /* global step of the last write; 0: nothing was written */
    double at_s;
};

static uint64_t wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static ps_status put_step(struct summary *h, int64_t step, struct psi_err *err)
{
    psi_events_Event event = {.step = step, .which_what = psi_events_Event_summary_tag};
    psi_events_Summary *summary = &event.what.summary;
    for (uint32_t i = 0; i < h->kept.count; i++) {
        const struct psi_kept_value *kept = &h->kept.of[i];
        if (kept->step == step) {
            psi_events_Value *value = &summary->value[summary->value_count++];
            memcpy(value->tag, kept->name, sizeof(kept->name));
            value->which_value = psi_events_Value_simple_value_tag;
            value->value.simple_value = (float)kept->value;
            event.wall_time = (double)kept->time_ms / 1000;
        }
    }
    return psi_events_put(&h->events, &event, err);
}

static ps_status put_kept(struct summary *h, struct psi_err *err)
{
    ps_status st = PS_OK;
    uint32_t left = h->kept.count;
    for (int64_t after = INT64_MIN; st == PS_OK && left > 0;) {
        int64_t step = INT64_MAX;
        uint32_t of_step = 0;
        for (uint32_t i = 0; i < h->kept.count; i++) {
            const int64_t of = h->kept.of[i].step;
            of_step = of > after && of < step ? 0 : of_step;
            step = of > after && of < step ? of : step;
            of_step += of == step ? 1 : 0;
        }
        st = put_step(h, step, err);
        after = step;
        left -= of_step;
    }
    h->kept.count = 0;
    return st;
}

static ps_status keep(struct summary *h, const char *name, double value, int64_t step, struct psi_err *err)
{
    const uint64_t now_ms = wall_ms();
    if (psi_kept_take(&h->kept, name, value, step, now_ms)) {
        return PS_OK;
    }
    const ps_status st = h->events.open ? put_kept(h, err) : PS_OK; /* only the chief has a file */
    h->kept.count = 0;
    return st != PS_OK || psi_kept_take(&h->kept, name, value, step, now_ms) ? st : PS_INTERNAL;
}

static ps_status keep_values(struct summary *h, const ps_step_values *values, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (uint32_t i = 0; st == PS_OK && i < values->count; i++) {
        for (int own = 0; own < OWN_COUNT; own++) {
            h->theirs[own] = h->theirs[own] || strcmp(values->names[i], own_names[own]) == 0;
        }
        st = keep(h, values->names[i], values->values[i], values->global_step, err);
    }
    return st;
}

static bool own_value(struct summary *h, ps_session *s, enum own own, int64_t step, double now_s, double *out)
{
    switch (own) {
    case RATE:
        return psi_counted_rate(s, out);
    case STEPS:
        *out = (double)(step - h->at_step) / (now_s - h->at_s);
        return h->at_step > 0 && step > h->at_step && now_s > h->at_s;
    case AGE:
        return psi_counted_age(s, &h->ages, out);
    case LEAD:
        return psi_counted_lead(s, &h->leads, out);
    case OWN_COUNT:
        break;
    }
    return false;
}

/* Store the hook's own values (enum own), except those that the program itself reports, and write all stored values. */
static ps_status write_step(struct summary *h, ps_session *s, int64_t step, struct psi_err *err)
{
    const double now_s = psi_every_seconds_now();
    ps_status st = PS_OK;
    for (int own = 0; st == PS_OK && own < OWN_COUNT; own++) {
        double value = 0;
        if (!h->theirs[own] && own_value(h, s, (enum own)own, step, now_s, &value)) {
            st = keep(h, own_names[own], value, step, err);
        }
    }
    h->at_step = step;
    h->at_s = now_s;
    st = st == PS_OK ? put_kept(h, err) : st;
    return st == PS_OK ? psi_events_flush(&h->events, err) : st;
}

/* After a failed write: log the error, and make no more summaries. Returns PS_OK, because training goes on. */
static ps_status lost(struct summary *h, ps_session *s, const struct psi_err *err)
{
    h->lost = true;
    psi_events_close(&h->events);
    psi_api_log(s, PS_LOG_WARN, "summaries_lost", PSI_KV("st", ps_status_name(err->code)), PSI_KV("msg", err->text));
    return PS_OK;
}

/* Make a file, unless one is open, and write a record that says that values begin at step + 1. Only for the chief. */
static ps_status start(struct summary *h, int64_t step, struct psi_err *err)
{
    const uint64_t now_ms = wall_ms();
    psi_events_Event event = {.wall_time = (double)now_ms / 1000,
                              .step = step + 1,
                              .which_what = psi_events_Event_session_log_tag,
                              .what.session_log = {.status = 1}};
    ps_status st = h->events.open ? PS_OK : psi_events_open(&h->events, h->dir, now_ms, err);
    st = st == PS_OK ? psi_events_put(&h->events, &event, err) : st;
    return st == PS_OK ? psi_events_flush(&h->events, err) : st;
}

static ps_status on_created(void *ctx, ps_session *s)
{
    struct summary *h = ctx;
    struct psi_err err = {0};
    const bool first = !h->begun;
    h->begun = true;
    h->at_step = 0;
    if (h->lost || !ps_is_chief(s) || start(h, ps_global_step(s), &err) == PS_OK) {
        return PS_OK;
    }
    return first ? psi_api_stick_final(s, &err) : lost(h, s, &err);
}

/* Store the values of a step. At the end of an interval write all stored values, or drop them if the session is not the chief. */
static ps_status on_step(void *ctx, ps_session *s, const ps_step_values *values)
{
    struct summary *h = ctx;
    struct psi_err err = {0};
    ps_status st = h->lost ? PS_OK : keep_values(h, values, &err);
    if (h->lost || (st == PS_OK && !psi_every_due(&h->every, values->global_step, psi_io_now_ms()))) {
        return PS_OK;
    }
    if (!ps_is_chief(s)) { /* the chief's session writes */
        h->kept.count = 0;
        h->at_step = 0;
        psi_events_close(&h->events);
        return PS_OK;
    }
    st = st == PS_OK && !h->events.open ? start(h, values->global_step - 1, &err) : st;
    st = st == PS_OK ? write_step(h, s, values->global_step, &err) : st;
    return st == PS_OK ? PS_OK : lost(h, s, &err);
}

/* Write the values that on_step() has stored, and those that the program has reported after its last step. */
static ps_status on_end(void *ctx, ps_session *s)
{
    struct summary *h = ctx;
    struct psi_err err = {0};
    const ps_step_values left = psi_api_values(s);
    if (!h->events.open) {
        return PS_OK;
    }
    ps_status st = keep_values(h, &left, &err);
    st = st == PS_OK ? put_kept(h, &err) : st;
    st = st == PS_OK ? psi_events_flush(&h->events, &err) : st;
    return st == PS_OK ? PS_OK : lost(h, s, &err);
}

static void release(void *ctx)
{
    struct summary *h = ctx;
    struct psi_err err = {0};
    if (h->events.open && put_kept(h, &err) == PS_OK) { /* on_end() is not called if the session has failed */
        PSI_IGNORE(psi_events_flush(&h->events, &err)); /* no caller is left to get an error */
    }
    psi_events_close(&h->events);
    psi_free(h);
}

ps_status ps_add_summary_hook(ps_session *s, const char *dir, int64_t every_steps)
{
    static const struct psi_hook hook = {
        .name = "summary", .hook = {.after_create_session = on_created, .after_run = on_step, .end = on_end}, .release = release};
    struct psi_err err = {0};
    struct summary *h = psi_calloc(1, sizeof(*h));
    if (h == NULL) {
        (void)psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for a hook");
    } else if (dir == NULL || dir[0] == '\0' || strlen(dir) > PSI_EVENTS_DIR_BYTES_MAX) {
        (void)psi_fail(&err, PS_INVALID_ARGUMENT, "dir: the name is %s",
                       dir == NULL || dir[0] == '\0' ? "missing" : "longer than 3800 bytes");
    } else if (psi_every_init(&h->every, every_steps, 0, &err) == PS_OK) {
        memcpy(h->dir, dir, strlen(dir) + 1);
    }
    const ps_status st = psi_hooks_add(s, &hook, h, sizeof(*h), "ps_add_summary_hook", &err);
    psi_free(h);
    return st;
}
