/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of a run, the rows of a plan that one task executes by one CALL named PSI_RUN_CALL, and of its answer
 * (docs/PROTOCOL.md, "Runs of a plan"; proto/plan.proto). The client encodes runs and decodes answers, the executor decodes runs
 * and encodes answers. Pure, any thread.
 *
 *   input   RunHead | RunInput ... | RunRow numbers message ... | RunOutput ... | padding bytes of an input ...
 *   output  RunAnswer | RunResult bytes ...
 *
 * The values that the call brings follow all messages, in the order of their inputs, each at a multiple of
 * psi_run_value_align() of its size. So the executor can compute on them in the call's input, without a copy.
 *
 * The values of a run are numbered: inputs first, then the outputs of row 0, of row 1 and so on. The inputs of a row have lower
 * numbers than its outputs. */
#ifndef PSI_PLAN_RUN_H
#define PSI_PLAN_RUN_H

#include "common/buf.h"
#include "common/limits.h"
#include "worker/ops/ops.h"

/** Name of the call in the call table of each task that executes operations. */
#define PSI_RUN_CALL "ps.run"

enum {
    PSI_RUN_VERSION = 2,
    PSI_RUN_KEY_BYTES = 16,       /* key of a session's container */
    PSI_RUN_OP_BYTES_MAX = 31,    /* name of an operation */
    PSI_RUN_DEVICE_BYTES_MAX = 47 /* "GPU:0" */
};
/** Alignment of a value of this size: its offset in the encoded input of the call is a multiple of the result. */
static inline size_t psi_run_value_align(size_t bytes)
{
    return bytes < 4096 ? 8 : 64;
}
#define PSI_RUN_VALUES_MAX 65535u /* numbers of values are u16 in the encoding */

/* A variable that a run reads or writes. Texts are never NULL. */
struct psi_run_variable {
    const char *container, *name;
    const char *job; /* job and task of the task that has the variable */
    uint32_t task;
};

enum psi_run_from {
    PSI_RUN_FROM_CALL = 1,    /* the call's input has the value */
    PSI_RUN_FROM_VARIABLE = 2 /* the executor reads a variable */
};
struct psi_run_input {
    enum psi_run_from from;
    struct psi_type type; /* all dimensions are known. FROM_VARIABLE: the type that the variable must have */
    const void *data;     /* FROM_CALL: [bytes], strings as a checked blob; NULL if bytes is 0 */
    size_t bytes;
    struct psi_run_variable variable; /* FROM_VARIABLE */
};

struct psi_run_row {
    const char *op;         /* name of an operation, perhaps unknown to this program: psi_op_find() */
    const char *name;       /* used in errors and traces: "scope/add_1" */
    const char *device;     /* device at the task: "GPU:0"; "": CPU:0 */
    const uint16_t *inputs; /* [input_count] value numbers, each < first_value */
    uint32_t input_count;
    uint32_t output_count;     /* decoded: at least 1; the executor checks that psi_op_infer() returns as many */
    uint32_t first_value;      /* number of output 0. Set by psi_run_decode(), ignored by psi_run_encode() */
    struct psi_op_attrs attrs; /* the operation's attributes, except value and shape; after decoding, message is not NULL */
    uint64_t printed;          /* how often this row of the plan has run before: first value of psi_op_context.printed */
};

enum psi_run_to {
    PSI_RUN_TO_ANSWER = 1,
    PSI_RUN_TO_ASSIGN = 2,
    PSI_RUN_TO_ADD = 3,
    PSI_RUN_TO_PUSH = 4 /* ps_variable_push() with scale */
};
/* Where a value is sent after all rows have run. Outputs to one variable are delivered in their order. */
struct psi_run_output {
    enum psi_run_to to;
    uint32_t value;                   /* number of the value to send, which may be an input's */
    struct psi_run_variable variable; /* set unless TO_ANSWER */
    float scale;                      /* for TO_PUSH: finite, > 0 */
    bool answers;                     /* for TO_ADD: the answer gets the new value, of at most PS_RESULT_BYTES_MAX bytes */
};

