/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a state file (docs/DURABILITY.md, section 3): one row for each member of an entry. state_code.h makes of these
 * rows the structures of entries, and the functions by which the writer (psd/store/entry.c) and both readers
 * (psd/store/entry_load.c, saved.c) work. scripts/state makes of them the tables of DURABILITY.
 *
 * R(type, member, bound, there, what it is). The types:
 *   U8 to U64, I64, F32, F64 a number, little-endian; bound: highest value of an unsigned number, 0: any value
 *   FLAG                       a byte, 0 or 1
 *   NAME, TEXT                 u16 length, at most bound, the bytes and a NUL; a TEXT may be NULL: length 65535, no bytes
 *   ID                         `bound` bytes as they are
 *   COUNTED                    u32 count, at most `bound`, of the NUMBERs behind it; formats 1 to 3: no count, `member` NUMBERs
 *   NUMBER                     f64; 0 if the count ends before it. COUNTED_END: no NUMBER follows
 *   DIMS                       i64 for each of `rank` dimensions; formats 1 to 3: for each of PS_RANK_MAX
 *   ALIGN                      zeros up to a multiple of 8 of the entry
 *   BYTES, SUMS                as many bytes, or u32, as member `bound` says
 *   COMPONENTS                 as many COMPONENT groups as member `bound` says
 *   COUNT, COUNT64             u32, u64: how many groups of the next kind follow; at most `bound`, 0: any
 *   anything else              the rows of that group
 * there: ALL; SINCE(n), BEFORE(n): in formats from n on, or below n; OF(flag): only where member `flag` is true.
 *
 * To add a row: put it at the end of its group with SINCE() of the next format, raise PSI_STATE_VERSION, and add a file to
 * tests/golden/state. A NUMBER behind the last one needs no new format: raise the bound of its COUNTED. */
#ifndef PSI_STATE_ROWS_H
#define PSI_STATE_ROWS_H

enum { PSI_STATE_VERSION = 5 };

/* E(kind, number of the kind in the file, what an entry of this kind describes) */
#define PSI_STATE_ENTRIES(E)                                                                                                     \
    E(HEAD, 1, "whose state it is; the first one")                                                                               \
    E(TASK, 2, "numbers of the task; the second one")                                                                            \
    E(CONTAINER, 3, "a container")                                                                                               \
    E(VARIABLE, 4, "a variable, or a queue without what is in it")                                                               \
    E(ELEMENT, 5, "an element of a queue")                                                                                       \
    E(RECORD, 6, "a session: outcomes, pushes in progress, what it has taken out of queues")                                     \
    E(STAGED, 7, "bytes that a push in progress has staged")                                                                     \
    E(CHIEF, 8, "the chief of a container")                                                                                      \
    E(NAME, 9, "a name of the directory")                                                                                        \
    E(RESET, 10, "a reset that is not done")                                                                                     \
    E(FILE, 11, "a file of values")                                                                                              \
    E(SUMS, 12, "CRCs of a variable's value or slot")                                                                            \
    E(END, 13, "the last one")

/* clang-format off */
/* ---- what entries lie in ---- */
#define PSI_ROWS_BLOCK_END(R) \
    R(U32, number, 0, ALL, "of the block, from 0 on") \
    R(U32, sum, 0, ALL, "CRC32C of all bytes of the block before")
#define PSI_ROWS_ENTRY_HEAD(R) \
    R(U64, bytes, 0, ALL, "behind byte 15, a multiple of 8") \
    R(U32, kind, 0, ALL, "below") \
    R(U32, zero, 0, ALL, "0")

/* ---- the file ---- */
#define PSI_ROWS_HEAD(R) \
    R(U64, magic, 0, ALL, "`psdstate`") \
    R(U32, version, 0, ALL, "of the format") \
    R(U32, task, 0, ALL, "index") \
    R(U64, number, 0, ALL, "of the checkpoint") \
    R(NAME, cluster, PS_JOB_BYTES_MAX, ALL, "") \
    R(NAME, job, PS_JOB_BYTES_MAX, ALL, "")
