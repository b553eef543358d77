/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of orders that the directory sends to the tasks, its own included: one row for each operation that is an order
 * (proto/operations.h has all operations). */
#include "orders.h"

#include "directory.h"

#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/loader.h"
#include "psd/rounds/groups.h"

#define CLIENT PSD_ORDER_FOR_CLIENT
#define TASKS PSD_ORDER_FOR_TASKS
#define NOTHING PS_NOTHING_APPLIED
#define UNKNOWN PS_OUTCOME_UNKNOWN

/* clang-format off */
/* Columns are the fields of struct psd_order_kind (psd/base/orders.h). TASK_RESET has no `listed`: psd_reset_join() sends it when
 * a list begins, because it must go out before the list is answered. */
const struct psd_order_kind psd_order_kinds[UINT8_MAX + 1] = {
    [PS_OP_TASK_CREATE]   = {CLIENT, psd_create_encode,         psd_create_answered, NULL,                false, NOTHING},
    [PS_OP_TASK_DELETE]   = {CLIENT, psd_delete_encode,         psd_delete_answered, NULL,                true,  UNKNOWN},
    [PS_OP_TASK_CUT]      = {TASKS,  psd_saver_encode,          psd_saver_answered,  NULL,                true,  NOTHING},
    [PS_OP_TASK_SAVED]    = {TASKS,  psd_saver_encode,          psd_saver_answered,  NULL,                false, NOTHING},
    [PS_OP_TASK_RESET]    = {TASKS,  psd_reset_encode,          psd_reset_answered,  NULL,                true,  NOTHING},
    [PS_OP_TASK_DONE]     = {TASKS,  NULL,                      psd_job_answered,    psd_job_tell,        false, NOTHING},
    [PS_OP_TASK_ROUNDS]   = {TASKS,  psd_group_encode,          psd_group_answered,  psd_groups_list_end, false, NOTHING},
    [PS_OP_TASK_JOIN]     = {TASKS,  psd_group_encode,          psd_group_answered,  NULL,                false, NOTHING},
    [PS_OP_TASK_LEAVE]    = {TASKS,  psd_group_encode,          psd_group_answered,  NULL,                false, NOTHING},
    [PS_OP_PREPARE]       = {TASKS,  psd_group_encode,          psd_group_answered,  NULL,                true,  NOTHING},
    [PS_OP_BUILD]         = {TASKS,  psd_group_encode,          psd_group_answered,  NULL,                true,  NOTHING},
    [PS_OP_COMMIT]        = {TASKS,  psd_group_encode,          psd_group_answered,  NULL,                true,  NOTHING},
    [PS_OP_TASK_MANIFEST] = {TASKS,  psd_saver_encode_manifest, psd_saver_answered,  psd_saver_list_end,  true,  NOTHING},
    [PS_OP_TASK_DROP]     = {TASKS,  psd_saver_encode,          psd_saver_answered,  NULL,                false, NOTHING},
    [PS_OP_TASK_LOAD]     = {TASKS,  psd_loader_encode_load,    psd_loader_answered, psd_loader_list_end, true,  NOTHING},
    [PS_OP_TASK_PLACE]    = {TASKS,  psd_loader_encode_place,   psd_loader_answered, NULL,                false, NOTHING},
};
/* clang-format on */
