/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of a session: device scopes, the devices of tasks, the placement log. Happy path: ps_device_push() and
 * ps_device_push_setter() add a level to the placer, which psi_api_scope() asks for each variable; ps_session_devices() asks
 * every serving task for its devices. Failure modes: a malformed device or setter, a pop without a push: refused, nothing
 * changes, and the error becomes the session's (scope.c). If a task does not answer, ps_session_devices() fails, because a list
 * without its devices would look complete. */
#include "api.h"

#include "common/abi.h"
#include "spec.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

#define DEVICE_DEFAULT "CPU:0" /* device of a task that lists none */
enum {
    LIST_MS = 2000, /* longest time in ms to ask tasks for their devices, for an error's text */
    NAMED_MAX = 64  /* most devices in an error's text, and most devices of one task that has_device() compares */
};

ps_status ps_device_push(ps_session *s, const char *device)
{
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, false, &err);
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        st = psi_placer_push(&s->scopes.placer, device, &err);
        (void)pthread_mutex_unlock(&s->lock);
    }
    return st == PS_OK ? PS_OK : psi_api_scope_failed(s, &err, "ps_device_push");
}

ps_status ps_device_push_setter(ps_session *s, const ps_setter_options *options)
{
    struct psi_err err = {0};
    struct psi_setter setter;
    ps_status st = psi_api_check(s, false, &err);
    st = st == PS_OK ? psi_api_setter(options, &setter, &err) : st;
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        st = psi_placer_push_setter(&s->scopes.placer, &setter, &err);
        (void)pthread_mutex_unlock(&s->lock);
    }
    return st == PS_OK ? PS_OK : psi_api_scope_failed(s, &err, "ps_device_push_setter");
}

ps_status ps_device_pop(ps_session *s)
{
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, false, &err);
    if (st == PS_OK) {
        (void)pthread_mutex_lock(&s->lock);
        st = psi_placer_pop(&s->scopes.placer, &err);
        (void)pthread_mutex_unlock(&s->lock);
    }
    return st == PS_OK ? PS_OK : psi_api_scope_failed(s, &err, "ps_device_pop");
}

/* Parse text [len], a device of the task, such as "CPU:0". False: the text is no device. */
static bool read_device(const char *text, size_t len, const ps_task_info *task, ps_device_info *out)
{
    const char *colon = memchr(text, ':', len);
    size_t type = colon != NULL ? (size_t)(colon - text) : len;
    memset(out, 0, sizeof(*out));
    if (type == 0 || type >= sizeof(out->type) || colon == NULL ||
        !psi_digits_read(colon + 1, len - type - 1, PSI_DEVICE_NUMBER_MAX, &out->index)) {
        return false;
    }
    memcpy(out->type, text, type);
    out->memory_bytes = strcmp(out->type, "CPU") == 0 ? task->budget_bytes : 0;
    (void)snprintf(out->name, sizeof(out->name), "/job:%s/task:%u/device:%s:%u", task->job, task->task, out->type, out->index);
    return true;
}

/* Append the devices of one task to infos [max], after its first `total` entries. Returns the new total. Devices beyond max are
 * only counted. -1: the task's list of devices is invalid. */
static int devices_of(const ps_task_info *task, ps_device_info *infos, size_t item_bytes, int max, int total)
{
    const char *p = task->devices[0] != '\0' ? task->devices : DEVICE_DEFAULT;
    while (*p != '\0') {
        ps_device_info info;
        size_t len = strcspn(p, ",");
        if (!read_device(p, len, task, &info)) {
            return -1;
        }
        if (total < max) {
            psi_struct_give(infos, item_bytes, (size_t)total, &info, sizeof(info));
        }
        total++;
        p += len;
        p += *p == ',' ? 1 : 0;
    }
    return total;
}

static void not_understood(const ps_task_info *task, struct psi_err *err)
{
    PSI_IGNORE(psi_fail(err, PS_INTERNAL, "/job:%s/task:%u: its devices '%s' are not understood", task->job, task->task,
                        task->devices)); /* -1 tells the caller */
}