struct psi_run {
    const char *container;          /* container of the caller's session; "": the run uses no variable of the session */
    uint8_t key[PSI_RUN_KEY_BYTES]; /* key of the container; zeros if container is "" */
    bool trace;                     /* the answer has the time of each part */
    struct psi_run_input *inputs;
    uint32_t input_count;
    struct psi_run_row *rows;
    uint32_t row_count;
    struct psi_run_output *outputs;
    uint32_t output_count;
    uint32_t value_count; /* set by psi_run_decode(): number of all values, the run's inputs and the outputs of its rows */
    void *memory;         /* decoded: owns everything except the bytes of inputs */
};

/** Append the encoded run to out, at most out->max bytes.
 *
 * run        borrowed. memory, value_count and first_value are ignored.
 * Errors     RESOURCE_EXHAUSTED: the run does not fit (reason PS_REASON_TOO_LARGE; the error has the number of rows and
 *            out->max), or there is no memory. INVALID_ARGUMENT: a text is too long, a message exceeds PSI_OP_MESSAGE_BYTES_MAX
 *            bytes, or there are too many values. After an error out is unchanged. */
PSI_MUST ps_status psi_run_encode(const struct psi_run *run, struct psi_buf *out, struct psi_err *err);
/** As psi_run_encode(), but values of at least lend_bytes are not copied into out: lents [run->input_count] gets their addresses
 * and their offsets in the encoded run, *lent_count their number. out->max counts them as if they were copied. */
PSI_MUST ps_status psi_run_encode_lending(const struct psi_run *run, size_t lend_bytes, struct psi_buf *out,
                                          struct psi_lent *lents, uint32_t *lent_count, struct psi_err *err);
/** Decode an untrusted run. Everything that the structs above promise was checked: counts, value numbers, dtypes, shapes, sizes
 * of values in the input, texts. Not checked: operations (psi_op_find, psi_op_infer) and variables.
 *
 * bytes      [n], must outlive the run: values in the input point into it.
 * out        written only on success; end it with psi_run_fini().
 * Errors     INVALID_ARGUMENT names the part; UNIMPLEMENTED a newer version; RESOURCE_EXHAUSTED no memory */
PSI_MUST ps_status psi_run_decode(const void *bytes, size_t n, struct psi_run *out, struct psi_err *err);
/** As psi_run_decode(), while only the first `come` of the n bytes have arrived. Bytes after these are not read, but the data of
 * inputs may point to them. INVALID_ARGUMENT also if a message has not arrived, or an input has strings, which must be whole. */
PSI_MUST ps_status psi_run_decode_early(const void *bytes, size_t n, size_t come, struct psi_run *out, struct psi_err *err);
/** Free the memory of a decoded run. An all-zero run is fine. */
void psi_run_fini(struct psi_run *run);

/* A value in the answer; results have the order of the outputs with TO_ANSWER, or with TO_ADD and answers. */
struct psi_run_result {
    struct psi_type type;
    const void *data; /* [bytes]; decoded: any alignment */
    size_t bytes;
};
/* Nanoseconds by the executor's clock that the parts of a traced run took; 0 for a run that was not traced. */
struct psi_run_times {
    uint64_t queue_ns;   /* from the arrival of the call until a compute thread took it */
    uint64_t inputs_ns;  /* from the end of queue_ns until all inputs had arrived */
    uint64_t rows_ns;    /* running the rows */
    uint64_t outputs_ns; /* from the end of the rows until all outputs were delivered */
};
struct psi_run_answer {
    struct psi_run_times times;
    struct psi_run_result *results;
    uint32_t result_count;
    void *memory; /* decoded: owns results */
};
/** Append the encoded answer to out. Errors as psi_run_encode(); out->max is the room in the call's output. */
PSI_MUST ps_status psi_run_answer_encode(const struct psi_run_answer *answer, struct psi_buf *out, struct psi_err *err);
/** As psi_run_decode(), but a malformed answer is INTERNAL. */
PSI_MUST ps_status psi_run_answer_decode(const void *bytes, size_t n, struct psi_run_answer *out, struct psi_err *err);
void psi_run_answer_fini(struct psi_run_answer *answer);
/** Most bytes of an encoded answer without results, and of a result without its value. */
enum { PSI_RUN_ANSWER_BYTES_MAX = 64, PSI_RUN_RESULT_HEAD_BYTES_MAX = 128 };

#endif
