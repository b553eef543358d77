/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages: the first byte chooses one, the rest is decoded as a plain message and as a list. What decodes must encode
 * within the bounds, and decode to the same again.
 */
#include "common/msg.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const pb_msgdesc_t *const messages[] = {&ps_v1_Hello_msg,
                                               &ps_v1_UnresolvedItem_msg,
                                               &ps_v1_HelloAnswer_msg,
                                               &ps_v1_TaskItem_msg,
                                               &ps_v1_NumberItem_msg,
                                               &ps_v1_CreateItem_msg,
                                               &ps_v1_CreateAnswer_msg,
                                               &ps_v1_NameItem_msg,
                                               &ps_v1_OpenAnswer_msg,
                                               &ps_v1_Init_msg,
                                               &ps_v1_HandleItem_msg,
                                               &ps_v1_Wait_msg,
                                               &ps_v1_Seal_msg,
                                               &ps_v1_ChiefAnswer_msg,
                                               &ps_v1_ContainerItem_msg,
                                               &ps_v1_BeatAnswer_msg,
                                               &ps_v1_InfoAnswer_msg,
                                               &ps_v1_VarAnswer_msg,
                                               &ps_v1_ConfigAnswer_msg,
                                               &ps_v1_ListItem_msg,
                                               &ps_v1_Beat_msg,
                                               &ps_v1_ConfigItem_msg,
                                               &ps_v1_SessionAnswer_msg,
                                               &ps_v1_WaitAnswer_msg,
                                               &ps_v1_ContainerAnswer_msg,
                                               &ps_v1_StopAnswer_msg,
                                               &ps_v1_TaskAnswer_msg,
                                               &ps_v1_Call_msg,
                                               &ps_v1_Sync_msg,
                                               &ps_v1_Join_msg,
                                               &ps_v1_JoinAnswer_msg,
                                               &ps_v1_Step_msg,
                                               &ps_v1_Leave_msg,
                                               &ps_v1_RoundAnswer_msg,
                                               &ps_v1_MemberAnswer_msg,
                                               &ps_v1_AgeAnswer_msg,
                                               &ps_v1_RoundsItem_msg,
                                               &ps_v1_MemberItem_msg,
                                               &ps_v1_PrepareAnswer_msg,
                                               &ps_v1_Chief_msg,
                                               &ps_v1_SaveItem_msg,
                                               &ps_v1_FileItem_msg,
                                               &ps_v1_CheckpointAnswer_msg,
                                               &ps_v1_SavedNameItem_msg,
                                               &ps_v1_CheckpointRead_msg,

                                               &ps_v1_BarItem_msg};

/* any of them; zeroed by the decoder */
static union {
    ps_v1_Hello hello;
    ps_v1_HelloAnswer hello_answer;
    ps_v1_NumberItem number;
    ps_v1_CreateItem create;
    ps_v1_CreateAnswer create_answer;
    ps_v1_OpenAnswer open;
    ps_v1_InfoAnswer info;
    ps_v1_VarAnswer var;
    ps_v1_ConfigAnswer config;
    ps_v1_ListItem list;
    ps_v1_TaskItem task;
    ps_v1_ConfigItem config_item;
    ps_v1_SessionAnswer session;
    ps_v1_WaitAnswer wait;
    ps_v1_ContainerAnswer container;
    ps_v1_TaskAnswer task_answer;
    ps_v1_Call call;
    ps_v1_JoinAnswer join_answer;
    ps_v1_RoundAnswer rounds_answer;
    ps_v1_MemberAnswer member_answer;
    ps_v1_AgeAnswer ages;
    ps_v1_RoundsItem rounds;
    ps_v1_MemberItem member;
    ps_v1_PrepareAnswer missing;
    ps_v1_SaveItem save;
    ps_v1_FileItem file;
    ps_v1_CheckpointAnswer checkpoint;
    ps_v1_BarItem bar;
} one;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1) {
        return 0;
    }
    const pb_msgdesc_t *d = messages[data[0] % (sizeof(messages) / sizeof(messages[0]))];
    struct psi_err err;
    if (psi_msg_decode(d, &one, data + 1, bytes - 1, &err) == PS_OK) {
        uint8_t first[4096], second[4096];
        size_t first_bytes = 0, second_bytes = 0;
        PSI_ASSERT(psi_msg_encode(d, &one, first, sizeof(first), &first_bytes, &err) == PS_OK);
        PSI_ASSERT(psi_msg_decode(d, &one, first, first_bytes, &err) == PS_OK);
        PSI_ASSERT(psi_msg_encode(d, &one, second, sizeof(second), &second_bytes, &err) == PS_OK);
        PSI_ASSERT(first_bytes == second_bytes && memcmp(first, second, first_bytes) == 0);
    } else {
        PSI_ASSERT(err.code == PS_INVALID_ARGUMENT && err.text[0] != '\0');
    }
    const uint8_t *p = data + 1;
    size_t n = bytes - 1;
    for (size_t items = 0;; items++) {
        bool end = false;
        PSI_ASSERT(items <= bytes);
        if (psi_list_next(&p, &n, d, &one, &end, &err) != PS_OK || end) {
            break;
        }
    }
    return 0;
}
