/* SPDX-License-Identifier: Apache-2.0 */
/* How far checkpoints are, for the answer to INFO: as fields for programs, and as a text for people.
 *
 * Happy path: a message gets what the directory knows of the newest checkpoint, of the attempt and of the last failure. The text
 * is made from that message, so both agree. Failure: none; what does not fit is cut. */
#include "saver.h"
#include "loader.h"

#include "common/manifest.h"

#include <stdarg.h>
#include <stdio.h>

enum { PERCENT = 10000 /* units of a share (millionths) per percent */ };

/* Put each container of c, with its highest step, into *out. The manifest has one file of values per task and container. */
static void put_containers(const struct psd_checkpoint *c, ps_v1_SavesState *out)
{
    struct psi_items walk = psi_manifest_files(&c->manifest);
    ps_v1_FileItem file;
    while (psi_manifest_next(&walk, &file)) {
        if (file.kind != PS_FILE_VALUES) {
            continue;
        }
        pb_size_t i = 0;
        while (i < out->containers_count &&
               (out->containers[i].container.size != file.container.size ||
                memcmp(out->containers[i].container.bytes, file.container.bytes, file.container.size) != 0)) {
            i++;
        }
        if (i == sizeof(out->containers) / sizeof(out->containers[0])) {
            out->more_containers = true;
            continue;
        }
        out->containers_count = i == out->containers_count ? (pb_size_t)(i + 1) : out->containers_count;
        memcpy(&out->containers[i].container, &file.container, sizeof(file.container));
        out->containers[i].step = file.step > out->containers[i].step ? file.step : out->containers[i].step;
    }
}

static void put_newest(const struct psd_task *t, ps_v1_SavesState *out)
{
    uint64_t whole = psd_saver_newest(t), maybe = psd_saver_newest_maybe(t);
    const struct psd_checkpoint *c = psd_saver_known(t, whole != 0 ? whole : maybe);
    if (c == NULL) {
        return;
    }
    const uint64_t now = t->config.unix_ms + (t->now_ms - t->started_ms);
    const bool dated = c->what.time_ms != 0 && t->config.unix_ms != 0 && now >= c->what.time_ms;
    out->number = c->what.number;
    out->whole = whole != 0;
    out->step = c->what.step;
    out->age_ms = dated ? now - c->what.time_ms + 1 : 0;
    out->took_ms = c->what.milliseconds;
    out->bytes = c->what.bytes;
    put_containers(c, out);
}

static void put_attempt(const struct psd_task *t, ps_v1_SavesState *out)
{
    const struct psd_saver *s = t->saver;
    if (t->loader->phase == PSD_LOADER_LOADING) {
        out->loads = t->loader->number;
        psd_loader_count(t, &out->load_tasks, &out->load_done, &out->load_share);
    }
    if (s->phase > PSD_SAVER_LOOKING) {
        out->makes = s->what.number;
        out->make_tasks = s->what.task_count;
        out->make_done = psd_saver_count(t, &out->make_share);
        out->make_ms = t->now_ms - s->begun_ms;
        out->decided = s->phase == PSD_SAVER_TELLING;
    }
    out->awaits_reset = (s->want != PSD_SAVER_NOT_WANTED || !psi_list_empty(&s->asked)) && psd_saver_in_reset(t);
}

static void put_failure(const struct psd_task *t, ps_v1_SavesState *out)
{
    const struct psd_saver *s = t->saver;
    if (s->failed_ms == 0) {
        return;
    }
    out->failed_attempts = s->failed_count;
    out->failed_number = s->failed_number;
    out->failed_age_ms = t->now_ms - s->failed_ms + 1;
    out->failed_status = (uint32_t)s->failed_err.code;
    out->failed_reason = (uint32_t)s->failed_err.reason;
    PSI_IGNORE(PSI_BYTES_SET(out->failed, s->failed_err.text)); /* cut is fine */
}

bool psd_saver_state(const struct psd_task *t, ps_v1_SavesState *out)
{
    *out = (ps_v1_SavesState)ps_v1_SavesState_init_zero;
    if (t->saver == NULL) {
        return false;
    }
    put_newest(t, out);
    put_attempt(t, out);
    put_failure(t, out);
    out->every_seconds = t->config.checkpoint_seconds;
    out->every_steps = t->config.checkpoint_steps;
    return true;
}

struct text {
    char *buf;
    size_t n, used;
};

static void add_text(struct text *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_text(struct text *x, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(x->buf + x->used, x->n - x->used, format, ap);
    va_end(ap);
    x->used = n > 0 && (size_t)n < x->n - x->used ? x->used + (size_t)n : x->n - 1; /* cut is fine */
}

static void add_newest(struct text *x, const ps_v1_SavesState *s)
{
    if (s->number == 0) {
        add_text(x, "none is saved");
        return;
    }
    add_text(x, "%llu is saved%s", (unsigned long long)s->number, s->whole ? "" : ", where tasks that are away have it");
    if (s->step != 0) {
        add_text(x, ", step %llu", (unsigned long long)s->step - 1);
    }
    if (s->age_ms != 0) {
        add_text(x, ", begun %llu s ago", (unsigned long long)(s->age_ms - 1) / 1000);
    }
    add_text(x, ", took %llu ms", (unsigned long long)s->took_ms);
}

static void add_attempt(struct text *x, const ps_v1_SavesState *s)
{
    if (s->loads != 0) {
        add_text(x, "; %llu is loaded, %u of %u tasks, %u %%", (unsigned long long)s->loads, s->load_done, s->load_tasks,
                 s->load_share / PERCENT);
    }
    if (s->makes != 0) {
        add_text(x, "; %llu is %s for %llu ms, %u of %u tasks, %u %%", (unsigned long long)s->makes,
                 s->decided ? "decided, and told" : "written", (unsigned long long)s->make_ms, s->make_done, s->make_tasks,
                 s->make_share / PERCENT);
    }
    if (s->awaits_reset) {
        add_text(x, "; one waits for the end of a reset");
    }
}

void psd_saver_text(const struct psd_task *t, const ps_v1_SavesState *s, char *buf, size_t n)
{
    struct text x = {.buf = buf, .n = n};
    buf[0] = '\0';
    add_newest(&x, s);
    add_attempt(&x, s);
    if (s->failed_age_ms != 0) {
        add_text(&x, "; %llu s ago %s", (unsigned long long)(s->failed_age_ms - 1) / 1000, t->saver->failed);
    }
    if (s->failed_attempts > 1) {
        add_text(&x, "; %llu attempts have failed since the last one that is saved", (unsigned long long)s->failed_attempts);
    }
    add_text(&x, s->every_seconds == 0 && s->every_steps == 0 ? "; on demand" : "; one");
    if (s->every_seconds != 0) {
        add_text(&x, " every %u s", s->every_seconds);
    }
    if (s->every_steps != 0) {
        add_text(&x, "%s every %u steps", s->every_seconds != 0 ? " and" : "", s->every_steps);
    }
}