#define PSI_ROWS_FILE(R) \
    R(U32, file, 0, ALL, "1 + the number in its name") \
    R(U32, header_sum, 0, ALL, "CRC32C of its header with the 8 bytes before that") \
    R(U64, bytes, 0, ALL, "") \
    R(U64, header_bytes, 0, ALL, "with the 8 bytes before the header") \
    R(NAME, container, PS_CONTAINER_BYTES_MAX, ALL, "")
#define PSI_ROWS_SUMS(R) \
    R(U64, creation, 0, ALL, "of the variable") \
    R(U32, which, 0, ALL, "0: its value; from 1 on: slots") \
    R(U32, count, 0, ALL, "") \
    R(U64, first, 0, ALL, "block") \
    R(ALIGN, , , ALL, "") \
    R(SUMS, sums, count, ALL, "CRC32C of each 64 KiB")
#define PSI_ROWS_END(R) \
    R(U64, count, 0, ALL, "entries before it") \
    R(U32, sum, 0, ALL, "CRC32C of all of them")

/* ---- the task, containers, variables ---- */
#define PSI_ROWS_TASK(R) \
    R(U64, position, 0, ALL, "of the last change") \
    R(U64, chief_number, 0, ALL, "highest chief's number") \
    R(U32, next_order, 0, ALL, "above all places in the order of creation") \
    R(U64, dropped, 0, ALL, "variables so far") \
    R(U64, forgotten, 0, ALL, "names so far")
#define PSI_ROWS_CONTAINER(R) \
    R(NAME, name, PS_CONTAINER_BYTES_MAX, ALL, "") \
    R(U64, incarnation, 0, ALL, "")
#define PSI_ROWS_SHAPE(R) \
    R(U32, rank, PS_RANK_MAX, ALL, "") \
    R(U32, reserved, 0, BEFORE(4), "0") \
    R(DIMS, dims, rank, ALL, "")
#define PSI_ROWS_OPTIMIZER(R) \
    R(U32, kind, 0, ALL, "`ps_opt_kind`") \
    R(U32, nesterov, 1, ALL, "") \
    R(COUNTED, 6, 15, ALL, "") \
    R(NUMBER, learning_rate, 0, ALL, "") \
    R(NUMBER, momentum, 0, ALL, "") \
    R(NUMBER, initial_accumulator, 0, ALL, "") \
    R(NUMBER, beta1, 0, ALL, "") \
    R(NUMBER, beta2, 0, ALL, "") \
    R(NUMBER, epsilon, 0, ALL, "") \
    R(NUMBER, weight_decay, 0, ALL, "") \
    R(NUMBER, power, 0, ALL, "") \
    R(NUMBER, l1_strength, 0, ALL, "") \
    R(NUMBER, l2_strength, 0, ALL, "") \
    R(NUMBER, l2_shrinkage, 0, ALL, "") \
    R(NUMBER, l2, 0, ALL, "") \
    R(NUMBER, clip_value, 0, ALL, "") \
    R(NUMBER, ema, 0, ALL, "") \
    R(NUMBER, ema_updates, 0, ALL, "") \
    R(COUNTED_END, , , ALL, "") \
    R(U32, schedule, 0, SINCE(5), "`ps_schedule_kind`") \
    R(SCHEDULE, schedule, 0, OF(schedule), "")
#define PSI_ROWS_SCHEDULE(R) \
    R(U32, schedule_switch, 1, ALL, "") \
    R(F64, warmup_steps, 0, ALL, "") \
    R(F64, warmup_rate, 0, ALL, "") \
    R(NUMBERS, schedule_numbers, 12, ALL, "of its kind")
#define PSI_ROWS_INITIALIZER(R) \
    R(U32, kind, 0, ALL, "`ps_init_kind`") \
    R(U32, fan, 0, ALL, "`ps_fan`") \
    R(F64, a, 0, ALL, "") \
    R(F64, b, 0, ALL, "")
#define PSI_ROWS_PART(R) \
    R(U32, count, PSI_PARTS_MAX, ALL, "of the whole's parts; 0: no part, and all of this is 0") \
    R(U32, index, 0, ALL, "of this part") \
    R(U32, axis, 0, ALL, "along which the whole is cut") \
    R(U32, layout, 1, ALL, "0: div, 1: mod") \
    R(I64, rows, 0, ALL, "of the whole, along the axis")
