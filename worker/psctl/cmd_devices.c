/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl devices: what variables can be pinned to.
 * Failure modes: a task that does not answer, or whose list is not understood, is left out and named; exit 1.
 */
#include "psctl.h"

enum { DEVICES_MAX = 64 }; /* a task's list is a text of 127 characters at most */

#define FIELD(kind_, field_) CLI_FIELD(kind_, ps_device_info, field_)
static const struct cli_column columns[] = {
    {"DEVICE", "name", FIELD(CLI_TEXT, name)},
    {"TYPE", "type", FIELD(CLI_TEXT, type)},
    {NULL, "index", FIELD(CLI_U32, index)},
    {"MEMORY", "memory_bytes", FIELD(CLI_BYTES, memory_bytes)},
};

enum psctl_exit psctl_devices(struct psctl *c)
{
    struct cli_list list;
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    psctl_answer(c);
    cli_list_begin(&list, "devices", columns, CLI_COUNT(columns), c->json);
    for (int i = 0; i < c->task_count; i++) {
        ps_device_info devices[DEVICES_MAX];
        int count = c->infos[i].up ? ps_task_info_devices(&c->infos[i], devices, sizeof(*devices), DEVICES_MAX) : 0;
        if (count < 0) {
            psctl_task_failed(c, i);
        }
        for (int k = 0; k < count; k++) {
            cli_list_add(&list, &devices[k]);
        }
    }
    cli_list_end(&list, &c->room);
    psctl_down(c, -1);
    psctl_answer_end(c);
    return psctl_all_up(c, -1) ? PSCTL_OK : PSCTL_FAILED;
}
