/* SPDX-License-Identifier: Apache-2.0 */
/* Golden frames of the chief's lease: claims, fences, beats that ask for it, what a task lists of it. */
#ifndef TESTS_GOLDEN_CHIEF_FRAMES_H
#define TESTS_GOLDEN_CHIEF_FRAMES_H

#include "round_frames.h"

static inline void chief_claim(struct wire *out)
{
    struct psi_buf body;
    container_list(&body);
    ps_v1_Chief m = {.claim = true, .number = 300, .preferred = true, .renew = true};
    round_frame(out, PS_OP_CHIEF, 0, 70, &ps_v1_Chief_msg, &m, &body);
}

static inline void chief_answer(struct wire *out)
{
    ps_v1_ChiefAnswer m = {.left_ms = 7500};
    PSI_IGNORE(PSI_BYTES_SET(m.holder, "/job:worker/task:0@here:4000")); /* fits */
    list_frame(out, PS_OP_CHIEF, PS_FLAG_REPLY, 70, &ps_v1_ChiefAnswer_msg, &m, sizeof(m), 1);
}

static inline void chief_granted(struct wire *out)
{
    ps_v1_ChiefAnswer m = {.number = 301, .granted = true};
    list_frame(out, PS_OP_CHIEF, PS_FLAG_REPLY, 71, &ps_v1_ChiefAnswer_msg, &m, sizeof(m), 1);
}

static inline void chief_beat(struct wire *out)
{
    ps_v1_Beat m = {.global_step = 1876};
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 72, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

static inline void chief_beat_answer(struct wire *out)
{
    ps_v1_BeatAnswer m = {.flags = 3, .chief_number = 301, .chief_left_ms = 7500};
    PSI_IGNORE(PSI_BYTES_SET(m.chief, "/job:worker/task:0@here:4000")); /* fits */
    list_frame(out, PS_OP_BEAT, PS_FLAG_REPLY, 72, &ps_v1_BeatAnswer_msg, &m, sizeof(m), 1);
}

static inline void chief_beat_ready(struct wire *out)
{
    ps_v1_Beat m = {.ready = 301};
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 76, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

static inline void chief_ready_answer(struct wire *out)
{
    ps_v1_BeatAnswer m = {.flags = 3, .chief_number = 301, .chief_left_ms = 7500, .chief_ready = 301};
    PSI_IGNORE(PSI_BYTES_SET(m.chief, "/job:worker/task:0@here:4000")); /* fits */
    list_frame(out, PS_OP_BEAT, PS_FLAG_REPLY, 77, &ps_v1_BeatAnswer_msg, &m, sizeof(m), 1);
}

static inline void challenge_beat(struct wire *out)
{
    const ps_v1_Beat m = {.challenge = 9001};
    struct ps_frame_header h = header_of(PS_OP_BEAT, 0, 78, 0);
    control(out, &h, &ps_v1_Beat_msg, &m, NULL);
}

static inline void challenge_answer(struct wire *out)
{
    ps_v1_BeatAnswer m = {.flags = 2, .challenge = 9001};
    list_frame(out, PS_OP_BEAT, PS_FLAG_REPLY, 78, &ps_v1_BeatAnswer_msg, &m, sizeof(m), 1);
}

static inline void seal_fence(struct wire *out)
{
    struct psi_buf body;
    ps_v1_Seal m = {.chief_number = 301, .fence = true};
    ps_v1_HandleItem item = {.handle = 5, .creation = 78};
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_HandleItem_msg, &item);
    round_frame(out, PS_OP_SEAL, 0, 73, &ps_v1_Seal_msg, &m, &body);
}

static inline void chief_reset(struct wire *out)
{
    struct psi_buf body;
    container_list(&body);
    ps_v1_Wait m = {.timeout_ms = 60000, .chief_number = 301};
    round_frame(out, PS_OP_RESET, 0, 74, &ps_v1_Wait_msg, &m, &body);
}

static inline void list_chief(struct wire *out)
{
    ps_v1_ListItem m = ps_v1_ListItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, "localhost")); /* fits */
    m.chief_number = 301;
    list_frame(out, PS_OP_LIST, 0, 75, &ps_v1_ListItem_msg, &m, sizeof(m), 1);
}

#endif