#define PSI_ROWS_DEFINITION(R) \
    R(U32, dtype, 0, ALL, "`ps_dtype`") \
    R(SHAPE, shape, 0, ALL, "") \
    R(OPTIMIZER, optimizer, 0, ALL, "") \
    R(FLAG, atomic, 0, ALL, "") \
    R(FLAG, queue, 0, ALL, "and none of the above") \
    R(PART, part, 0, SINCE(5), "what it is a part of")
#define PSI_ROWS_COMPONENT(R) \
    R(U32, dtype, 0, ALL, "`ps_dtype`") \
    R(FLAG, shaped, 0, ALL, "its shape is declared") \
    R(SHAPE, shape, 0, ALL, "")
#define PSI_ROWS_SPEC(R) \
    R(U32, kind, 0, ALL, "FIFO 1, RANDOM_SHUFFLE 2, WORK 3, ACCUMULATOR 4, SPARSE_ACCUMULATOR 5") \
    R(U32, component_count, PSI_QUEUE_COMPONENTS_MAX, ALL, "") \
    R(I64, capacity, 0, ALL, "below 0: unbounded") \
    R(U64, min_after_dequeue, 0, ALL, "") \
    R(U64, seed, 0, ALL, "") \
    R(U32, epochs, 0, ALL, "") \
    R(U32, reduction, 0, ALL, "mean 1, sum 2; sparse accumulators: mean of all gradients 3") \
    R(COMPONENTS, components, component_count, ALL, "")
#define PSI_ROWS_VARIABLE(R) \
    R(NAME, container, PS_CONTAINER_BYTES_MAX, ALL, "") \
    R(NAME, name, PS_NAME_BYTES_MAX, ALL, "") \
    PSI_ROWS_DEFINITION(R) \
    R(SPEC, spec, 0, OF(queue), "") \
    R(U64, creation, 0, ALL, "") \
    R(U32, order, 0, ALL, "place in the order of creation") \
    R(U32, file, 0, ALL, "of its values; 0: it has none") \
    R(U64, bytes, 0, ALL, "of its value") \
    R(U64, version, 0, ALL, "") \
    R(U64, pushes, 0, ALL, "") \
    R(FLAG, initialised, 0, ALL, "") \
    R(FLAG, sealed, 0, ALL, "") \
    R(FLAG, restored, 0, ALL, "") \
    R(FLAG, given, 0, ALL, "") \
    R(ID, giver, 8, ALL, "first bytes of that session") \
    R(F64, rate, 0, ALL, "learning rate that was set; 0: its optimizer's") \
    R(NUMBERS, powers, 4, ALL, "of its optimizer") \
    R(INITIALIZER, init, 0, ALL, "") \
    R(U64, seed, 0, ALL, "") \
    R(U64, chief_number, 0, ALL, "highest chief's number") \
    R(U64, chief_value, 0, ALL, "chief of the value") \
    R(U32, pin, 0, SINCE(2), "1 + index of the task that it is pinned to; 0: of none") \
    R(QUEUE, state, 0, OF(queue), "") \
    R(U64, step, 0, SINCE(5), "highest global step that a push carried")
#define PSI_ROWS_QUEUE(R) \
    R(U64, size, UINT32_MAX, ALL, "elements in it") \
    R(U64, done, UINT32_MAX, ALL, "") \
    R(U64, taken, UINT32_MAX, ALL, "") \
    R(U64, next_serial, 0, ALL, "") \
    R(U64, draws, 0, ALL, "") \
    R(U64, fill_hash, 0, ALL, "") \
    R(I64, step, 0, ALL, "") \
    R(U32, epoch, 0, ALL, "") \
    R(FLAG, closed, 0, ALL, "") \
    R(FLAG, filled, 0, ALL, "") \
    R(FLAG, has_sum, 0, ALL, "") \
    R(ELEMENT, sum, 0, OF(has_sum), "")

/* ---- queues ---- */
#define PSI_ROWS_ELEMENT(R) \
    R(U64, serial, 0, ALL, "") \
    R(U64, bytes, 0, ALL, "") \
    R(U32, deliveries, 0, ALL, "") \
    R(ALIGN, , , ALL, "") \
    R(BYTES, data, bytes, ALL, "")