int ps_task_info_devices(const ps_task_info *info, ps_device_info *devices, size_t item_bytes, int max)
{
    struct psi_err err = {0};
    bool given = info != NULL && (devices != NULL || max <= 0);
    ps_status st = given ? psi_struct_bytes_check(item_bytes, "ps_task_info_devices", &err)
                         : psi_fail(&err, PS_INVALID_ARGUMENT, "info, or devices with room for %d, is NULL", max);
    int total = st == PS_OK ? devices_of(info, devices, item_bytes, max, 0) : -1;
    if (st == PS_OK && total < 0) {
        not_understood(info, &err);
    }
    if (total < 0) {
        PSI_IGNORE(psi_api_last_error_set(&err)); /* -1 tells the caller */
    }
    return total;
}

static int devices(ps_session *s, bool needed, ps_device_info *infos, size_t item_bytes, int max, int64_t timeout_ms,
                   struct psi_err *err)
{
    int count = ps_cluster_tasks(s);
    ps_task_info *tasks = count >= 0 ? psi_calloc((size_t)count + 1, sizeof(*tasks)) : NULL;
    if (tasks == NULL) {
        PSI_IGNORE(count < 0 ? psi_fail_as(err, PS_UNAVAILABLE, ps_last_reason(), "%s", ps_last_error())
                             /* -1 tells the caller */
                             : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %d tasks", count));
        return -1;
    }
    ps_status st = psi_api_infos(s, needed, tasks, sizeof(*tasks), count, timeout_ms, err);
    int total = st == PS_OK ? 0 : -1;
    for (int i = 0; i < count && st == PS_OK; i++) {
        const ps_task_info *task = &tasks[i];
        if (!task->up && total >= 0) {
            PSI_IGNORE(psi_fail_as(err, PS_UNAVAILABLE, task->reason, "/job:%s/task:%u (%s): %s", task->job, task->task,
                                   task->address, task->error)); /* -1 tells the caller */
            total = -1;
        } else if (!task->up) {
            psi_api_likewise(s, s->tasks[i].name, err);
        }
        if (total < 0) {
            continue;
        }
        total = devices_of(task, infos, item_bytes, max, total);
        if (total < 0) {
            not_understood(task, err);
        }
    }
    psi_free(tasks);
    return total;
}

int ps_session_devices(ps_session *s, ps_device_info *infos, size_t item_bytes, int max)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, true, &err);
    if (st == PS_OK && (max < 0 || (infos == NULL && max > 0))) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "infos has room for %d devices", infos == NULL ? 0 : max);
    }
    st = st == PS_OK ? psi_struct_bytes_check(item_bytes, "ps_session_devices", &err) : st;
    st = st == PS_OK ? psi_api_know_cluster(s, 0, &err) : st; /* waits for a task: the program may start before its ps tasks */
    int total = st == PS_OK ? devices(s, true, infos, item_bytes, max, 0, &err) : -1;
    if (total < 0) {
        PSI_IGNORE(psi_api_interrupted(s, &err)); /* after an interrupt CANCELLED replaces *err */
        PSI_IGNORE(psi_api_last_error_set(&err)); /* -1 tells the caller */
    }
    return total;
}

/* True if the task has a device that fits d. If d has no type, CPU is meant; if it has no index, any index fits. */
static bool has_device(const ps_task_info *task, const struct psi_device *d)
{
    ps_device_info own[NAMED_MAX];
    int count = devices_of(task, own, sizeof(own[0]), NAMED_MAX, 0);
    for (int i = 0; i < count && i < NAMED_MAX; i++) {
        if (strcmp(own[i].type, d->has_type ? d->type : "CPU") == 0 && (!d->has_index || own[i].index == d->index)) {
            return true;
        }
    }
    return false;
}

bool psi_api_device_is_everywhere(const ps_session *s, const struct psi_device *d)
{
    return s->allow_soft_placement || ((!d->has_type || strcmp(d->type, "CPU") == 0) && (!d->has_index || d->index == 0));
}

