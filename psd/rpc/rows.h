/* SPDX-License-Identifier: Apache-2.0 */
/* The requests that a task serves, one row each: who may send it, the right that it needs, its handler. requests.c makes a table
 * from these rows, and handlers.h prototypes. proto/operations.h has the form of each request. */
#ifndef PSD_ROWS_H
#define PSD_ROWS_H

/* clang-format off */
/* ROW(operation, which connection may send it, place, target and right, handler)
 *
 * Connection: the role of the peer (AT_CLIENT, AT_TASK, AT_DIRECTORY, AT_SOURCE), and what holds for the operation:
 *   REPLIES          a reply, not a request
 *   ONLY_DIRECTORY   served by the directory only
 *   NUMBERED         a mutation with a sequence number
 *   WAITS            a waiting request (wait.h)
 *   IN_PARTS         the handler is called at the head of a frame, and rpc/push.c gets the body in segments
 *   AUDITED          the audit notes who was permitted to do it
 *
 * Right: NONE, or READ, WRITE ... of enum psi_right, joined by |. All of them are needed or, with EITHER, one. They are needed on
 *   CLUSTER(right)               the cluster
 *   SAVED(right)                 the cluster; psd_rights_saved() must permit the request, too
 *   CONTAINERS(right)            the containers named
 *   OF(place, target, right)     the containers named at `place` (enum psd_place), where a name or handle is of a `target`
 *   FIXED(target, right, meta)   as OF(HANDLE, target, right); the meta of a first frame is the structure `meta` */
