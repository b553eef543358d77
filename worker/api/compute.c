/* SPDX-License-Identifier: Apache-2.0 */
/* The device that a session computes on. Happy path: options.compute_device is opened with the session; the CPU is opened at
 * first use, so that programs that compute nothing load no BLAS. Failure modes: a text that is no device is refused. If the
 * device cannot be opened, opening the session fails; with allow_soft_placement it computes on the CPU, and logs so. */
#include "api.h"

#include <stdio.h>
#include <string.h>

static bool is_cpu(const char *device)
{
    return device == NULL || device[0] == '\0' || strcmp(device, "cpu") == 0 || strcmp(device, "cpu:0") == 0;
}

/* Log "compute: (Session): /job:worker/task:0/device:GPU:0"; if `why` is not empty, also the requested device and `why`. */
static void log_place(ps_session *s, const char *type, uint32_t index, const char *asked, const char *why)
{
    char name[PSI_TASK_NAME_MAX];
    const char *task = s->job[0] != '\0' ? psi_task_name_format(name, sizeof(name), s->job, s->task) : "";
    char line[PSI_TASK_NAME_MAX + PSI_ERR_TEXT_MAX + 160];
    (void)snprintf(line, sizeof(line), "compute: (Session): %s/device:%s:%u%s%.32s%s%s", task, type, index,
                   why[0] != '\0' ? " in place of " : "", why[0] != '\0' ? asked : "", why[0] != '\0' ? ": " : "", why);
    psi_api_log_raw(s, line);
}

static void log_opened(ps_session *s, const struct psk_place *place)
{
    struct psk_properties properties;
    psk_place_properties(place, &properties);
    psi_api_log(s, PS_LOG_DEBUG, "compute", PSI_KV("device", psk_place_name(place)), PSI_KV("with", properties.name));
    if (properties.warning[0] != '\0') {
        psi_api_log(s, PS_LOG_WARN, "compute_slow", PSI_KV("device", psk_place_name(place)), PSI_KV("msg", properties.warning));
    }
}

ps_status psi_api_compute_open(ps_session *s, const char *device, uint32_t threads, struct psi_err *err)
{
    struct psi_err why = {0};
    s->compute_threads = threads;
    if (is_cpu(device)) {
        return PS_OK;
    }
    const ps_status st = psk_place_open(device, threads, &s->place, &why);
    if (st == PS_OK) {
        log_opened(s, s->place);
        if (s->log_device_placement) {
            log_place(s, psk_place_type(s->place), psk_place_index(s->place), "", "");
        }
        return PS_OK;
    }
    if (s->allow_soft_placement && st != PS_INVALID_ARGUMENT) {
        log_place(s, "CPU", 0, device, why.text);
        return PS_OK;
    }
    return psi_fail(err, st, "compute_device: %s", why.text);
}

void psi_api_compute_close(ps_session *s)
{
    psk_place_close(s->place);
    s->place = NULL;
}

struct psk_place *psi_api_compute_place(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    struct psk_place *place = s->place;
    (void)pthread_mutex_unlock(&s->lock);
    return place;
}

ps_status psi_param_place(ps_param *p, struct psk_place **out, struct psi_err *err)
{
    ps_session *s = p->session;
    struct psk_place *mine = NULL;
    *out = psi_api_compute_place(s);
    if (*out != NULL) {
        return PS_OK;
    }
    const ps_status st = psk_place_open("cpu", s->compute_threads, &mine, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool first = s->place == NULL;
    s->place = first ? mine : s->place;
    *out = s->place;
    (void)pthread_mutex_unlock(&s->lock);
    if (first) {
        log_opened(s, mine);
    } else {
        psk_place_close(mine);
    }
    return PS_OK;
}
