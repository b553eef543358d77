/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists of administration, one row each: what is asked for, and how a message of the answer becomes an entry. The kinds of
 * requests and callbacks of core.h, the rows of kinds.c, the readers of control_list.c and the public functions of
 * worker/api/list.c are made from these rows.
 */
#ifndef PSI_LISTS_H
#define PSI_LISTS_H

/* clang-format off */
/* LIST(operation, name in messages, task that is asked, entry, its type, order, message, fields)
 *       defines a list that programs get by ps_task_<entry>s(). Task: OF_TASK, OF_DIRECTORY, or OF_DIRECTORY_SOON, which ends
 *       when the directory has been unreachable for a while; OF_TASK_FROM: OF_TASK, and src says which entry is the first.
 *       Order: a function for qsort(); NULL: as in the answer.
 * OWN(...) has the same arguments, for a list whose public function is written by hand, because its form differs.
 * Fields:
 *   SAME(field)           copied
 *   TEXT(field)           bytes into an array of char; a NUL byte or a text without room is refused
 *   TEXT_OF(field, from)  TEXT from the message's field `from`
 *   OTHER(function)       set by a function of control_list.c, which returns false to refuse the message */
#define PSI_LISTS(LIST, OWN) \
    LIST(VARS, "vars", OF_TASK, variable, ps_variable_info, by_container_and_name, VarAnswer, \
         TEXT(container) TEXT(name) SAME(version) SAME(pushes) SAME(initialised) SAME(sealed) SAME(in_progress) SAME(atomic) \
         SAME(bytes) SAME(rate) SAME(order) SAME(step) OTHER(take_definition)) \
    LIST(CONTAINERS, "containers", OF_TASK, container, ps_container_info, by_container, ContainerAnswer, \
         TEXT_OF(name, container) SAME(incarnation) SAME(bytes) SAME(variables) SAME(initialised) SAME(names) SAME(queues) \
         TEXT(chief) SAME(chief_number) SAME(chief_left_ms)) \
    LIST(SESSIONS, "sessions", OF_TASK, session, ps_session_info, NULL, SessionAnswer, \
         TEXT(job) SAME(task) SAME(pid) TEXT(host) TEXT(program) SAME(connected) SAME(stopping) SAME(heard_ms) SAME(age_ms) \
         SAME(steps_per_second) SAME(waits) SAME(in_progress) SAME(held_bytes) TEXT(rival) TEXT_OF(identity, who) \
         TEXT(key_id) TEXT_OF(values, said) OTHER(take_session_rest)) \
    LIST(WAITS, "waits", OF_TASK, wait, ps_wait_info, NULL, WaitAnswer, \
         TEXT(job) SAME(task) SAME(pid) TEXT(host) TEXT(program) TEXT(what) TEXT(release) SAME(since_ms) OTHER(take_wait_rest)) \
    LIST(QUEUES, "queues", OF_TASK, queue, ps_queue_info, queue_by_container_and_name, QueueAnswer, \
         TEXT(container) TEXT(name) SAME(size) SAME(taken) SAME(bytes) SAME(enqueuers) SAME(dequeuers) SAME(closed) SAME(epoch) \
         SAME(items) SAME(done) SAME(step) SAME(dropped) OTHER(take_queue)) \
    LIST(AGES, "ages", OF_TASK, age, ps_age_info, NULL, AgeAnswer, TEXT(container) OTHER(take_ages)) \
    LIST(WHOAMI, "whoami", OF_TASK, right, ps_right_info, NULL, WhoamiAnswer, \
         TEXT_OF(identity, who) TEXT(role) TEXT(key_id) SAME(open) SAME(rights) TEXT(row)) \
    OWN(EVENTS, "events", OF_TASK_FROM, event, ps_event_info, NULL, EventAnswer, \
        SAME(number) SAME(life) SAME(age_ms) SAME(level) TEXT(event) TEXT(text)) \
    OWN(CHECKPOINTS, "checkpoints", OF_DIRECTORY, checkpoint, ps_checkpoint_info, NULL, CheckpointAnswer, \
         SAME(number) SAME(time_ms) SAME(bytes) SAME(milliseconds) TEXT(text) OTHER(take_checkpoint)) \
    OWN(ROUNDS, "rounds", OF_DIRECTORY, round, ps_round_info, NULL, RoundAnswer, \
        TEXT(container) SAME(generation) SAME(round) SAME(step) SAME(workers) SAME(replicas) SAME(dropped) \
        TEXT_OF(waits_for, text) TEXT(owners) OTHER(take_round_rest)) \
    OWN(CONFIG, "config", OF_TASK, config, struct psi_setting_seen, NULL, ConfigAnswer, \
        TEXT(name) TEXT(value) TEXT(default_value) TEXT(help) SAME(reloadable)) \
    OWN(TASKS, "tasks", OF_DIRECTORY_SOON, task, struct psi_task_seen, NULL, TaskAnswer, \
        TEXT(job) SAME(task) SAME(pid) TEXT(address) TEXT(host) TEXT(conflict) TEXT(lost_names) SAME(restarts) SAME(lost) \
        SAME(connected) SAME(heard) SAME(missing_ms) SAME(life))
/* Fields of the members that follow each entry of ROUNDS' answer, for psi_list_sink.member. */
#define PSI_MEMBER_FIELDS(TEXT, SAME) \
    TEXT(job) SAME(task) TEXT(host) SAME(pid) SAME(member) SAME(since_ms) SAME(steps) SAME(steps_unknown)
/* Fields of INFO's answer, a single message for the caller's ps_task_info. */
#define PSI_INFO_FIELDS(TEXT, SAME) \
    TEXT(version) TEXT(waiting_for) TEXT(devices) TEXT(most) TEXT(not_done) TEXT(checkpoints) SAME(directory) SAME(pid) \
    SAME(life) SAME(uptime_ms) \
    SAME(memory_bytes) SAME(budget_bytes) SAME(variable_bytes) SAME(records_bytes) SAME(staged_bytes) SAME(copies_bytes) \
    SAME(most_bytes) SAME(connections) SAME(sessions) SAME(connected) SAME(variables) SAME(pushes_applied) SAME(pushes_torn) \
    SAME(pushes_refused) SAME(nonfinite) SAME(pulls) SAME(bytes_in) SAME(bytes_out) SAME(pushes_per_second) \
    SAME(bytes_per_second) SAME(in_progress) SAME(job_done) SAME(insecure) SAME(done) SAME(trainers) SAME(denied) \
    SAME(handshakes_done) SAME(handshakes_refused) SAME(handshakes_under_way) SAME(in_part)
/* clang-format on */

#endif
