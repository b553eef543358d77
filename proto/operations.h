/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of the wire, a row each: number, what its frames have (common/form.h has the words of the third column), and
 * purpose. The numbers of proto/frame.h, the names and forms of common/form.c and the table of docs/PROTOCOL.md are made of
 * these rows. psd/rpc/rows.h says who may send an operation, and which right it needs. */
#ifndef PS_OPERATIONS_H
#define PS_OPERATIONS_H

/* clang-format off */
/* OP(name, number, fields and marks, flags that a request must have, that it may have,
 *    its meta: a message of control.proto or a structure of frame.h, its body: items of a list, or what the bytes are,
 *    the body of a reply without error, described in the same way, what the operation is for) */
#define PS_OPERATIONS(OP) \
    /* session */ \
    OP(HELLO,        1,  NO_ID | LIST,    0,      0,     "Hello",        "UnresolvedItem", "HelloAnswer, TaskItem, NumberItem", \
       "who dials and what it knows; first on each connection") \
    OP(GOODBYE,      2,  0,               0,      0,     NULL,           NULL,             NULL, \
       "drops the session's record; replied to, then the connection closes") \
    OP(BEAT,         3,  0,               0,      0,     "Beat",         NULL,             "BeatAnswer", \
       "liveness; at the directory also the lease") \
    OP(ABANDON,      4,  0,               SEQ,    0,     NULL,           NULL,             NULL, \
       "id = a sequence number; answered with its final outcome") \
    OP(ACK,          5,  OFFSET,          0,      0,     NULL,           NULL,             NULL, \
       "id = a waiting request whose result may be forgotten; offset 1: it was given up; not answered") \
    OP(DURABLE,      6,  NO_ID | UNASKED, 0,      0,     NULL,           NULL,             NULL, \
       "from the task, unasked: the durable watermark") \
    OP(CLOSE,        7,  NO_ID,           0,      0,     NULL,           NULL,             NULL, \
       "a reply to nothing: the last frame on a connection that is closed for the peer's fault, and why") \
    /* hot: fixed meta, no names */ \
    OP(PUSH,         16, WHERE,           SEQ,    PARTS, "ps_push_meta", "values",         NULL, \
       "a gradient, to which the optimizer is applied") \
    OP(PULL,         17, WHERE | VALUES,  0,      0,     "ps_pull_meta", NULL,             "values", \
       "a range of values") \
    OP(PUSHPULL,     18, WHERE,           SEQ,    PARTS, "ps_push_meta", "values",         NULL, \
       "a gradient; the new values come back, range by range") \
    OP(ASSIGN,       19, WHERE,           SEQ,    PARTS, "ps_push_meta", "values",         NULL, \
       "staged, swapped in at its end") \
    OP(ADD,          20, WHERE,           SEQ,    PARTS, "ps_push_meta", "values",         NULL, \
       "assign_add / assign_sub: values that are added; of <= 64 bytes the reply has the new value") \
    OP(CONTRIBUTE,   21, WHERE,           SEQ,    PARTS, "ps_contribute_meta", "values",   NULL, \
       "a member's gradient for a round: staged until the round is closed") \
    OP(GATHER,       22, HANDLE | DTYPE | VALUES, 0, 0,     "ps_gather_meta", "indices",   "values", \
       "rows of a variable, by their indices") \
    OP(PUSH_ROWS,    23, WHERE,           SEQ,    PARTS, "ps_rows_meta", "rows",           NULL, \
       "gradients of some rows, to which the optimizer is applied") \
    OP(SCATTER,      24, WHERE,           SEQ,    PARTS, "ps_rows_meta", "rows",           NULL, \
       "rows that are added, subtracted, or take the place of those that are there") \
    OP(CONTRIBUTE_ROWS, 25, WHERE,        SEQ,    PARTS, "ps_contribute_rows_meta", "rows", NULL, \
       "a member's gradients of some rows for a round: staged until the round is closed") \
    OP(PUSHPULL_ROWS, 26, WHERE,          SEQ,    PARTS, "ps_rows_meta", "rows",           NULL, \
       "gradients of some rows; the new values of these rows come back, segment by segment") \
    /* variables */ \
    OP(OPEN,         32, LIST,            0,      0,     NULL,           "NameItem",       "OpenAnswer", \
       "owner: names -> handles and state") \
    OP(INIT,         33, HANDLE,          SINGLE, 0,     "Init",         NULL,             NULL, \
       "owner, sequence number: run the initializer unless initialised") \
    OP(SEAL,         34, 0,               0,      0,     "Seal",         "HandleItem",     NULL, \
       "owner: mark handles sealed") \
    OP(WAIT,         35, 0,               0,      MORE,  "Wait",         "HandleItem",     NULL, \
       "owner, waits: until handles are sealed (or initialised)") \
    OP(CALL,         36, 0,               0,      0,     "Call",         "input",          "output", \
       "waits: run a call of the task's table") \
    /* queues */ \
    OP(ENQUEUE,      37, HANDLE,          0,      0,     "Enqueue",      "elements",       NULL, \
       "owner, waits: put elements in, apply a gradient; this frame brings their first bytes") \
    OP(DEQUEUE,      38, HANDLE,          0,      0,     "Dequeue",      NULL,             "elements", \
       "owner, waits: take elements out; the reply brings their first bytes") \
    OP(PUT_PART,     39, 0,               0,      0,     "Part",         "elements",       NULL, \
       "more bytes of an ENQUEUE or CALL of this session") \
    OP(GET_PART,     40, 0,               0,      0,     "Part",         NULL,             "elements", \
       "bytes of what a DEQUEUE of this session took, or of a CALL's output") \
    OP(QUEUE_CLOSE,  41, HANDLE,          0,      0,     "QueueClose",   NULL,             NULL, \
       "owner, waits: close a queue behind those that put in before") \
    OP(WORK_END,     42, HANDLE,          SINGLE, 0,     "WorkEnd",      NULL,             NULL, \
       "owner, sequence number: an item of work is done, or goes back") \
    OP(SET_STEP,     43, HANDLE,          SINGLE, 0,     "SetStep",      NULL,             NULL, \
       "owner, sequence number: the global step of an accumulator") \
    OP(SET_RATE,     44, 0,               0,      0,     "SetRate",      "ContainerItem",  NULL, \
       "owner: a learning rate in place of the optimizer's, for one variable or all of a container") \
    OP(MAY,          45, 0,               0,      0,     NULL,           "MayItem",        NULL, \
       "from a member, before it touches a variable for a client: may the client's identity do that") \
    /* directory */ \
    OP(CREATE,       48, LIST,            0,      MORE,  "Wait",         "CreateItem",     "CreateAnswer", \
       "waits: get-or-create") \
    OP(ADDRESSES,    46, LIST,            0,      0,     "Addresses",    NULL,             "TaskItem", \
       "addresses of tasks with port 0 in the cluster, which have changed since a version") \
    OP(FIND,         49, LIST,            0,      0,     NULL,           "NameItem",       "CreateAnswer", \
       "names -> tasks") \
    OP(RESET,        50, 0,               0,      0,     "Wait",         "ContainerItem",  NULL, \
       "waits: empty a container on all tasks") \
    OP(DELETE,       51, 0,               0,      0,     "Wait",         "NameItem",       NULL, \
       "waits: delete a variable") \
    OP(CHIEF,        52, 0,               0,      0,     "Chief",        "ContainerItem",  "ChiefAnswer", \
       "take or claim the chief lease of a container: its number") \
    OP(WAIT_CLUSTER, 53, 0,               0,      MORE,  "Wait",         "TaskItem",       NULL, \
       "waits: until tasks are up") \
    OP(BARRIER,      54, 0,               0,      0,     "Barrier",      "NameItem",       NULL, \
       "waits: until all have come to it") \
    OP(SYNC,         55, 0,               0,      MORE,  "Sync",         "NameItem",       NULL, \
       "waits: the chief puts variables in rounds, the step first, or takes them out") \
    OP(JOIN,         56, LIST,            0,      0,     "Join",         "ContainerItem",  "JoinAnswer", \
       "waits: become a member of a container's rounds") \
    OP(STEP,         57, 0,               0,      0,     "Step",         "ContainerItem",  NULL, \
       "waits: a member is complete; until its round is closed, or until its lead is small enough") \
    OP(LEAVE,        58, 0,               0,      0,     "Leave",        "ContainerItem",  NULL, \
       "a member leaves") \
    OP(JOB_DONE,     59, 0,               0,      0,     NULL,           NULL,             NULL, \
       "a trainer is done: when all are, the job is") \
    OP(CHECKPOINT,   60, 0,               0,      0,     "Wait",         NULL,             NULL, \
       "waits: save all tasks of the directory's job; the result is its number") \
    OP(CHECKPOINT_DELETE, 61, 0,          0,      0,     "Wait",         "SavedNameItem",  NULL, \
       "waits: a checkpoint goes, its manifest at the directory first") \
    OP(CHECKPOINT_RESTORE, 62, 0,         0,      0,     "Wait",         "SavedNameItem",  NULL, \
       "waits: all tasks go back to a checkpoint, by its number") \
    /* administration */ \
    OP(INFO,         64, LIST,            0,      0,     NULL,           NULL,             "InfoAnswer", \
       "the state of a task") \
    OP(VARS,         65, LIST,            0,      0,     NULL,           NULL,             "VarAnswer", \
       "its variables") \
    OP(CONFIG,       66, LIST,            0,      0,     NULL,           NULL,             "ConfigAnswer", \
       "its settings") \
    OP(SHUTDOWN,     67, 0,               0,      0,     NULL,           NULL,             NULL, \
       "drain and end") \
    OP(SESSIONS,     68, LIST,            0,      0,     NULL,           NULL,             "SessionAnswer", \
       "the sessions that the task knows") \
    OP(WAITS,        69, LIST,            0,      0,     NULL,           NULL,             "WaitAnswer", \
       "the requests that wait there") \
    OP(CONTAINERS,   70, LIST,            0,      0,     NULL,           NULL,             "ContainerAnswer", \
       "its containers") \
    OP(CONFIG_SET,   71, 0,               0,      0,     NULL,           "ConfigItem",     NULL, \
       "change a setting that may change while it runs") \
    OP(STOP,         72, LIST,            0,      0,     NULL,           NULL,             "StopAnswer", \
       "every session that the task knows now is told to stop") \
    OP(TASKS,        73, LIST,            0,      0,     NULL,           NULL,             "TaskAnswer", \
       "directory: the tasks of the cluster as it sees them") \
    OP(QUEUES,       74, LIST,            0,      0,     NULL,           NULL,             "QueueAnswer", \
       "its queues") \
    OP(ROUNDS,       75, LIST,            0,      0,     NULL,           NULL,             "RoundAnswer, MemberAnswer", \
       "directory: containers in rounds or with bounded staleness, and their members") \
    OP(AGES,         76, LIST,            0,      0,     NULL,           NULL,             "AgeAnswer", \
       "ages of the pushes that it applied") \
    OP(CHECKPOINTS,  77, LIST,            0,      0,     NULL,           NULL,             "CheckpointAnswer", \
       "directory: checkpoints that are there, and the one that is made") \
    OP(CHECKPOINT_READ, 78, 0,            0,      0,     "CheckpointRead", NULL,           "bytes", \
       "bytes of a file of its part of a checkpoint; the result is their number, fewer at the file's end") \
    OP(WHOAMI,       79, LIST,            0,      0,     NULL,           NULL,             "WhoamiAnswer", \
       "the identity of the connection, and the rows of the table of rights that name it") \
    OP(EVENTS,       110, LIST,           0,      0,     "Events",       NULL,             "EventAnswer", \
       "what has happened there, from a number on; waits while there is nothing") \
    /* between a task, which has opened the connection, and the directory, which sends all of these requests except LIST */ \
    OP(LIST,         80, 0,               0,      MORE,  NULL,           "ListItem",       NULL, \
       "task -> directory: all names the task holds") \
    OP(LIST_ANSWER,  81, LIST,            0,      0,     NULL,           NULL,             "NameItem", \
       "directory -> task: names to drop; the task counts as connected") \
    OP(TASK_CREATE,  82, 0,               0,      0,     NULL,           "CreateItem",     NULL, \
       "get-or-create a variable that was recorded to be there") \
    OP(TASK_RESET,   83, 0,               0,      0,     NULL,           "ContainerItem",  NULL, \
       "empty a container") \
    OP(TASK_DELETE,  84, 0,               0,      0,     NULL,           "NameItem",       NULL, \
       "delete a variable") \
    OP(TASK_ROUNDS,  85, 0,               0,      MORE,  NULL,           "RoundsItem, TaskItem, NameItem", NULL, \
       "put its variables of a group in rounds, or end the group") \
    OP(TASK_JOIN,    86, 0,               0,      0,     NULL,           "RoundsItem, MemberItem", NULL, \
       "a member, with room for what it contributes") \
    OP(TASK_LEAVE,   87, 0,               0,      0,     NULL,           "RoundsItem, MemberItem", NULL, \
       "members that are none any more, and what they contributed to the round that is collected") \
    OP(PREPARE,      88, LIST,            0,      0,     NULL,           "RoundsItem, MemberItem", "PrepareAnswer", \
       "build the new values of a round, or sum up their squares; answered when that is done, or with what is missing") \
    OP(BUILD,        100, LIST,           0,      0,     NULL,           "RoundsItem, MemberItem", "PrepareAnswer", \
       "build the new values of a round with the factor of all averages; answered as PREPARE") \
    OP(COMMIT,       89, 0,               0,      0,     NULL,           "RoundsItem, MemberItem", NULL, \
       "the round is closed: the new values are the values") \
    OP(TASK_DONE,    90, 0,               0,      0,     NULL,           NULL,             NULL, \
       "the job is done") \
    OP(TASK_CUT,     91, LIST,            0,      0,     NULL,           "SaveItem",       "FileItem", \
       "write what the task has at this instant, as part of a checkpoint; answered with its files, when they are on its disk") \
    OP(TASK_MANIFEST, 92, 0,              0,      MORE,  NULL,           "SaveItem, FileItem", NULL, \
       "the checkpoint is whole: write its manifest; answered when it is on the task's disk") \
    OP(TASK_DROP,    93, 0,               0,      0,     NULL,           "SaveItem",       NULL, \
       "the checkpoint is not made, or not needed any more") \
    OP(TASK_LOAD,    94, LIST,            0,      0,     NULL,           "StartItem",      "StartItem", \
       "read the task's part of a checkpoint, and others' that follow, beside what lives; answered when all of it is verified") \
    OP(TASK_PLACE,   95, 0,               0,      MORE,  NULL,           "StartItem",      NULL, \
       "what was loaded lives from now on, in the containers that follow; the task lists again") \
    OP(TASK_SAVED,   96, 0,               0,      0,     NULL,           "SaveItem",       NULL, \
       "has that checkpoint all that the task has: OK; FAILED_PRECONDITION: it has changed; NOT_FOUND: it began empty")
/* clang-format on */

#endif
