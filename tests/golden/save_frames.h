/* SPDX-License-Identifier: Apache-2.0 */
/* Golden frames of checkpoints: CHECKPOINT, what CHECKPOINTS answers, TASK_CUT, TASK_MANIFEST, TASK_DROP, CHECKPOINT_READ,
 * CHECKPOINT_DELETE, CHECKPOINT_RESTORE, TASK_LOAD, TASK_PLACE, and what a task lists. */
#ifndef TESTS_GOLDEN_SAVE_FRAMES_H
#define TESTS_GOLDEN_SAVE_FRAMES_H

#include "admin_frames.h"

static inline ps_v1_SaveItem golden_save(void)
{
    ps_v1_SaveItem m = ps_v1_SaveItem_init_zero;
    m.number = 12;
    m.time_ms = UINT64_C(1700000000000);
    m.step = 1201;
    PSI_IGNORE(PSI_BYTES_SET(m.cluster_name, "psd")); /* fits */
    m.milliseconds = 250;
    m.task_count = 2;
    m.bytes = 66336;
    m.file_count = 2;
    return m;
}

static inline void golden_files(ps_v1_FileItem m[2])
{
    m[0] = (ps_v1_FileItem)ps_v1_FileItem_init_zero;
    m[0].task = 1;
    m[0].kind = PS_FILE_STATE;
    m[0].bytes = 65536;
    m[0].sum = 0xe3069283;
    m[1] = m[0];
    m[1].kind = PS_FILE_VALUES;
    m[1].index = 3;
    PSI_IGNORE(PSI_BYTES_SET(m[1].container, "localhost")); /* fits */
    m[1].bytes = 800;
    m[1].sum = 0x01020304;
}

static inline void checkpoint(struct wire *out)
{
    ps_v1_Wait m = {.timeout_ms = 60000};
    struct ps_frame_header h = header_of(PS_OP_CHECKPOINT, 0, 80, 0);
    control(out, &h, &ps_v1_Wait_msg, &m, NULL);
}

static inline void checkpoints_answer(struct wire *out)
{
    ps_v1_CheckpointAnswer m[2] = {ps_v1_CheckpointAnswer_init_zero, ps_v1_CheckpointAnswer_init_zero};
    m[0].number = 12;
    m[0].state = PS_CHECKPOINT_WHOLE;
    m[0].time_ms = UINT64_C(1700000000000);
    m[0].step = 1201;
    m[0].milliseconds = 250;
    m[0].bytes = 66336;
    m[0].task_count = m[0].done = 2;
    m[1].number = 13;
    m[1].state = PS_CHECKPOINT_WRITING;
    m[1].milliseconds = 40;
    m[1].task_count = 2;
    m[1].done = 1;
    list_frame(out, PS_OP_CHECKPOINTS, PS_FLAG_REPLY, 81, &ps_v1_CheckpointAnswer_msg, m, sizeof(m[0]), 2);
}

static inline void task_cut(struct wire *out)
{
    ps_v1_SaveItem m = {.number = 12};
    list_frame(out, PS_OP_TASK_CUT, 0, 82, &ps_v1_SaveItem_msg, &m, sizeof(m), 1);
}

static inline void task_cut_answer(struct wire *out)
{
    ps_v1_FileItem m[2];
    golden_files(m);
    m[0].task = m[1].task = 0;
    list_frame(out, PS_OP_TASK_CUT, PS_FLAG_REPLY, 82, &ps_v1_FileItem_msg, m, sizeof(m[0]), 2);
}

