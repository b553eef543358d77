/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of an executor's task. The first row (operation) that names a listed device makes its plugin open it; CPU:0 needs
 * none. Failure modes: the task does not list the device, or the plugin cannot open it: the run's error names the row. */
#include "exec.h"

#include "worker/nn/kernels/device.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool task_has(const ps_ops *ops, const char *device)
{
    const size_t n = strlen(device);
    for (const char *at = ops->devices; at != NULL && *at != '\0'; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        if (strcspn(at, ",") == n && strncmp(at, device, n) == 0) {
            return true;
        }
    }
    return false;
}

/* The caller holds place_lock. */
static ps_status open_place(ps_ops *ops, const char *device, struct psk_place **out, struct psi_err *err)
{
    char name[PSI_RUN_DEVICE_BYTES_MAX + 1] = "";
    for (uint32_t i = 0; i < ops->place_count; i++) {
        if (strcmp(ops->place_names[i], device) == 0) {
            *out = ops->places[i];
            return PS_OK;
        }
    }
    for (size_t i = 0; i < sizeof(name) - 1 && device[i] != '\0'; i++) {
        name[i] = (char)tolower((unsigned char)device[i]);
    }
    if (ops->place_count == PSI_EXEC_PLACES_MAX) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: %d devices are open already", ops->name, PSI_EXEC_PLACES_MAX);
    }
    const ps_status st = psk_place_open(name, 0, &ops->places[ops->place_count], err);
    if (st == PS_OK) {
        (void)snprintf(ops->place_names[ops->place_count], sizeof(ops->place_names[0]), "%s", device);
        *out = ops->places[ops->place_count++];
    }
    return st;
}

ps_status psi_exec_place(ps_ops *ops, const char *device, struct psk_place **out, struct psi_err *err)
{
    *out = NULL;
    if (device[0] == '\0' || strcmp(device, "CPU:0") == 0) {
        return PS_OK;
    }
    if (!task_has(ops, device)) {
        return psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_NO_DEVICE, "%s has no device %s, it has %s", ops->name, device,
                           ops->devices != NULL ? ops->devices : "CPU:0");
    }
    (void)pthread_mutex_lock(&ops->place_lock);
    const ps_status st = open_place(ops, device, out, err);
    (void)pthread_mutex_unlock(&ops->place_lock);
    return st;
}

void psi_exec_places_close(ps_ops *ops)
{
    for (uint32_t i = 0; i < ops->place_count; i++) {
        psk_place_close(ops->places[i]);
    }
    ops->place_count = 0;
}