#define PSI_ROWS_QUEUED(R) \
    R(U64, creation, 0, ALL, "of its queue") \
    R(U64, index, 0, ALL, "place in the queue") \
    R(FLAG, done, 0, ALL, "") \
    R(ELEMENT, element, 0, ALL, "")

/* ---- sessions ---- */
#define PSI_ROWS_RECORD(R) \
    R(ID, session, 16, ALL, "") \
    R(U64, name, 0, ALL, "") \
    R(NAME, who, PSI_STATE_WHO_MAX, SINCE(3), "the identity that made it") \
    R(COUNT, count, PS_WINDOW, ALL, "OUTCOMEs")
#define PSI_ROWS_OUTCOME(R) \
    R(U64, number, 0, ALL, "") \
    R(U64, offset, 0, ALL, "elements applied or staged") \
    R(U64, position, 0, ALL, "") \
    R(U64, version, 0, ALL, "") \
    R(U64, incarnation, 0, ALL, "") \
    R(U8, state, PS_NUMBER_ABANDONED, ALL, "`ps_number_state`, not 0") \
    R(U8, applied, 0, ALL, "`ps_applied`") \
    R(U8, status, 0, ALL, "`ps_status`") \
    R(U16, reason, 0, ALL, "`ps_reason`") \
    R(U8, result_bytes, PS_RESULT_BYTES_MAX, ALL, "") \
    R(BYTES, result, result_bytes, ALL, "") \
    R(TEXT, text, PSI_ERR_TEXT_MAX, ALL, "")
#define PSI_ROWS_PUSHES(R) \
    R(COUNT, count, PS_WINDOW, ALL, "PUSHes")
#define PSI_ROWS_SCALARS(R) \
    R(COUNTED, 7, 21, ALL, "") \
    R(NUMBER, rate, 0, ALL, "") \
    R(NUMBER, scale, 0, ALL, "") \
    R(NUMBER, alpha, 0, ALL, "") \
    R(NUMBER, momentum, 0, ALL, "") \
    R(NUMBER, beta1, 0, ALL, "") \
    R(NUMBER, beta2, 0, ALL, "") \
    R(NUMBER, epsilon, 0, ALL, "") \
    R(NUMBER, weight_decay, 0, ALL, "") \
    R(NUMBER, power, 0, ALL, "") \
    R(NUMBER, l1_strength, 0, ALL, "") \
    R(NUMBER, l2_strength, 0, ALL, "") \
    R(NUMBER, l2_shrinkage, 0, ALL, "") \
    R(NUMBER, l2, 0, ALL, "") \
    R(NUMBER, clip_value, 0, ALL, "") \
    R(NUMBER, ema, 0, ALL, "1 - decay of the moving average; 0: none") \
    R(NUMBER, correction, 0, ALL, "") \
    R(NUMBER, share1, 0, ALL, "") \
    R(NUMBER, share2, 0, ALL, "") \
    R(NUMBER, value_squares, 0, ALL, "LAMB, LARS: of the elements that were measured") \
    R(NUMBER, step_squares, 0, ALL, "LAMB: of the steps of the same elements; LARS: of their gradient") \
    R(NUMBER, moved, 0, ALL, "behind the gradient: elements moved (LAMB), or measured and moved (LARS)") \
    R(COUNTED_END, , , ALL, "") \
    R(U32, form, 1, ALL, "of the rule") \
    R(U32, reserved, 0, BEFORE(4), "0")
#define PSI_ROWS_PUSH(R) \
    R(U64, creation, 0, ALL, "of its variable") \
    R(U64, number, 0, ALL, "") \
    R(SCALARS, scalars, 0, ALL, "") \
    R(U64, total, 0, ALL, "elements; of rows: rows") \
    R(F32, scale, 0, ALL, "") \
    R(U8, kind, 0, ALL, "push 1, push and pull 2, assign 3, add 4, contribute 5, assign to slot 1 to 4: 6 to 9, of rows: " \
      "push 10, add 11, subtract 12, update 13, contribute 14, push and pull 15") \
    R(U8, wire, 0, ALL, "`ps_dtype`") \
    R(FLAG, init_only, 0, ALL, "") \
    R(U64, chief_number, 0, ALL, "") \
    R(U64, member, 0, ALL, "") \
    R(U64, round, 0, ALL, "") \
    R(U64, highest, 0, SINCE(5), "of rows: index of the last one") \
    R(U64, last_index, 0, SINCE(5), "of rows: index of the last row that has come; 2^64 - 1: none has") \
    R(U64, step, 0, SINCE(5), "1 + global step that it carries; 0: none")