static inline void task_manifest(struct wire *out)
{
    ps_v1_SaveItem m = golden_save();
    ps_v1_FileItem files[2];
    struct psi_buf body;
    golden_files(files);
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_SaveItem_msg, &m);
    for (int i = 0; i < 2; i++) {
        PSI_IGNORE(PSI_BYTES_SET(files[i].job, "ps")); /* fits */
        list_add(&body, &ps_v1_FileItem_msg, &files[i]);
    }
    struct ps_frame_header h = header_of(PS_OP_TASK_MANIFEST, 0, 83, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

/* Its values say what all tasks had of the container at the cut. */
static inline void task_manifest_notes(struct wire *out)
{
    ps_v1_SaveItem m = golden_save();
    ps_v1_FileItem files[2];
    struct psi_buf body;
    golden_files(files);
    files[1].notes = PS_NOTE_SEALED | PS_NOTE_TRAINED;
    files[1].step = 1201;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_SaveItem_msg, &m);
    list_add(&body, &ps_v1_FileItem_msg, &files[0]);
    list_add(&body, &ps_v1_FileItem_msg, &files[1]);
    struct ps_frame_header h = header_of(PS_OP_TASK_MANIFEST, 0, 102, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

static inline void task_drop(struct wire *out)
{
    ps_v1_SaveItem m = {.number = 12};
    list_frame(out, PS_OP_TASK_DROP, 0, 84, &ps_v1_SaveItem_msg, &m, sizeof(m), 1);
}

static inline void checkpoint_read(struct wire *out)
{
    ps_v1_CheckpointRead m = {.number = 12, .kind = PS_FILE_VALUES, .index = 3, .offset = 262144, .bytes = 65536};
    struct ps_frame_header h = header_of(PS_OP_CHECKPOINT_READ, 0, 86, 0);
    control(out, &h, &ps_v1_CheckpointRead_msg, &m, NULL);
}

static inline void checkpoint_delete(struct wire *out)
{
    ps_v1_Wait m = {.timeout_ms = 60000};
    ps_v1_SavedNameItem item = {.number = 12, .force = true};
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_SavedNameItem_msg, &item);
    struct ps_frame_header h = header_of(PS_OP_CHECKPOINT_DELETE, 0, 87, 0);
    control(out, &h, &ps_v1_Wait_msg, &m, &body);
    psi_buf_fini(&body);
}

/* Before 12 is restored. */
static inline void checkpoint_keeps(struct wire *out)
{
    ps_v1_Wait m = {.timeout_ms = 60000, .keeps = 12};
    struct ps_frame_header h = header_of(PS_OP_CHECKPOINT, 0, 90, 0);
    control(out, &h, &ps_v1_Wait_msg, &m, NULL);
}

static inline void checkpoint_restore_of(struct wire *out, const char *const *containers, int count)
{
    ps_v1_Wait m = {.timeout_ms = 60000};
    ps_v1_SavedNameItem item = {.number = 12};
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_SavedNameItem_msg, &item);
    for (int i = 0; i < count; i++) {
        ps_v1_ContainerItem named = ps_v1_ContainerItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(named.container, containers[i])); /* these fit */
        list_add(&body, &ps_v1_ContainerItem_msg, &named);
    }
    struct ps_frame_header h = header_of(PS_OP_CHECKPOINT_RESTORE, 0, 89, 0);
    control(out, &h, &ps_v1_Wait_msg, &m, &body);
    psi_buf_fini(&body);
}

static inline void checkpoint_restore(struct wire *out)
{
    checkpoint_restore_of(out, NULL, 0);
}

static inline void checkpoint_restore_some(struct wire *out)
{
    static const char *const containers[] = {"localhost", "b"};
    checkpoint_restore_of(out, containers, 2);
}

static inline void list_saved(struct wire *out)
{
    ps_v1_ListItem m[2] = {ps_v1_ListItem_init_zero, ps_v1_ListItem_init_zero};
    m[0].has_saved = m[1].has_saved = true;
    m[0].saved = (ps_v1_SavedItem){.number = 12, .state = PS_SAVED_HEARD};
    m[1].saved = (ps_v1_SavedItem){.number = 11, .state = PS_SAVED_WHOLE};
    list_frame(out, PS_OP_LIST, 0, 85, &ps_v1_ListItem_msg, m, sizeof(m[0]), 2);
}