#define PSD_REQUESTS(ROW) \
    ROW(HELLO,        AT_CLIENT,                                    NONE,                                 psd_rpc_hello) \
    ROW(HELLO,        AT_DIRECTORY | REPLIES,                       NONE,                                 psd_rpc_hello_answer) \
    ROW(HELLO,        AT_SOURCE | REPLIES,                          NONE,                                 psd_rpc_source_hello) \
    ROW(GOODBYE,      AT_CLIENT,                                    NONE,                                 psd_rpc_goodbye) \
    ROW(BEAT,         AT_CLIENT | AT_TASK | AT_DIRECTORY,           NONE,                                 psd_rpc_beat) \
    ROW(BEAT,         AT_TASK | AT_DIRECTORY | AT_SOURCE | REPLIES, NONE,                                 psd_rpc_beat) \
    ROW(ABANDON,      AT_CLIENT,                                    NONE,                                 psd_rpc_abandon) \
    ROW(ACK,          AT_CLIENT,                                    NONE,                                 psd_rpc_ack) \
    ROW(CLOSE,        AT_CLIENT | AT_TASK | AT_DIRECTORY | AT_SOURCE | REPLIES, NONE,                     psd_rpc_close) \
    ROW(PUSH,         AT_CLIENT | NUMBERED | IN_PARTS,              FIXED(VARIABLE, WRITE, ps_push_meta), psd_push_head) \
    ROW(PUSHPULL,     AT_CLIENT | NUMBERED | IN_PARTS,       FIXED(VARIABLE, READ | WRITE, ps_push_meta), psd_push_head) \
    ROW(ASSIGN,       AT_CLIENT | NUMBERED | IN_PARTS,              FIXED(VARIABLE, WRITE, ps_push_meta), psd_push_head) \
    ROW(ADD,          AT_CLIENT | NUMBERED | IN_PARTS,              FIXED(VARIABLE, WRITE, ps_push_meta), psd_push_head) \
    ROW(CONTRIBUTE,   AT_CLIENT | NUMBERED | IN_PARTS,              FIXED(VARIABLE, WRITE, ps_contribute_meta), psd_push_head) \
    ROW(CONTRIBUTE_ROWS, AT_CLIENT | NUMBERED | IN_PARTS,           FIXED(VARIABLE, WRITE, ps_contribute_rows_meta), \
        psd_push_head) \
    ROW(PUSH_ROWS,    AT_CLIENT | NUMBERED | IN_PARTS,              FIXED(VARIABLE, WRITE, ps_rows_meta), psd_push_head) \
    ROW(PUSHPULL_ROWS, AT_CLIENT | NUMBERED | IN_PARTS,      FIXED(VARIABLE, READ | WRITE, ps_rows_meta), psd_push_head) \
    ROW(SCATTER,      AT_CLIENT | NUMBERED | IN_PARTS,              FIXED(VARIABLE, WRITE, ps_rows_meta), psd_push_head) \
    ROW(GATHER,       AT_CLIENT,                                    FIXED(VARIABLE, READ, ps_gather_meta), psd_rpc_gather) \
    ROW(PULL,         AT_CLIENT,                                    FIXED(VARIABLE, READ, ps_pull_meta),  psd_rpc_pull) \
    ROW(OPEN,         AT_CLIENT,                                    OF(NAMES, VARIABLE, READ),            psd_rpc_open) \
    ROW(INIT,         AT_CLIENT | NUMBERED,                         OF(HANDLE, VARIABLE, CHIEF),          psd_rpc_init) \
    ROW(SEAL,         AT_CLIENT,                                    OF(HANDLES, VARIABLE, CHIEF),         psd_rpc_seal) \
    ROW(WAIT,         AT_CLIENT | WAITS,                            OF(HANDLES, VARIABLE, READ),          psd_rpc_wait) \
    ROW(CALL,         AT_CLIENT | WAITS,                            CLUSTER(CALL),                        psd_rpc_call) \
    ROW(ENQUEUE,      AT_CLIENT | WAITS,                            OF(HANDLE, QUEUE, WRITE),             psd_rpc_enqueue) \
    ROW(DEQUEUE,      AT_CLIENT | WAITS,                            OF(HANDLE, QUEUE, READ | WRITE),      psd_rpc_dequeue) \
    ROW(PUT_PART,     AT_CLIENT,                                    NONE,                                 psd_rpc_put_part) \
    ROW(GET_PART,     AT_CLIENT,                                    NONE,                                 psd_rpc_get_part) \
    ROW(QUEUE_CLOSE,  AT_CLIENT | WAITS,                            OF(HANDLE, QUEUE, WRITE),             psd_rpc_queue_close) \
    ROW(WORK_END,     AT_CLIENT | NUMBERED,                         OF(HANDLE, QUEUE, WRITE),             psd_rpc_work_end) \
    ROW(SET_STEP,     AT_CLIENT | NUMBERED,                         OF(HANDLE, QUEUE, WRITE),             psd_rpc_set_step) \
    ROW(SET_RATE,     AT_CLIENT | AUDITED,                          CONTAINERS(ADMINISTER),               psd_rpc_rate) \
    ROW(MAY,          AT_CLIENT,                                    CLUSTER(MEMBER),                      psd_rpc_may) \
    ROW(CREATE,       AT_CLIENT | ONLY_DIRECTORY | WAITS,           OF(CREATES, VARIABLE, CREATE),        psd_rpc_create) \
    ROW(ADDRESSES,    AT_CLIENT | ONLY_DIRECTORY,                   NONE,                                 psd_rpc_addresses) \
    ROW(FIND,         AT_CLIENT | ONLY_DIRECTORY,                   OF(NAMES, VARIABLE, READ),            psd_rpc_find) \
    ROW(RESET,        AT_CLIENT | ONLY_DIRECTORY | WAITS | AUDITED, CONTAINERS(CHIEF),                    psd_rpc_reset) \
    ROW(DELETE,       AT_CLIENT | ONLY_DIRECTORY | WAITS | AUDITED, OF(NAMES, VARIABLE, CHIEF),           psd_rpc_delete) \
    ROW(CHIEF,        AT_CLIENT | ONLY_DIRECTORY,                   CONTAINERS(CHIEF),                    psd_rpc_chief) \
    ROW(WAIT_CLUSTER, AT_CLIENT | ONLY_DIRECTORY | WAITS,           CLUSTER(READ),                        psd_rpc_wait_cluster) \
    ROW(BARRIER,      AT_CLIENT | ONLY_DIRECTORY | WAITS,           CLUSTER(WRITE | MEMBER),              psd_rpc_barrier) \
    ROW(SYNC,         AT_CLIENT | ONLY_DIRECTORY | WAITS,           OF(NAMES, VARIABLE, WRITE),           psd_rpc_sync) \
    ROW(JOIN,         AT_CLIENT | ONLY_DIRECTORY | WAITS,           CONTAINERS(WRITE),                    psd_rpc_join) \
    ROW(STEP,         AT_CLIENT | ONLY_DIRECTORY | WAITS,           CONTAINERS(WRITE),                    psd_rpc_step) \
    ROW(LEAVE,        AT_CLIENT | ONLY_DIRECTORY | WAITS,           CONTAINERS(WRITE),                    psd_rpc_leave) \
    ROW(JOB_DONE,     AT_CLIENT | ONLY_DIRECTORY,                   CLUSTER(WRITE | MEMBER),              psd_rpc_job_done) \
    ROW(CHECKPOINT,   AT_CLIENT | ONLY_DIRECTORY | WAITS,           CLUSTER(SAVE),                        psd_rpc_checkpoint) \
    ROW(CHECKPOINT_DELETE, AT_CLIENT | ONLY_DIRECTORY | WAITS | AUDITED, CLUSTER(ADMINISTER), psd_rpc_checkpoint_delete) \
    ROW(CHECKPOINT_RESTORE, AT_CLIENT | ONLY_DIRECTORY | WAITS | AUDITED, CLUSTER(ADMINISTER), psd_rpc_checkpoint_restore) \
    ROW(INFO,         AT_CLIENT,                                    CLUSTER(READ),                        psd_rpc_info) \
    ROW(VARS,         AT_CLIENT,                                    CLUSTER(READ),                        psd_rpc_vars) \
    ROW(CONFIG,       AT_CLIENT,                                    CLUSTER(READ),                        psd_rpc_config) \
    ROW(CONFIG_SET,   AT_CLIENT | AUDITED,                          CLUSTER(ADMINISTER),                  psd_rpc_config_set) \
    ROW(SHUTDOWN,     AT_CLIENT | AUDITED,                          CLUSTER(ADMINISTER),                  psd_rpc_shutdown) \
    ROW(SESSIONS,     AT_CLIENT,                                    CLUSTER(READ),                        psd_rpc_sessions) \
    ROW(WAITS,        AT_CLIENT,                                    CLUSTER(READ),                        psd_rpc_waits) \
    ROW(STOP,         AT_CLIENT | AUDITED,                          CLUSTER(ADMINISTER),                  psd_rpc_stop) \
    ROW(CONTAINERS,   AT_CLIENT,                                    CLUSTER(READ),                        psd_rpc_containers) \
    ROW(TASKS,        AT_CLIENT | ONLY_DIRECTORY,                   CLUSTER(READ),                        psd_rpc_tasks) \
    ROW(ROUNDS,       AT_CLIENT | ONLY_DIRECTORY,                   CLUSTER(READ),                        psd_rpc_rounds) \
    ROW(QUEUES,       AT_CLIENT,                                    CLUSTER(READ),                        psd_rpc_queues) \
    ROW(AGES,         AT_CLIENT,                                    CLUSTER(READ),                        psd_rpc_ages) \
    ROW(CHECKPOINTS,  AT_CLIENT | ONLY_DIRECTORY,                   CLUSTER(READ),                        psd_rpc_checkpoints) \
    ROW(CHECKPOINT_READ, AT_CLIENT | EITHER,                        SAVED(ADMINISTER | MEMBER),     psd_rpc_checkpoint_read) \
    ROW(EVENTS,       AT_CLIENT,                                    CLUSTER(READ),                        psd_rpc_events) \
    ROW(WHOAMI,       AT_CLIENT,                                    NONE,                                 psd_rpc_whoami) \
    ROW(CHECKPOINT_READ, AT_SOURCE | REPLIES,                       NONE,                                 psd_rpc_source_read) \
    ROW(LIST,         AT_TASK,                                      NONE,                                 psd_rpc_list) \
    ROW(LIST_ANSWER,  AT_DIRECTORY | REPLIES,                       NONE,                                 psd_rpc_list_answer) \
    ROW(TASK_CREATE,  AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_create) \
    ROW(TASK_RESET,   AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_reset) \
    ROW(TASK_DELETE,  AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_delete) \
    ROW(TASK_ROUNDS,  AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_rounds) \
    ROW(TASK_JOIN,    AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_join) \
    ROW(TASK_LEAVE,   AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_leave) \
    ROW(PREPARE,      AT_DIRECTORY,                                 NONE,                                 psd_rpc_prepare) \
    ROW(BUILD,        AT_DIRECTORY,                                 NONE,                                 psd_rpc_build) \
    ROW(COMMIT,       AT_DIRECTORY,                                 NONE,                                 psd_rpc_commit) \
    ROW(TASK_DONE,    AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_done) \
    ROW(TASK_CUT,     AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_cut) \
    ROW(TASK_MANIFEST, AT_DIRECTORY,                                NONE,                                 psd_rpc_task_manifest) \
    ROW(TASK_DROP,    AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_drop) \
    ROW(TASK_LOAD,    AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_load) \
    ROW(TASK_PLACE,   AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_place) \
    ROW(TASK_SAVED,   AT_DIRECTORY,                                 NONE,                                 psd_rpc_task_saved) \
    ROW(TASK_CREATE,  AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_RESET,   AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_DELETE,  AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_ROUNDS,  AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_JOIN,    AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_LEAVE,   AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(PREPARE,      AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(BUILD,        AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(COMMIT,       AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_DONE,    AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_CUT,     AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_MANIFEST, AT_TASK | REPLIES,                           NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_DROP,    AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_LOAD,    AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_PLACE,   AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer) \
    ROW(TASK_SAVED,   AT_TASK | REPLIES,                            NONE,                                 psd_rpc_task_answer)
/* clang-format on */

#endif