ps_status psi_api_device_check(const ps_task_info *task, const struct psi_device *d, struct psi_err *err)
{
    char device[PSI_DEVICE_BYTES];
    char wanted[16] = "*";
    if (has_device(task, d)) {
        return PS_OK;
    }
    if (d->has_index) {
        (void)snprintf(wanted, sizeof(wanted), "%u", d->index);
    }
    return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NO_DEVICE,
                       "device '%s': /job:%s/task:%u has no %s:%s; it has %.127s; leave it out or allow soft placement",
                       psi_device_format(d, device, sizeof(device)), d->job, d->task, d->has_type ? d->type : "CPU", wanted,
                       task->devices[0] != '\0' ? task->devices : DEVICE_DEFAULT);
}

void psi_api_devices_text(ps_session *s, char *dst, size_t n)
{
    struct psi_err err = {0};
    ps_device_info *infos = psi_calloc(NAMED_MAX, sizeof(*infos));
    int total = infos != NULL ? devices(s, false, infos, sizeof(*infos), NAMED_MAX, LIST_MS, &err) : 0;
    size_t at = 0;
    dst[0] = '\0';
    for (int i = 0; i < total && i < NAMED_MAX; i++) {
        int more = snprintf(dst + at, n - at, "%s%s", i > 0 ? ", " : "", infos[i].name);
        if (more < 0 || (size_t)more >= n - at - 24) { /* leaves room for the number of devices left out */
            (void)snprintf(dst + at, n - at, " and %d more", total - i);
            break;
        }
        at += (size_t)more;
    }
    psi_free(infos);
}

enum { BALANCE_BYTES_LEAST = 64 << 10 }; /* psi_api_log_balance() ignores models with fewer bytes: they fit anywhere */

struct share {
    uint64_t bytes, biggest; /* of one ps task: bytes of all its variables; bytes of its largest variable */
};

static uint64_t add_shares(ps_session *s, struct share *shares)
{
    uint64_t total = 0;
    struct psi_list *it = NULL;
    (void)pthread_mutex_lock(&s->lock);
    PSI_LIST_FOREACH(it, &s->variables) {
        const ps_variable *v = PSI_CONTAINER_OF(it, ps_variable, link);
        if (strncmp(v->device, "/job:ps/", 8) == 0 && v->task >= 0 && v->task < PS_TASKS_MAX) {
            struct share *share = &shares[v->task];
            share->bytes += v->bytes;
            share->biggest = v->bytes > share->biggest ? v->bytes : share->biggest;
            total += v->bytes;
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return total;
}

void psi_api_log_balance(ps_session *s)
{
    struct share *shares = psi_calloc(PS_TASKS_MAX, sizeof(*shares));
    uint64_t total = shares != NULL ? add_shares(s, shares) : 0;
    uint32_t fullest = 0;
    for (uint32_t i = 1; total > 0 && i < PS_TASKS_MAX; i++) {
        fullest = shares[i].bytes > shares[fullest].bytes ? i : fullest;
    }
    uint64_t most = total > 0 ? shares[fullest].bytes : 0;
    uint64_t others = s->ps_count > 1 ? (total - most) / (s->ps_count - 1) : UINT64_MAX / 4;
    if (total >= BALANCE_BYTES_LEAST && most > 2 * others && most - shares[fullest].biggest > others) {
        char name[PSI_TASK_NAME_MAX];
        psi_api_log(s, PS_LOG_INFO, "placement_uneven", PSI_KV("task", psi_task_name_format(name, sizeof(name), "ps", fullest)),
                    PSI_KV("holds_percent", most * 100 / total),
                    PSI_KV("remedy", "--placement balanced, when the model is made anew"));
    }
    psi_free(shares);
}

void psi_api_log_placement(ps_session *s, const ps_variable *v, const char *type)
{
    char line[PS_NAME_BYTES_MAX + PS_DEVICE_BYTES + 80];
    if (!s->log_device_placement) {
        return;
    }
    (void)snprintf(line, sizeof(line), "%s: (%.64s): %s", v->name, type != NULL ? type : "Variable", v->device);
    psi_api_log_raw(s, line);
}