/* What a task tells of a container behind its files. */
static inline void task_cut_note(struct wire *out)
{
    ps_v1_FileItem m[2];
    golden_files(m);
    m[0].task = 0;
    m[1] = (ps_v1_FileItem)ps_v1_FileItem_init_zero;
    m[1].kind = PS_FILE_NOTE;
    PSI_IGNORE(PSI_BYTES_SET(m[1].container, "localhost")); /* fits */
    m[1].notes = PS_NOTE_SEALED | PS_NOTE_DELETED;
    m[1].step = 1201;
    list_frame(out, PS_OP_TASK_CUT, PS_FLAG_REPLY, 90, &ps_v1_FileItem_msg, m, sizeof(m[0]), 2);
}

/* Behind the names: what a task has given of the order of creation; and the directory gives the next place. */
static inline void list_order(struct wire *out)
{
    ps_v1_ListItem m = ps_v1_ListItem_init_zero;
    m.order = 42;
    list_frame(out, PS_OP_LIST, 0, 85, &ps_v1_ListItem_msg, &m, sizeof(m), 1);
}

static inline void task_create_order(struct wire *out)
{
    ps_v1_CreateItem m = ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "layer_1/w"));      /* likewise */
    m.dtype = PS_F32;
    m.order = 42;
    list_frame(out, PS_OP_TASK_CREATE, 0, 86, &ps_v1_CreateItem_msg, &m, sizeof(m), 1);
}

static inline void list_bar(struct wire *out)
{
    ps_v1_ListItem m = ps_v1_ListItem_init_zero;
    m.has_saved = true;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    m.saved = (ps_v1_SavedItem){.number = 12, .state = PS_SAVED_BAR};
    list_frame(out, PS_OP_LIST, 0, 91, &ps_v1_ListItem_msg, &m, sizeof(m), 1);
}

static inline void task_reset_bar(struct wire *out)
{
    ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    m.bar = 12;
    list_frame(out, PS_OP_TASK_RESET, 0, 92, &ps_v1_ContainerItem_msg, &m, sizeof(m), 1);
}

static inline void task_reset_by(struct wire *out)
{
    ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost"));    /* fits */
    PSI_IGNORE(PSI_BYTES_SET(m.by, "psctl@testhost:4711")); /* fits */
    m.bar = 12;
    list_frame(out, PS_OP_TASK_RESET, 0, 93, &ps_v1_ContainerItem_msg, &m, sizeof(m), 1);
}

static inline void task_load(struct wire *out)
{
    ps_v1_StartItem m = {.number = 12, .start = UINT64_C(0x1122334455667788), .state_bytes = 65536};
    list_frame(out, PS_OP_TASK_LOAD, 0, 86, &ps_v1_StartItem_msg, &m, sizeof(m), 1);
}

/* Behind its own part those that it has of others. */
static inline void task_load_others(struct wire *out)
{
    ps_v1_StartItem m[2] = {{.number = 12, .start = UINT64_C(0x1122334455667788), .state_bytes = 65536, .state_sum = 0x0badf00d},
                            {.state_bytes = 131072, .writer = 3, .state_sum = 7}};
    list_frame(out, PS_OP_TASK_LOAD, 0, 93, &ps_v1_StartItem_msg, m, sizeof(m[0]), 2);
}

static inline void task_load_sized(struct wire *out)
{
    ps_v1_StartItem m = {.number = 12, .start = UINT64_C(0x1122334455667788), .state_bytes = 65536, .all_bytes = 66336};
    list_frame(out, PS_OP_TASK_LOAD, 0, 98, &ps_v1_StartItem_msg, &m, sizeof(m), 1);
}

/* psctl checkpoint restore. */
static inline void task_load_asked(struct wire *out)
{
    ps_v1_StartItem m = {.number = 12, .start = UINT64_C(0x1122334455667788), .state_bytes = 65536, .asked = true};
    list_frame(out, PS_OP_TASK_LOAD, 0, 101, &ps_v1_StartItem_msg, &m, sizeof(m), 1);
}