#define PSI_ROWS_ATTEMPTS(R) \
    R(COUNT, count, 0, ALL, "ATTEMPTs")
#define PSI_ROWS_ATTEMPT(R) \
    R(U64, creation, 0, ALL, "of its queue") \
    R(U64, id, 0, ALL, "of the request") \
    R(U64, inserted, 0, ALL, "elements") \
    R(FLAG, done, 0, ALL, "") \
    R(FLAG, held, 0, ALL, "") \
    R(COUNT64, count, 0, ALL, "ELEMENTs that it has taken")
#define PSI_ROWS_STAGED(R) \
    R(ID, session, 16, ALL, "") \
    R(U64, number, 0, ALL, "of a push in progress") \
    R(U64, offset, 0, ALL, "") \
    R(U64, bytes, 0, ALL, "") \
    R(ALIGN, , , ALL, "") \
    R(BYTES, data, bytes, ALL, "")

/* ---- the directory ---- */
#define PSI_ROWS_CHIEF(R) \
    R(NAME, container, PS_CONTAINER_BYTES_MAX, ALL, "") \
    R(U64, number, 0, ALL, "") \
    R(NAME, text, PSI_STATE_CHIEF_TEXT_MAX, ALL, "who it is") \
    R(ID, session, 16, ALL, "")
#define PSI_ROWS_NAME(R) \
    R(NAME, container, PS_CONTAINER_BYTES_MAX, ALL, "") \
    R(NAME, name, PS_NAME_BYTES_MAX, ALL, "") \
    PSI_ROWS_DEFINITION(R) \
    R(NAME, job, PS_JOB_BYTES_MAX, ALL, "of its owner") \
    R(U32, task, 0, ALL, "")
#define PSI_ROWS_RESET(R) \
    R(NAME, container, PS_CONTAINER_BYTES_MAX, ALL, "") \
    R(FLAG, pending, 0, ALL, "") \
    R(COUNT, count, 0, ALL, "RESET_TASKs")
#define PSI_ROWS_RESET_TASK(R) \
    R(NAME, job, PS_JOB_BYTES_MAX, ALL, "") \
    R(U32, task, 0, ALL, "") \
    R(FLAG, outstanding, 0, ALL, "") \
    R(FLAG, owed, 0, ALL, "")
/* clang-format on */

/* G(name of structure and function, rows): psi_state_<name> */
#define PSI_STATE_GROUPS(G)                                                                                                      \
    G(block_end, BLOCK_END)                                                                                                      \
    G(entry_head, ENTRY_HEAD)                                                                                                    \
    G(head, HEAD)                                                                                                                \
    G(file, FILE)                                                                                                                \
    G(sums, SUMS)                                                                                                                \
    G(end, END)                                                                                                                  \
    G(task, TASK)                                                                                                                \
    G(container, CONTAINER)                                                                                                      \
    G(element, ELEMENT)                                                                                                          \
    G(queue, QUEUE)                                                                                                              \
    G(variable, VARIABLE)                                                                                                        \
    G(queued, QUEUED)                                                                                                            \
    G(record, RECORD)                                                                                                            \
    G(outcome, OUTCOME)                                                                                                          \
    G(pushes, PUSHES)                                                                                                            \
    G(scalars, SCALARS)                                                                                                          \
    G(push, PUSH)                                                                                                                \
    G(attempts, ATTEMPTS)                                                                                                        \
    G(attempt, ATTEMPT)                                                                                                          \
    G(staged, STAGED)                                                                                                            \
    G(chief, CHIEF)                                                                                                              \
    G(name, NAME)                                                                                                                \
    G(reset, RESET)                                                                                                              \
    G(reset_task, RESET_TASK)

#endif
