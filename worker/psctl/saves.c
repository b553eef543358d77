/* SPDX-License-Identifier: Apache-2.0 */
/* A task's checkpoints as JSON: the newest, the one being made or loaded, the last failure, and when they are made. */
#include "psctl.h"

#include <string.h>

enum { MILLION = 1000000 };

#define FIELD(kind_, field_) CLI_FIELD(kind_, ps_saves_info, field_)

static const ps_saves_info *of(const void *row)
{
    return row;
}

static bool is_saved(const void *row)
{
    return of(row)->number != 0;
}

static bool has_step(const void *row)
{
    return is_saved(row) && of(row)->step >= 0;
}

static bool has_age(const void *row)
{
    return is_saved(row) && of(row)->age_ms >= 0;
}

static json_t *containers_value(const void *row)
{
    const ps_saves_info *s = row;
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->container_count; i++) {
        json_t *one = json_pack("{s:o}", "container", cli_json_text(s->containers[i].container));
        if (s->containers[i].step >= 0) {
            (void)json_object_set_new(one, "step", json_integer(s->containers[i].step));
        }
        (void)json_array_append_new(list, one);
    }
    return list;
}

static json_t *attempt(uint64_t number, uint32_t tasks, uint32_t done, uint32_t share)
{
    return json_pack("{s:I, s:I, s:I, s:f}", "number", (json_int_t)number, "tasks", (json_int_t)tasks, "done", (json_int_t)done,
                     "share", (double)share / MILLION);
}

static json_t *making_value(const void *row)
{
    const ps_saves_info *s = row;
    if (s->makes == 0) {
        return NULL;
    }
    json_t *value = attempt(s->makes, s->make_tasks, s->make_done, s->make_share);
    (void)json_object_set_new(value, "milliseconds", json_integer((json_int_t)s->make_ms));
    (void)json_object_set_new(value, "decided", json_boolean(s->decided));
    return value;
}

static json_t *loading_value(const void *row)
{
    const ps_saves_info *s = row;
    return s->loads == 0 ? NULL : attempt(s->loads, s->load_tasks, s->load_done, s->load_share);
}

static json_t *failed_value(const void *row)
{
    const ps_saves_info *s = row;
    if (s->failed_age_ms < 0) {
        return NULL;
    }
    json_t *value = psctl_error_value(s->failed_status, s->failed_reason, s->failed);
    (void)json_object_set_new(value, "age_ms", json_integer(s->failed_age_ms));
    if (s->failed_number != 0) {
        (void)json_object_set_new(value, "number", json_integer((json_int_t)s->failed_number));
    }
    return value;
}

static const struct cli_column columns[] = {
    {NULL, "number", FIELD(CLI_U64, number), .has = is_saved},
    {NULL, "whole", FIELD(CLI_BOOL, whole), .has = is_saved},
    {NULL, "step", FIELD(CLI_I64, step), .has = has_step},
    {NULL, "age_ms", FIELD(CLI_I64, age_ms), .has = has_age},
    {NULL, "milliseconds", FIELD(CLI_U64, took_ms), .has = is_saved},
    {NULL, "bytes", FIELD(CLI_U64, bytes), .has = is_saved},
    {NULL, "containers", CLI_OTHER, .has = is_saved, .value = containers_value},
    {NULL, "more_containers", FIELD(CLI_BOOL, more_containers), .has = is_saved},
    {NULL, "making", CLI_OTHER, .value = making_value},
    {NULL, "loading", CLI_OTHER, .value = loading_value},
    {NULL, "awaits_reset", FIELD(CLI_BOOL, awaits_reset)},
    {NULL, "failed_attempts", FIELD(CLI_U64, failed_attempts)},
    {NULL, "failed", CLI_OTHER, .value = failed_value},
    {NULL, "every_seconds", FIELD(CLI_U32, every_seconds)},
    {NULL, "every_steps", FIELD(CLI_U32, every_steps)},
};

json_t *psctl_saves_value(const ps_saves_info *saves)
{
    return saves->known ? cli_row(columns, CLI_COUNT(columns), saves) : NULL;
}
