/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round robin as TensorFlow 1.15's device_setter.py with merge_devices=True: the strategy runs (and advances) unless the
 * pin names another job, and then the pin's fields win. Device strings as device_spec.py and device_name_utils.cc, as far
 * as variables need them. Failure: a pin that cannot be met; the counter stays then.
 */
#include "placement.h"

#include "cluster.h"
#include "name.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* One "/key:value" segment; key or value may be empty. */
struct segment {
    const char *key, *value;
    size_t key_len, value_len;
    bool has_value;
};

static ps_status refuse(const char *text, ps_status st, const char *why, struct psi_err *err)
{
    char quoted[PSI_QUOTE_MAX];
    return psi_fail(err, st, "device %s: %s; allowed is /job:NAME/task:N with an optional /device:CPU:0",
                    psi_quote(quoted, sizeof(quoted), text, strlen(text)), why);
}

static bool is(const char *what, const char *p, size_t len)
{
    return strlen(what) == len && memcmp(what, p, len) == 0;
}

static bool is_any_case(const char *what, const char *p, size_t len)
{
    return strlen(what) == len && strncasecmp(what, p, len) == 0;
}

static bool parse_task(const char *p, size_t len, uint32_t *out)
{
    uint32_t v = 0;
    if (len == 0 || len > 5) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return false;
        }
        v = v * 10 + (uint32_t)(p[i] - '0');
    }
    *out = v;
    return v < PS_TASKS_MAX;
}

static struct segment next_segment(const char **text)
{
    const char *p = *text + 1; /* behind the '/' */
    size_t len = strcspn(p, "/");
    const char *colon = memchr(p, ':', len);
    struct segment s = {.key = p, .key_len = len, .value = p + len};
    if (colon != NULL) {
        s.has_value = true;
        s.key_len = (size_t)(colon - p);
        s.value = colon + 1;
        s.value_len = len - s.key_len - 1;
    }
    *text = p + len;
    return s;
}

/* CPU:0 in its spellings; value is what follows "device:", or the index of "/cpu:0". */
static bool is_cpu0(const char *value, size_t len, bool legacy)
{
    if (legacy) {
        return len == 0 || is("0", value, len) || is("*", value, len);
    }
    return is_any_case("cpu:0", value, len) || is_any_case("cpu", value, len) || is_any_case("cpu:*", value, len);
}

ps_status psi_pin_parse(const char *text, struct psi_pin *out, struct psi_err *err)
{
    struct psi_pin pin = {0};
    bool seen_job = false;
    bool seen_task = false;
    bool seen_device = false;
    if (text[0] == '\0' || strcmp(text, "/") == 0) {
        *out = pin;
        return PS_OK;
    }
    const char *p = text;
    while (*p != '\0') {
        if (*p != '/') {
            return refuse(text, PS_INVALID_ARGUMENT, "does not begin with '/'", err);
        }
        struct segment s = next_segment(&p);
        bool legacy = is_any_case("cpu", s.key, s.key_len);
        if (is("job", s.key, s.key_len) && s.has_value) {
            if (seen_job) {
                return refuse(text, PS_INVALID_ARGUMENT, "has two jobs", err);
            }
            seen_job = true;
            if (!is("*", s.value, s.value_len)) {
                ps_status st = psi_job_name_check(s.value, s.value_len, err);
                if (st != PS_OK) {
                    char quoted[PSI_QUOTE_MAX];
                    psi_err_prefix(err, "device %s", psi_quote(quoted, sizeof(quoted), text, strlen(text)));
                    return st;
                }
                pin.has_job = true;
                memcpy(pin.job, s.value, s.value_len);
            }
        } else if (is("task", s.key, s.key_len) && s.has_value) {
            if (seen_task) {
                return refuse(text, PS_INVALID_ARGUMENT, "has two tasks", err);
            }
            seen_task = true;
            if (!is("*", s.value, s.value_len)) {
                if (!parse_task(s.value, s.value_len, &pin.task)) {
                    return refuse(text, PS_INVALID_ARGUMENT, "its task is not a number below 1024", err);
                }
                pin.has_task = true;
            }
        } else if (legacy || (is("device", s.key, s.key_len) && s.has_value)) {
            if (seen_device) {
                return refuse(text, PS_INVALID_ARGUMENT, "has two devices", err);
            }
            seen_device = true;
            if (legacy && s.has_value && s.value_len == 0) {
                return refuse(text, PS_INVALID_ARGUMENT, "its device has no number", err);
            }
            if (!is_cpu0(s.value, s.value_len, legacy)) {
                return refuse(text, PS_UNIMPLEMENTED, "variables live on CPU:0 only", err);
            }
        } else if (is_any_case("gpu", s.key, s.key_len)) {
            return refuse(text, PS_UNIMPLEMENTED, "variables live on CPU:0 only", err);
        } else if (is("replica", s.key, s.key_len)) {
            return refuse(text, PS_UNIMPLEMENTED, "replicas are not supported", err);
        } else {
            return refuse(text, PS_INVALID_ARGUMENT, "has a part that is not a job, task or device", err);
        }
    }
    *out = pin;
    return PS_OK;
}
_Static_assert(PS_TASKS_MAX == 1024, "psi_pin_parse names it");

void psi_placement_init(struct psi_placement *p, const char *ps_job, uint32_t ps_tasks)
{
    *p = (struct psi_placement){.ps_tasks = ps_tasks};
    PSI_ASSERT(strlen(ps_job) < sizeof(p->ps_job));
    memcpy(p->ps_job, ps_job, strlen(ps_job) + 1);
}

ps_status psi_placement_place(struct psi_placement *p, const struct psi_pin *pin, struct psi_place *out, struct psi_err *err)
{
    struct psi_place place = {0};
    if (pin != NULL && pin->has_job && strcmp(pin->job, p->ps_job) != 0) {
        memcpy(place.job, pin->job, sizeof(place.job));
        place.task = pin->has_task ? pin->task : 0;
        place.pinned = true;
        *out = place;
        return PS_OK;
    }
    if (p->ps_tasks == 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "job '%s' has no tasks: a variable has nowhere to go unless it is pinned",
                        p->ps_job);
    }
    memcpy(place.job, p->ps_job, sizeof(place.job));
    place.task = p->next;
    if (pin != NULL && pin->has_task) {
        if (pin->task >= p->ps_tasks) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "/job:%s/task:%u does not exist: job '%s' has tasks 0 to %u", p->ps_job,
                            pin->task, p->ps_job, p->ps_tasks - 1);
        }
        place.task = pin->task;
        place.pinned = true;
    }
    p->next = (p->next + 1) % p->ps_tasks;
    *out = place;
    return PS_OK;
}

ps_status psi_placement_partitioner_check(const char *partitioner, struct psi_err *err)
{
    if (partitioner == NULL || partitioner[0] == '\0') {
        return PS_OK;
    }
    char quoted[PSI_QUOTE_MAX];
    return psi_fail(err, PS_UNIMPLEMENTED, "partitioner %s: partitioned variables are not supported yet; leave it out",
                    psi_quote(quoted, sizeof(quoted), partitioner, strlen(partitioner)));
}

const char *psi_place_format(const struct psi_place *place, const char *name, const char *type, char *buf, size_t n)
{
    char task[PSI_TASK_NAME_MAX];
    PSI_IGNORE(snprintf(buf, n, "%s: (%s): %s/device:CPU:0", name, type,
                        psi_task_name_format(task, sizeof(task), place->job, place->task)));
    return buf;
}