/* A task says how far it is with its part. */
static inline void share_beat(struct wire *out)
{
    ps_v1_Beat m = {.share = 430000};
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 99, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

/* BEAT of a task to the directory: the task has changed since its last checkpoint. */
static inline void changed_beat(struct wire *out)
{
    ps_v1_Beat m = {.share = 430000, .changed = true};
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 100, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

/* BEAT of a task to the directory: checkpoint 12 has all that the task has. */
static inline void saved_beat(struct wire *out)
{
    ps_v1_Beat m = {.saved = 12};
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 102, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

/* A session says its step, and of which container. */
static inline void step_beat(struct wire *out)
{
    ps_v1_Beat m = {.global_step = 1876};
    PSI_IGNORE(PSI_BYTES_SET(m.step_of, "localhost")); /* fits */
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 103, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

/* What the session's newest step said. */
static inline void said_beat(struct wire *out)
{
    ps_v1_Beat m = {.global_step = 1876};
    PSI_IGNORE(PSI_BYTES_SET(m.said, "loss=0.25 accuracy=0.9")); /* fits */
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 111, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

static inline void task_saved(struct wire *out)
{
    ps_v1_SaveItem m = {.number = 12};
    list_frame(out, PS_OP_TASK_SAVED, 0, 104, &ps_v1_SaveItem_msg, &m, sizeof(m), 1);
}

/* A part that is the same as that of checkpoint 11. */
static inline void task_cut_same(struct wire *out)
{
    ps_v1_FileItem m[2];
    golden_files(m);
    m[0].same = 11;
    list_frame(out, PS_OP_TASK_CUT, PS_FLAG_REPLY, 105, &ps_v1_FileItem_msg, m, sizeof(m[0]), 1);
}

/* The last attempt has failed. */
static inline void checkpoints_failed(struct wire *out)
{
    ps_v1_CheckpointAnswer m = {.number = 14, .state = PS_CHECKPOINT_UNUSABLE, .failed = true};
    PSI_IGNORE(PSI_BYTES_SET(m.text, "failed: checkpoint 14, RESOURCE_EXHAUSTED: full")); /* fits */
    list_frame(out, PS_OP_CHECKPOINTS, PS_FLAG_REPLY, 106, &ps_v1_CheckpointAnswer_msg, &m, sizeof(m), 1);
}

/* INFO's answer of a directory with a place for checkpoints: one is saved, one is made, one has failed. */
static inline void info_saves(struct wire *out)
{
    ps_v1_InfoAnswer m = ps_v1_InfoAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps")); /* these fit */
    m.directory = true;
    PSI_IGNORE(PSI_BYTES_SET(m.checkpoints, "12 is saved"));
    m.has_saves = true;
    m.saves = (ps_v1_SavesState){.number = 12,
                                 .whole = true,
                                 .step = 1206,
                                 .age_ms = 5001,
                                 .took_ms = 40,
                                 .bytes = 4096,
                                 .containers_count = 2,
                                 .more_containers = true,
                                 .makes = 14,
                                 .make_tasks = 2,
                                 .make_done = 1,
                                 .make_share = 750000,
                                 .make_ms = 300,
                                 .failed_attempts = 1,
                                 .failed_number = 13,
                                 .failed_age_ms = 1001,
                                 .failed_status = PS_RESOURCE_EXHAUSTED,
                                 .failed_reason = PS_REASON_DISK_FULL,
                                 .every_seconds = 600};
    PSI_IGNORE(PSI_BYTES_SET(m.saves.containers[0].container, "localhost"));
    m.saves.containers[0].step = 1206;
    PSI_IGNORE(PSI_BYTES_SET(m.saves.containers[1].container, "tables"));
    PSI_IGNORE(PSI_BYTES_SET(m.saves.failed, "full"));
    list_frame(out, PS_OP_INFO, PS_FLAG_REPLY, 107, &ps_v1_InfoAnswer_msg, &m, sizeof(m), 1);
}

static inline void checkpoints_shares(struct wire *out)
{
    ps_v1_CheckpointAnswer m = ps_v1_CheckpointAnswer_init_zero;
    m.number = 13;
    m.state = PS_CHECKPOINT_WRITING;
    m.task_count = 2;
    m.share = 750001;
    list_frame(out, PS_OP_CHECKPOINTS, PS_FLAG_REPLY, 81, &ps_v1_CheckpointAnswer_msg, &m, sizeof(m), 1);
}

/* A part of task 2 lies beside the directory of a task that waits. */
static inline void list_part(struct wire *out)
{
    ps_v1_ListItem m = ps_v1_ListItem_init_zero;
    m.has_start = true;
    m.start = (ps_v1_StartItem){.number = 12, .writer = 3, .waits = true};
    list_frame(out, PS_OP_LIST, 0, 94, &ps_v1_ListItem_msg, &m, sizeof(m), 1);
}

/* What another task has noted that was deleted of what is placed. */
static inline void task_place_gone(struct wire *out)
{
    ps_v1_StartItem m[3] = {ps_v1_StartItem_init_zero, ps_v1_StartItem_init_zero, ps_v1_StartItem_init_zero};
    m[0].number = 12;
    m[2].number = 14;
    m[0].start = m[1].start = m[2].start = UINT64_C(0x1122334455667788);
    PSI_IGNORE(PSI_BYTES_SET(m[1].container, "localhost")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m[2].container, "localhost"));
    PSI_IGNORE(PSI_BYTES_SET(m[2].name, "w"));
    list_frame(out, PS_OP_TASK_PLACE, 0, 95, &ps_v1_StartItem_msg, m, sizeof(m[0]), 3);
}

static inline void list_gone(struct wire *out)
{
    ps_v1_ListItem m = ps_v1_ListItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "w"));
    m.has_start = true;
    m.start = (ps_v1_StartItem){.number = 14, .waits = true};
    list_frame(out, PS_OP_LIST, 0, 96, &ps_v1_ListItem_msg, &m, sizeof(m), 1);
}

static inline void task_load_answer(struct wire *out)
{
    ps_v1_StartItem m = ps_v1_StartItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    list_frame(out, PS_OP_TASK_LOAD, PS_FLAG_REPLY, 86, &ps_v1_StartItem_msg, &m, sizeof(m), 1);
}

static inline void task_place(struct wire *out)
{
    ps_v1_StartItem m[2] = {ps_v1_StartItem_init_zero, ps_v1_StartItem_init_zero};
    m[0].number = 12;
    m[0].start = m[1].start = UINT64_C(0x1122334455667788);
    PSI_IGNORE(PSI_BYTES_SET(m[1].container, "localhost")); /* fits */
    list_frame(out, PS_OP_TASK_PLACE, 0, 87, &ps_v1_StartItem_msg, m, sizeof(m[0]), 2);
}

/* The container had been trained at the cut. */
static inline void task_place_trained(struct wire *out)
{
    ps_v1_StartItem m[2] = {ps_v1_StartItem_init_zero, ps_v1_StartItem_init_zero};
    m[0].number = 12;
    m[0].start = m[1].start = UINT64_C(0x1122334455667788);
    m[1].trained = true;
    PSI_IGNORE(PSI_BYTES_SET(m[1].container, "localhost")); /* fits */
    list_frame(out, PS_OP_TASK_PLACE, 0, 103, &ps_v1_StartItem_msg, m, sizeof(m[0]), 2);
}

static inline void list_start(struct wire *out)
{
    ps_v1_ListItem m[2] = {ps_v1_ListItem_init_zero, ps_v1_ListItem_init_zero};
    m[0].has_start = m[1].has_start = true;
    m[0].start.waits = true;
    m[1].start.start = UINT64_C(0x1122334455667788);
    m[1].start.next = 5;
    PSI_IGNORE(PSI_BYTES_SET(m[1].start.container, "localhost")); /* fits */
    list_frame(out, PS_OP_LIST, 0, 88, &ps_v1_ListItem_msg, m, sizeof(m[0]), 2);
}

#endif
