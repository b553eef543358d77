/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how far training is. Errors of standard output are ignored here: main.c finds them at the end. */
#include "progress.h"

#include "common/cli/text.h"
#include "say.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { BAR_EVERY_MS = 100, LINE_EVERY_MS = 3000, BAR_CELLS = 20 };

static void show(struct progress *p, const struct progress_now *now, bool as_line)
{
    char bar[BAR_CELLS + 16] = "";
    char epochs[48] = "";
    char dropped[48] = "", accuracy[32] = "";
    double part = now->goal > 0 ? (double)now->done / (double)now->goal : 0;
    part = part > 1 ? 1 : part;
    double seconds = (double)(cli_clock_ms() - p->start_ms + 1) / 1000; /* + 1: a rate is divided by it, so it must not be 0 */
    double rate = (double)(p->samples + now->others_samples) / seconds;
    if (!as_line) {
        char cells[BAR_CELLS + 1];
        (void)snprintf(bar, sizeof(bar), "[%s] %3d%%  ", cli_bar(part, BAR_CELLS, '=', ' ', cells), (int)(part * 100));
    }
    if (now->epochs > 0) {
        (void)snprintf(epochs, sizeof(epochs), "epoch %" PRId64 "/%" PRId64 "  ", now->epoch, now->epochs);
    } else {
        (void)snprintf(epochs, sizeof(epochs), "epoch %" PRId64 "  ", now->epoch);
    }
    if (now->dropped > 0) {
        (void)snprintf(dropped, sizeof(dropped), "  %" PRId64 " dropped", now->dropped);
    }
    if (!isnan(now->accuracy)) {
        (void)snprintf(accuracy, sizeof(accuracy), "  accuracy %.3f", now->accuracy);
    }
    (void)printf("%s%s%sglobal_step %" PRId64 "  loss %.4f%s  %.*f samples/s%s%s%s", p->bar ? "\r" : "", bar, epochs,
                 now->global_step, now->loss, accuracy, rate < 10 ? 1 : 0, rate, dropped, p->bar ? "\033[K" : "",
                 as_line ? "\n" : "");
    (void)fflush(stdout);
    p->shown = !as_line;
}

void progress_start(struct progress *p, bool bar, bool quiet)
{
    *p = (struct progress){.bar = bar, .quiet = quiet, .start_ms = cli_clock_ms()};
    p->next_ms = p->start_ms + (bar ? BAR_EVERY_MS : LINE_EVERY_MS);
}

void progress_step(struct progress *p, const struct progress_now *now, int64_t samples)
{
    p->samples += samples;
    if (p->quiet || cli_clock_ms() < p->next_ms) {
        return;
    }
    show(p, now, !p->bar);
    p->next_ms = cli_clock_ms() + (p->bar ? BAR_EVERY_MS : LINE_EVERY_MS);
}

void progress_end(struct progress *p, const struct progress_now *now)
{
    if (!p->quiet && p->samples > 0) {
        show(p, now, true);
    }
}
