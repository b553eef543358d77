/* SPDX-License-Identifier: Apache-2.0 */
/* The table of requests, psi_kinds: a row for each enum psi_request_kind, with its operation, checks and functions. psi_kind_of()
 * finds a request's row. */
#include "client.h"

#define PUSHES (PSI_KIND_DATA | PSI_KIND_SRC | PSI_KIND_SCALE | PSI_KIND_WIRE)
#define ASSIGNS (PSI_KIND_DATA | PSI_KIND_SRC | PSI_KIND_STRINGS)
#define READS (PSI_KIND_DATA | PSI_KIND_READ | PSI_KIND_DST | PSI_KIND_WIRE | PSI_KIND_STRINGS)
#define ROWS (PSI_KIND_DATA | PSI_KIND_SRC | PSI_KIND_ROWS)
#define GET(kind_name, kind_op)                                                                                                  \
    {                                                                                                                            \
        .name = (kind_name), .op = (kind_op), .to = PSI_TO_OWNER, .is = PSI_KIND_OTHERS, .check = psi_var_check_get,             \
        .go = psi_var_get                                                                                                        \
    }
#define READY(kind_name)                                                                                                         \
    {                                                                                                                            \
        .name = (kind_name), .go = psi_ready_go, .expire = psi_ready_expire, .slow = psi_ready_slow                              \
    }
#define QUEUE(kind_name, kind_op)                                                                                                \
    {                                                                                                                            \
        .name = (kind_name), .op = (kind_op), .to = PSI_TO_OWNER, .check = psi_queue_check, .go = psi_queue_go                   \
    }
#define INFO(how)                                                                                                                \
    {                                                                                                                            \
        .name = "info", .op = PS_OP_INFO, .to = PSI_TO_TASK, .is = PSI_KIND_DST | (how), .go = psi_control_go,                   \
        .answer = psi_control_info, .failed = psi_control_info_failed                                                            \
    }
