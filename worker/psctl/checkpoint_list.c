/* SPDX-License-Identifier: Apache-2.0 */
/* psctl checkpoint list: all checkpoints, the checkpoint that is being made or loaded, and the last attempt if it failed. Exit 1:
 * the directory (first ps task) is down; a task cannot load its checkpoint, so nobody knows what is saved; the attempt failed. */
#include "psctl.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { PERCENT = 10000 };

static const ps_checkpoint_info *of(const void *row)
{
    return row;
}

static const char *state_text(const void *row)
{
    static const char *const states[] = {"", "saved", "writing", "in part", "unusable", "failed"};
    return states[of(row)->state];
}

static const char *state_cell(const void *row, char *buf, size_t n)
{
    const ps_checkpoint_info *c = row;
    size_t used = (size_t)snprintf(buf, n, "%s", state_text(row));
    if (c->state == PS_CHECKPOINT_WRITING || c->state == PS_CHECKPOINT_IN_PART) {
        used += (size_t)snprintf(buf + used, n - used, ", %" PRIu32 " of %" PRIu32 " tasks", c->done, c->tasks);
    }
    if (c->share >= 0) {
        (void)snprintf(buf + used, n - used, ", %s%d %%", c->state == PS_CHECKPOINT_WRITING ? "" : "restored ",
                       c->share / PERCENT);
    }
    return buf;
}

static bool has_share(const void *row)
{
    return of(row)->share >= 0;
}

static json_t *share_value(const void *row)
{
    return json_real(of(row)->share / (100.0 * PERCENT));
}

static json_t *state_value(const void *row)
{
    return json_string(state_text(row));
}

static bool has_number(const void *row)
{
    return of(row)->number != 0;
}

static bool has_step(const void *row)
{
    return of(row)->step >= 0;
}

static bool has_time(const void *row)
{
    return of(row)->time_ms != 0;
}

static bool has_files(const void *row)
{
    return of(row)->bytes != 0 || of(row)->state == PS_CHECKPOINT_WRITING;
}

static bool has_text(const void *row)
{
    return of(row)->text[0] != '\0';
}

static const char *time_cell(const void *row, char *buf, size_t n)
{
    time_t at = (time_t)(of(row)->time_ms / 1000);
    struct tm tm;
    bool good = localtime_r(&at, &tm) != NULL && strftime(buf, n, "%Y-%m-%d %H:%M:%S", &tm) > 0;
    return good ? buf : "-";
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, ps_checkpoint_info, field_)
static const struct cli_column columns[] = {
    {"NUMBER", "number", FIELD(CLI_U64, number), .has = has_number},
    {"STATE", "state", CLI_OTHER, .cell = state_cell, .value = state_value},
    {"STEP", "step", FIELD(CLI_I64, step), .has = has_step},
    {"BEGUN", "time_ms", FIELD(CLI_U64, time_ms), .has = has_time, .cell = time_cell},
    {"SIZE", "bytes", FIELD(CLI_BYTES, bytes), .has = has_files},
    {"TOOK", "milliseconds", FIELD(CLI_TIME, milliseconds), .has = has_files},
    {NULL, "tasks", FIELD(CLI_U32, tasks)},
    {NULL, "done", FIELD(CLI_U32, done)},
    {NULL, "share", CLI_OTHER, .has = has_share, .value = share_value},
    {NULL, "why", FIELD(CLI_TEXT, text), .has = has_text},
};

struct listing {
    struct psctl_list list;
    bool unusable;
    bool failed;
};

static void each(void *ctx, const ps_checkpoint_info *info)
{
    struct listing *l = ctx;
    cli_list_add(&l->list.rows, info);
    l->unusable = l->unusable || info->state == PS_CHECKPOINT_UNUSABLE;
    l->failed = l->failed || info->state == PS_CHECKPOINT_FAILED;
}

static void each_unusable(void *ctx, const ps_checkpoint_info *info)
{
    if (info->state == PS_CHECKPOINT_UNUSABLE) {
        psctl_note(ctx, "checkpoint %" PRIu64 " cannot be used: %s", info->number, info->text);
    } else if (info->state == PS_CHECKPOINT_FAILED) {
        psctl_note(ctx, "the last attempt is no checkpoint: %s", info->text);
    }
}

/* True if the task waits to load its checkpoint (not for other tasks), or is of an older release, which tells no reason. */
static bool does_not_begin(const ps_task_info *info)
{
    return info->up && info->waiting_for[0] != '\0' && info->waiting != PS_WAITING_TASKS;
}

/* Index of a task for which does_not_begin() is true: the directory task if it is one of them; -1: no such task. */
static int who_waits(const struct psctl *c)
{
    int directory = psctl_directory(c);
    int who = directory >= 0 && does_not_begin(&c->infos[directory]) ? directory : -1;
    for (int i = 0; who < 0 && i < c->task_count; i++) {
        who = does_not_begin(&c->infos[i]) ? i : -1;
    }
    return who;
}

const char *psctl_not_heard(const struct psctl *c, int directory, psctl_waiting_text text)
{
    const ps_task_info *info = &c->infos[directory];
    bool waits = info->waiting_for[0] != '\0' && (info->waiting == PS_WAITING_TASKS || info->waiting == PS_WAITING_UNSAID);
    return waits ? psctl_waiting_for(info, text) : NULL;
}

enum psctl_exit psctl_checkpoint_list(struct psctl *c)
{
    struct listing listing = {.unusable = false};
    struct psctl_list *l = &listing.list;
    int directory = psctl_directory(c);
    if (directory < 0) {
        psctl_error(c, PS_UNAVAILABLE, "the directory does not answer");
        return PSCTL_FAILED;
    }
    if (!psctl_list_begin(l, c, ps_cluster_task_name(c->session, directory), "checkpoints", columns, CLI_COUNT(columns))) {
        return PSCTL_USAGE;
    }
    int waits = who_waits(c);
    l->none = waits < 0 ? "nothing is saved" : "no checkpoint is known";
    while (psctl_list_next(l)) {
        (void)psctl_heard(c, l->task, ps_checkpoints(c->session, psctl_left_ms(c), each, &listing));
    }
    enum psctl_exit code = psctl_list_end(l);
    if ((listing.unusable || listing.failed) && !c->json) {
        (void)ps_checkpoints(c->session, psctl_left_ms(c), each_unusable, c);
    }
    if (l->rows.count > 0 || waits < 0) {
        return listing.failed && code == PSCTL_OK ? PSCTL_FAILED : code;
    }
    psctl_waiting_text text;
    psctl_note(c, "%s waits for %s", ps_cluster_task_name(c->session, waits), psctl_waiting_for(&c->infos[waits], text));
    return PSCTL_FAILED;
}
