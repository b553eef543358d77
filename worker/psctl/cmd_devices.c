/* SPDX-License-Identifier: Apache-2.0 */
/* psctl devices: the devices to which variables can be pinned. Exit 1: a task gave no list that is understood; it is named. */
#include "psctl.h"

enum { DEVICES_MAX = 64 }; /* most devices of a task: its list, such as "CPU:0,GPU:0", has at most 127 characters */

#define FIELD(kind_, field_) CLI_FIELD(kind_, ps_device_info, field_)
static const struct cli_column columns[] = {
    {"DEVICE", "name", FIELD(CLI_TEXT, name)},
    {"TYPE", "type", FIELD(CLI_TEXT, type)},
    {NULL, "index", FIELD(CLI_U32, index)},
    {"MEMORY", "memory_bytes", FIELD(CLI_BYTES, memory_bytes)},
};

static enum psctl_exit show(struct psctl *c)
{
    struct psctl_list l;
    (void)psctl_list_begin(&l, c, NULL, "devices", columns, CLI_COUNT(columns));
    while (psctl_list_next(&l)) {
        ps_device_info devices[DEVICES_MAX];
        int count = ps_task_info_devices(&c->infos[l.task], devices, sizeof(*devices), DEVICES_MAX);
        (void)psctl_heard(c, l.task, count < 0 ? PS_INTERNAL : PS_OK);
        for (int k = 0; k < count; k++) {
            cli_list_add(&l.rows, &devices[k]);
        }
    }
    return psctl_list_end(&l);
}

const struct psctl_verb psctl_verb_devices = {
    .name = "devices",
    .arguments = "",
    .summary = "devices of the tasks, for placement",
    .words = "",
    .show = show,
    .help = "The devices that a variable can be pinned to. MEMORY of a CPU is the budget of its task.\n",
};