#define OF_TASK PSI_TO_TASK, PSI_KIND_DST
#define OF_TASK_FROM PSI_TO_TASK, PSI_KIND_DST | PSI_KIND_SRC, .build = psi_control_build_events
#define OF_DIRECTORY PSI_TO_DIRECTORY, PSI_KIND_DST
#define OF_DIRECTORY_SOON PSI_TO_DIRECTORY, PSI_KIND_DST | PSI_KIND_LOOKS
#define LIST(kind, kind_name, whom, ...)                                                                                         \
    [PSI_REQ_##kind] = {kind_name, PS_OP_##kind, whom, .go = psi_control_go, .answer = psi_control_list},

const struct psi_kind psi_kinds[PSI_REQ_KINDS] = {
    [PSI_REQ_PUSH] = {"push", PS_OP_PUSH, PSI_TO_OWNER, PUSHES, .go = psi_push_go},
    [PSI_REQ_PUSH_PULL] = {"push_pull", PS_OP_PUSHPULL, PSI_TO_OWNER, PUSHES | PSI_KIND_DST, .go = psi_var_queue},
    [PSI_REQ_ASSIGN] = {"assign", PS_OP_ASSIGN, PSI_TO_OWNER, ASSIGNS, .go = psi_var_queue},
    [PSI_REQ_INIT_FROM] = {"init_from", PS_OP_ASSIGN, PSI_TO_OWNER, ASSIGNS, .go = psi_var_queue},
    [PSI_REQ_ADD] = {"assign_add", PS_OP_ADD, PSI_TO_OWNER, PSI_KIND_DATA | PSI_KIND_SRC | PSI_KIND_SIGN, .go = psi_var_queue},
    [PSI_REQ_INIT] = {"init", PS_OP_INIT, PSI_TO_OWNER, PSI_KIND_DATA | PSI_KIND_NO_VALUE, .go = psi_var_queue},
    [PSI_REQ_WORK_END] = {"work_end", PS_OP_WORK_END, PSI_TO_OWNER, PSI_KIND_DATA | PSI_KIND_NO_VALUE, .go = psi_var_queue},
    [PSI_REQ_SET_STEP] = {"set_step", PS_OP_SET_STEP, PSI_TO_OWNER, PSI_KIND_DATA | PSI_KIND_NO_VALUE, .go = psi_var_queue},
    [PSI_REQ_PUSH_ROWS] = {"push_rows", PS_OP_PUSH_ROWS, PSI_TO_OWNER, ROWS | PSI_KIND_SCALE, .go = psi_push_go},
    [PSI_REQ_PUSH_PULL_ROWS] = {"push_pull_rows", PS_OP_PUSHPULL_ROWS, PSI_TO_OWNER, ROWS | PSI_KIND_SCALE | PSI_KIND_DST,
                                .go = psi_var_queue},
    [PSI_REQ_SCATTER] = {"scatter", PS_OP_SCATTER, PSI_TO_OWNER, ROWS, .go = psi_var_queue},
    [PSI_REQ_GATHER] = {"gather", PS_OP_GATHER, PSI_TO_OWNER, ROWS | PSI_KIND_READ | PSI_KIND_DST | PSI_KIND_WIRE,
                        .go = psi_var_queue},
    [PSI_REQ_PULL] = {"pull", PS_OP_PULL, PSI_TO_OWNER, READS, .go = psi_var_queue},
    [PSI_REQ_ENQUEUE] = QUEUE("enqueue", PS_OP_ENQUEUE),
    [PSI_REQ_DEQUEUE] = QUEUE("dequeue", PS_OP_DEQUEUE),
    [PSI_REQ_QUEUE_CLOSE] = QUEUE("queue_close", PS_OP_QUEUE_CLOSE),
    [PSI_REQ_GET] = GET("get", PS_OP_CREATE),
    [PSI_REQ_LOOKUP] = GET("find", PS_OP_FIND),
    [PSI_REQ_STATUS] = READY("status"),
    [PSI_REQ_READY] = READY("ready"),
    [PSI_REQ_WAIT_READY] = READY("wait_ready"),
    [PSI_REQ_RESET] = {"reset", PS_OP_RESET, PSI_TO_DIRECTORY, PSI_KIND_OTHERS | PSI_KIND_DISK, .go = psi_control_go,
                       .check = psi_control_check_reset, .build = psi_control_build_reset, .answer = psi_control_plain,
                       .subject = psi_control_container},
    [PSI_REQ_DELETE] = {"delete", PS_OP_DELETE, PSI_TO_DIRECTORY, PSI_KIND_OTHERS, .go = psi_control_go,
                        .check = psi_control_check_name, .build = psi_control_build_delete, .answer = psi_control_plain,
                        .subject = psi_control_name},
    [PSI_REQ_WAIT_CLUSTER] = {"wait_cluster", PS_OP_WAIT_CLUSTER, PSI_TO_DIRECTORY, PSI_KIND_OTHERS, .go = psi_control_go,
                              .check = psi_control_check_jobs, .build = psi_control_build_jobs, .answer = psi_control_plain},
    [PSI_REQ_BARRIER] = {"barrier", PS_OP_BARRIER, PSI_TO_DIRECTORY, PSI_KIND_OTHERS, .go = psi_control_go,
                         .check = psi_control_check_barrier, .build = psi_control_build_barrier, .answer = psi_control_plain,
                         .subject = psi_control_name},
    [PSI_REQ_JOIN] = {"join", PS_OP_JOIN, PSI_TO_DIRECTORY, PSI_KIND_OTHERS, .go = psi_control_go, .build = psi_sync_build_join,
                      .answer = psi_sync_joined},
    [PSI_REQ_STEP] = {"step", PS_OP_STEP, PSI_TO_DIRECTORY, PSI_KIND_OTHERS | PSI_KIND_DST, .go = psi_sync_step_go,
                      .slow = psi_sync_step_slow},
    [PSI_REQ_LEAVE] = {"leave", PS_OP_LEAVE, PSI_TO_DIRECTORY, 0, .go = psi_control_go, .build = psi_sync_build_leave,
                       .answer = psi_sync_left},
    [PSI_REQ_JOB_DONE] = {"job_done", PS_OP_JOB_DONE, PSI_TO_DIRECTORY, PSI_KIND_OTHERS, .go = psi_control_go,
                          .answer = psi_control_job_done},
    [PSI_REQ_CLUSTER] = {"cluster", .go = psi_control_told},
    [PSI_REQ_LOOK] = {"cluster", .is = PSI_KIND_LOOKS, .go = psi_control_told},
    [PSI_REQ_BEAT] = {"beat", PS_OP_BEAT, PSI_TO_DIRECTORY, PSI_KIND_LOOKS, .go = psi_control_go, .build = psi_control_build_ping,
                      .answer = psi_control_plain},
    [PSI_REQ_GOODBYE] = {"goodbye", PS_OP_GOODBYE, PSI_TO_NOBODY, PSI_KIND_STAYS, .go = psi_control_goodbye},
    [PSI_REQ_INFO] = INFO(PSI_KIND_LOOKS),
    [PSI_REQ_AWAIT_INFO] = INFO(0),
    [PSI_REQ_SHUTDOWN] = {"shutdown", PS_OP_SHUTDOWN, PSI_TO_TASK, 0, .go = psi_control_go, .answer = psi_control_plain},
    [PSI_REQ_PING] = {"ping", PS_OP_BEAT, PSI_TO_TASK, 0, .go = psi_control_go, .build = psi_control_build_ping,
                      .answer = psi_control_plain},
    [PSI_REQ_CALL] = {"call", PS_OP_CALL, PSI_TO_TASK, PSI_KIND_DST, .go = psi_control_go, .check = psi_control_call_check,
                      .build = psi_control_call_build, .answer = psi_control_call, .subject = psi_control_call_name},
    [PSI_REQ_CONFIG_SET] = {"config_set", PS_OP_CONFIG_SET, PSI_TO_TASK, PSI_KIND_SRC, .go = psi_control_go,
                            .build = psi_control_build_setting, .answer = psi_control_plain},
    [PSI_REQ_MAY] = {"may", PS_OP_MAY, PSI_TO_TASK, PSI_KIND_SRC, .go = psi_control_go, .build = psi_control_build_may,
                     .answer = psi_control_plain},
    [PSI_REQ_MAY_KNOW] = {"may", PS_OP_MAY, PSI_TO_DIRECTORY, PSI_KIND_SRC, .go = psi_control_go, .build = psi_control_build_may,
                          .answer = psi_control_plain},
    [PSI_REQ_SET_RATE] = {"set_rate", PS_OP_SET_RATE, PSI_TO_TASK, PSI_KIND_SRC | PSI_KIND_DST, .go = psi_control_go,
                          .build = psi_control_build_rate, .answer = psi_control_u64},
    [PSI_REQ_SET_RATE_ALL] = {"set_rate", PS_OP_SET_RATE, PSI_TO_DIRECTORY, PSI_KIND_OTHERS | PSI_KIND_SRC | PSI_KIND_DST,
                              .go = psi_control_go, .build = psi_control_build_rate, .answer = psi_control_u64},
    [PSI_REQ_STOP_AT] = {"stop", PS_OP_STOP, PSI_TO_TASK, 0, .go = psi_control_go, .answer = psi_control_stop},
    [PSI_REQ_STOP] = {"stop", PS_OP_STOP, PSI_TO_DIRECTORY, 0, .go = psi_control_go, .answer = psi_control_stop},
    [PSI_REQ_CHECKPOINT] = {"checkpoint", PS_OP_CHECKPOINT, PSI_TO_DIRECTORY, PSI_KIND_OTHERS | PSI_KIND_DST | PSI_KIND_DISK,
                            .go = psi_control_go, .build = psi_control_build_save, .answer = psi_control_u64},
    [PSI_REQ_CHECKPOINT_DELETE] = {"checkpoint_delete", PS_OP_CHECKPOINT_DELETE, PSI_TO_DIRECTORY, PSI_KIND_SRC | PSI_KIND_DISK,
                                   .go = psi_control_go, .build = psi_control_build_saved_name, .answer = psi_control_plain},
    [PSI_REQ_CHECKPOINT_RESTORE] = {"checkpoint_restore", PS_OP_CHECKPOINT_RESTORE, PSI_TO_DIRECTORY,
                                    PSI_KIND_SRC | PSI_KIND_DST | PSI_KIND_DISK, .go = psi_control_go,
                                    .build = psi_control_build_saved_name, .answer = psi_control_u64},
    [PSI_REQ_CHECKPOINT_READ] = {"checkpoint_read", PS_OP_CHECKPOINT_READ, PSI_TO_TASK, PSI_KIND_DST, .go = psi_control_go,
                                 .check = psi_control_range_check, .build = psi_control_build_range, .answer = psi_control_range},
    PSI_LISTS(LIST, LIST) /* a row for each list of lists.h */
};

const char *psi_request_kind_name(enum psi_request_kind kind)
{
    return psi_kinds[kind].name;
}
