/* SPDX-License-Identifier: Apache-2.0 */
/* Types that all public headers share: status codes, data types, shapes, initializers, optimizers. Installed; C11 and C++17. */
#ifndef PS_TYPES_H
#define PS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PS_API __attribute__((visibility("default")))
#else
#define PS_API
#endif

/** The result of a call: the status codes of TensorFlow and gRPC, with equal numbers. */
typedef enum ps_status {
    PS_OK = 0,
    PS_CANCELLED = 1,
    PS_UNKNOWN = 2,
    PS_INVALID_ARGUMENT = 3,
    PS_DEADLINE_EXCEEDED = 4,
    PS_NOT_FOUND = 5,
    PS_ALREADY_EXISTS = 6,
    PS_PERMISSION_DENIED = 7,
    PS_RESOURCE_EXHAUSTED = 8,
    PS_FAILED_PRECONDITION = 9,
    PS_ABORTED = 10,
    PS_OUT_OF_RANGE = 11,
    PS_UNIMPLEMENTED = 12,
    PS_INTERNAL = 13,
    PS_UNAVAILABLE = 14,
    PS_DATA_LOSS = 15,
    PS_UNAUTHENTICATED = 16
} ps_status;

/** What a failed call has changed on the ps tasks. After a timeout the change may still have happened. */
typedef enum ps_applied {
    PS_NOTHING_APPLIED = 0, /* safe to repeat */
    PS_MAYBE_PARTLY_APPLIED = 1,
    PS_OUTCOME_UNKNOWN = 2
} ps_applied;

/** Why a call failed, for programs: X(name, number, text). The status says what to do about the failure; the reason says more
 * exactly what happened. Numbers are on the wire: never reused. A reason below 32 is the number of a status, and says no more
 * than the status. A program that gets a number that is not here, from a newer server, uses the status. */
#define PS_REASONS(X)                                                                                                            \
    X(UNINITIALIZED, 32, "the variable has no value yet")                                                                        \
    X(LOST, 33, "a variable that was there is gone: reset, deleted, or lost with its task")                                      \
    X(OTHER_CLUSTER, 34, "at the address is a task of another cluster, or another task")                                         \
    X(OVERLOADED, 35, "the task has reached one of its limits: later it may work")                                               \
    X(TOO_LARGE, 36, "larger than a limit that time does not change")                                                            \
    X(NO_CHIEF, 37, "the variables wait for a chief, and none is connected")                                                     \
    X(NOT_CONNECTED, 38, "a task that is needed cannot be reached")                                                              \
    X(NOT_READY, 39, "not all variables are sealed, not all tasks are up or have begun, or not all have come to a barrier")      \
    X(RESET_PENDING, 40, "a reset of the container is not over")                                                                 \
    X(SHUTTING_DOWN, 41, "the task ends")                                                                                        \
    X(NEWER_CHIEF, 42, "another session is the chief now")                                                                       \
    X(SHAPE_MISMATCH, 43, "another dtype or shape than the variable has")                                                        \
    X(OPTIMIZER_MISMATCH, 44, "another optimizer, or other hyperparameters, than the variable has")                              \
    X(ATOMIC_MISMATCH, 45, "atomic where the variable is not, or the other way round")                                           \
    X(CONFLICT, 46, "pinned to another task than the one that has it, or two processes that are one task")                       \
    X(DISPLACED, 47, "another process is this task now, and has what this one may have missed")                                  \
    X(NO_DEVICE, 48, "the task has no such device")                                                                              \
    X(NOT_FINITE, 49, "a gradient with NaN or infinity")                                                                         \
    X(VERSION, 50, "the two sides speak different versions of the protocol")                                                     \
    X(FEATURE, 51, "one side needs a feature of the protocol that the other one lacks")                                          \
    X(OLD_CONNECTION, 52, "the session has a newer connection")                                                                  \
    X(NOT_DIRECTORY, 53, "only the directory answers this")                                                                      \
    X(CLOSING, 54, "the session is closing")                                                                                     \
    X(GAP, 55, "a frame out of the order of its connection")                                                                     \
    X(BAD_CRC, 56, "a checksum does not fit its bytes")                                                                          \
    X(IN_ROUNDS, 57, "the variable is in rounds: only what their members contribute changes it")                                 \
    X(NO_ROUNDS, 58, "the chief has not asked for the rounds, or the bound on staleness, that this session asks for")            \
    X(DISK_FULL, 59, "a disk has no room, or no inode, or a quota on it is used up")                                             \
    X(INTERRUPTED, 60, "ps_interrupt() has ended the call; the session goes on")                                                 \
    X(IDENTITY, 61, "the peer is not who may do that: another identity's session, or one without rights")                        \
    X(REVOKED, 62, "the peer's key or certificate was good once, and is no longer")
typedef enum ps_reason {
    PS_REASON_NONE = 0,
#define PSI_REASON(name, number, text) PS_REASON_##name = (number),
    PS_REASONS(PSI_REASON)
#undef PSI_REASON
} ps_reason;

/** Element types. The numbers are on the wire and on disk: never reused. */
typedef enum ps_dtype {
    PS_DTYPE_NONE = 0,
    PS_F32 = 1,
    PS_F64 = 2,
    PS_I32 = 3,
    PS_I64 = 4,
    PS_BOOL = 5, /* one byte, 0 or 1 */
    PS_F16 = 6,  /* IEEE 754 binary16 */
    PS_BF16 = 7, /* the upper half of a float32 */
    PS_I8 = 8,
    PS_U8 = 9,
    PS_STRING = 10 /* any bytes, NUL included; PS_STRING_BYTES_MAX bounds all elements together */
} ps_dtype;
/** Most bytes of all elements of a string variable together, and the most elements. */
#define PS_STRING_BYTES_MAX ((size_t)1 << 20)
#define PS_STRING_ELEMENTS_MAX ((size_t)1 << 17)
/** A call's output (ps_call) may have at least so many bytes, whatever else the task is doing. */
#define PS_CALL_BYTES_MAX ((size_t)64 << 10)
/** Most bytes of a call's input. Also of its output, if the caller gives room for so many. */
#define PS_CALL_LARGE_BYTES_MAX ((size_t)1 << 30)
/** Most bytes of the value of an `atomic` variable. */
#define PS_ATOMIC_BYTES_MAX ((size_t)4 << 20)

#define PS_VERSION "0.1.0"
#define PS_RANK_MAX 8

/** A tensor's dimensions, row-major. rank 0 is a scalar (one element). */
typedef struct ps_shape {
    uint32_t rank;
    uint32_t reserved;
    int64_t dims[PS_RANK_MAX];
} ps_shape;

/** Ends the list of dimensions in ps_shape_of(). It is not a dimension. */
#define PS_SHAPE_END INT64_MIN
/** The shape with the given dimensions, up to the first PS_SHAPE_END. Dimensions are not checked here: the function that gets the
 * shape refuses a negative one, such as -1 for an unknown size. Any thread. */
PS_API ps_shape ps_shape_of(int64_t d0, int64_t d1, int64_t d2, int64_t d3, int64_t d4, int64_t d5, int64_t d6, int64_t d7);
/** PS_SHAPE(n, 10): the shape with the two dimensions n and 10. More than PS_RANK_MAX dimensions do not compile. */
#define PS_SHAPE(...)                                                                                                            \
    PSI_SHAPE_17(__VA_ARGS__, PSI_SHAPE_NO, PSI_SHAPE_NO, PSI_SHAPE_NO, PSI_SHAPE_NO, PSI_SHAPE_NO, PSI_SHAPE_NO, PSI_SHAPE_NO,  \
                 PSI_SHAPE_NO, PSI_SHAPE8, PSI_SHAPE8, PSI_SHAPE8, PSI_SHAPE8, PSI_SHAPE8, PSI_SHAPE8, PSI_SHAPE8, PSI_SHAPE8,   \
                 0)                                                                                                              \
    (__VA_ARGS__, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END, 0)
/* the 17th argument: PSI_SHAPE8 after 1 to 8 dimensions; after 9 to 16 PSI_SHAPE_NO, which does not compile */
#define PSI_SHAPE_17(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, it, ...) it
#define PSI_SHAPE_NO(...) (((ps_shape *)0)->has_more_than_PS_RANK_MAX_dimensions)
#define PSI_SHAPE8(a, b, c, d, e, f, g, h, ...) ps_shape_of(a, b, c, d, e, f, g, h)
#define PS_SCALAR PSI_SHAPE8(PS_SHAPE_END, 0, 0, 0, 0, 0, 0, 0, 0)

/** The name of a status in upper case ("FAILED_PRECONDITION"); never NULL. Any thread. */
PS_API const char *ps_status_name(ps_status st);
/** Name of a reason in upper case ("UNINITIALIZED"). A reason below 32 has the status's name; 0 is "NONE"; a number of a newer
 * server is "UNKNOWN_REASON". Never NULL. Any thread. */
PS_API const char *ps_reason_name(ps_reason reason);
PS_API const char *ps_reason_text(ps_reason reason);
/** Name of a dtype as users write it ("float32"); "none" for PS_DTYPE_NONE, "invalid" otherwise. Any thread. */
PS_API const char *ps_dtype_name(ps_dtype dtype);
/** Bytes per element; 0 for PS_STRING, whose elements have no size of their own, and for an unknown dtype. Any thread. */
PS_API size_t ps_dtype_bytes(ps_dtype dtype);
/** Number of elements: the product of the dimensions; -1 if a dimension is negative or the product overflows. Any thread. */
PS_API int64_t ps_shape_elements(const ps_shape *shape);

/** How a variable gets its first values, which the ps task computes. Element i depends on dtype, shape, seed, name and i. */
typedef enum ps_init_kind {
    PS_INIT_ZEROS = 1,
    PS_INIT_ONES = 2,
    PS_INIT_CONSTANT = 3,         /* a = the value */
    PS_INIT_UNIFORM = 4,          /* [a, b) */
    PS_INIT_NORMAL = 5,           /* a = mean, b = standard deviation */
    PS_INIT_GLOROT_UNIFORM = 6,   /* uniform in +-sqrt(6 / (fan_in + fan_out)), Glorot and Bengio 2010 */
    PS_INIT_TRUNCATED_NORMAL = 7, /* a = mean, b = standard deviation; values beyond 2 b are drawn again */
    PS_INIT_HE_NORMAL = 8,        /* truncated normal of variance 2 / fan_in, He et al. 2015; TF 1.15 variance_scaling */
    PS_INIT_HE_UNIFORM = 9        /* uniform in +-sqrt(6 / fan_in) */
} ps_init_kind;
/** Which dimensions Glorot's and He's initializers take for the inputs and the outputs of a layer. The receptive field is the
 * product of all other dimensions. fan_in is the number of inputs times the receptive field, fan_out the number of outputs times
 * the receptive field. With one dimension both are that dimension, with none both are 1. */
typedef enum ps_fan {
    /* The last two dimensions: TensorFlow's (in, out), and (height, width, in, out) of a convolution (_compute_fans). */
    PS_FAN_IN_OUT = 0,
    /* The first two dimensions: PyTorch's (out, in), and (out, in, height, width) of a convolution;
     * _calculate_fan_in_and_fan_out in PyTorch's torch/nn/init.py. */
    PS_FAN_OUT_IN = 1
} ps_fan;
typedef struct ps_initializer {
    uint32_t kind; /* ps_init_kind */
    uint32_t fan;  /* ps_fan; used by GLOROT_UNIFORM, HE_NORMAL and HE_UNIFORM only */
    double a, b;
} ps_initializer;

/** The update rules on the ps; docs/PROTOCOL.md has the formulas. The numbers are on the wire and on disk: never reused. */
typedef enum ps_opt_kind {
    PS_OPT_NONE = 0, /* no optimizer: gradients for the variable are refused */
    PS_OPT_SGD = 1,
    PS_OPT_MOMENTUM = 2,
    PS_OPT_ADAGRAD = 3,
    PS_OPT_ADAM = 4,
    PS_OPT_ADAGRAD_V2 = 5,
    PS_OPT_ADAGRAD_DA = 6,
    PS_OPT_ADADELTA = 7,
    PS_OPT_RMSPROP = 8,
    PS_OPT_RMSPROP_CENTERED = 9,
    PS_OPT_ADAMW = 10,    /* PyTorch's AdamW: the decay is multiplied by the learning rate */
    PS_OPT_ADAMW_TF = 11, /* TensorFlow's AdamW: the decay is not multiplied by the learning rate */
    PS_OPT_AMSGRAD = 12,
    PS_OPT_ADAMAX = 13,
    PS_OPT_NADAM = 14,
    PS_OPT_FTRL = 15,
    PS_OPT_PROXIMAL_GD = 16,
    PS_OPT_PROXIMAL_ADAGRAD = 17,
    PS_OPT_ADDSIGN = 18,
    PS_OPT_POWERSIGN = 19,
    PS_OPT_LION = 20,
    PS_OPT_TORCH_ADAM = 21,
    PS_OPT_TORCH_ADAGRAD = 22,
    PS_OPT_TORCH_RMSPROP = 23,
    PS_OPT_TORCH_RMSPROP_CENTERED = 24,
    PS_OPT_LAZY_ADAM = 25,       /* Adam; a push of rows changes these rows only */
    PS_OPT_ROWWISE_ADAGRAD = 26, /* Adagrad with one accumulator for each row, which sums up the row's mean squared gradients */
    PS_OPT_ROWWISE_ADAM = 27,    /* Adam with one mean of squares for each row; a push of rows changes these rows only */
    PS_OPT_LAMB = 28,
    PS_OPT_LARS = 29
} ps_opt_kind;
/** How a learning rate changes with the global step: TensorFlow's functions of these names; README.md has the formulas. The
 * numbers are on the wire and on disk: never reused. */
typedef enum ps_schedule_kind {
    PS_SCHEDULE_NONE = 0, /* the learning rate is constant */
    PS_SCHEDULE_CONSTANT = 1,
    PS_SCHEDULE_EXPONENTIAL_DECAY = 2,
    PS_SCHEDULE_INVERSE_TIME_DECAY = 3,
    PS_SCHEDULE_POLYNOMIAL_DECAY = 4,
    PS_SCHEDULE_PIECEWISE_CONSTANT = 5,
    PS_SCHEDULE_COSINE_DECAY = 6,
    PS_SCHEDULE_COSINE_DECAY_RESTARTS = 7
} ps_schedule_kind;
enum { PS_SCHEDULE_NUMBERS = 12, PS_SCHEDULE_BOUNDARIES_MAX = 6 };

/** An optimizer with its hyperparameters. Every kind uses learning_rate, the fields marked "any kind", and the schedule. Which
 * other fields a kind uses is in its row in README.md; the rest are 0. ps_sgd() and the other constructors return pointers to
 * const: a program that wants to change fields lets ps_optimizer_parse() fill in a struct of its own. */
typedef struct ps_optimizer {
    /* sizeof(ps_optimizer) in the program that made the struct; newer versions add fields at the end */
    size_t struct_bytes;
    uint32_t kind;              /* ps_opt_kind */
    uint32_t nesterov;          /* 0 or 1; Momentum only */
    double learning_rate;       /* > 0 */
    double momentum;            /* share of the previous step that is added to the next step */
    double initial_accumulator; /* first value of sums of squared gradients */
    double beta1;               /* decay rate of the moving average of gradients */
    double beta2;               /* decay rate of the moving average of squared gradients; rho of Adadelta, decay of RMSProp */
    double epsilon;             /* added to a step's divisor, to avoid division by 0 */
    double weight_decay;        /* AdamW, Lion, LAMB: weight_decay * variable is part of a step; LARS: of the gradient */
    double power;               /* FTRL: exponent of the accumulator; PowerSign: base; AddSign: alpha; LARS: eeta */
    double l1_strength;         /* FTRL, Proximal*, AdagradDA */
    double l2_strength;         /* FTRL, Proximal*, AdagradDA */
    double l2_shrinkage;        /* FTRL */
    double l2;                  /* any kind: l2 * variable is added to the gradient */
    double clip_value;          /* any kind: each element of the gradient is limited to +-clip_value; 0: no limit */
    /* any kind: decay rate of a moving average of the variable, which is kept as an additional slot; 0: no average */
    double ema;
    /* How learning_rate follows the global step, as ps_optimizer_schedule() (ps.h) fills it in from a text. */
    uint32_t schedule;        /* ps_schedule_kind */
    uint32_t schedule_switch; /* 0 or 1: staircase or cycle, for the kinds of schedule that have it */
    /* number of first steps in which the rate rises from warmup_rate to learning_rate; 0: no such steps */
    double warmup_steps;
    double warmup_rate;
    /* The parameters of the schedule, in the order of README.md; unused ones are 0. PIECEWISE_CONSTANT: boundaries from index 0
     * on; the rate after each boundary from index 6 on. */
    double schedule_numbers[PS_SCHEDULE_NUMBERS];
    /* With ema, any kind: limits the decay rate of the n-th push (n from 1 on) to (1 + n) / (ema_updates + n); 0: no limit. 10 is
     * as in TensorFlow's ExponentialMovingAverage with num_updates. */
    double ema_updates;
} ps_optimizer;

/** Input of ps_cluster_resolve() besides the environment. psd and pstrain have flags of these names. Texts may be NULL. */
typedef struct ps_resolver_options {
    size_t struct_bytes;    /* filled by ps_resolver_options_init */
    const char *cluster;    /* cluster manager: slurm, mpi, kubernetes, torchrun, env or auto (NULL) */
    const char *job_name;   /* job of this process; NULL: taken from the environment */
    const char *task_index; /* task of this process, as "0"; NULL: taken from the environment */
    /* mpi: a FILE (every rank leaves its address beside it, in FILE.RANK), or HOST:PORT of ps task 0 */
    const char *rendezvous;
    const char *address_suffix;        /* slurm: appended to the name of each node, for example "-ib" */
    const char *ps_pods, *worker_pods; /* kubernetes: NAME.SERVICE of the pods; the first pod is NAME-0.SERVICE */
    const char *host_name;             /* name of this machine; NULL: the system's name */
    uint32_t ps_tasks;                 /* slurm, mpi, torchrun: the lowest ps_tasks ranks are ps; kubernetes: number of ps pods */
    uint32_t ps_per_node;              /* slurm: on each node, the first ps_per_node tasks are ps */
    uint32_t worker_tasks;             /* kubernetes: number of worker pods */
    uint32_t base_port;      /* port of the first task on a host; the host's further tasks get the following ports; 0: not set */
    uint32_t wait_ms;        /* ms to wait for other ranks at the rendezvous FILE; 0: read what is there, and write nothing */
    uint32_t directory_port; /* slurm, mpi, torchrun: port of ps task 0; the other tasks take any free port; 0: not set */
} ps_resolver_options;

typedef struct ps_resolved {
    /* the detected manager: slurm, mpi, kubernetes, torchrun or env; "none": no manager's environment variables are set */
    char manager[16];
    char job[64];     /* job of this process; "": not known */
    int32_t task;     /* task of this process; -1: not known */
    char listen[276]; /* address on which this ps task listens; "": its address in the cluster spec */
    char why[1022];   /* the environment variables that decided, as "NAME=VALUE, NAME=VALUE"; long values are cut */
} ps_resolved;

typedef enum ps_checkpoint_state {
    PS_CHECKPOINT_WHOLE = 1,   /* all tasks have their part, and know that all other parts are complete */
    PS_CHECKPOINT_WRITING = 2, /* the checkpoint is being made */
    /* all tasks have written their part, but some task does not know yet that the checkpoint is complete, or has lost its part */
    PS_CHECKPOINT_IN_PART = 3,
    PS_CHECKPOINT_UNUSABLE = 4, /* the manifest is damaged or of another cluster, or a file was found to be bad */
    /* No checkpoint, but an entry about the last attempt, which failed or could not begin (number 0). Shown until a checkpoint is
     * saved. */
    PS_CHECKPOINT_FAILED = 5
} ps_checkpoint_state;

/** What a task waits for, as its answer says. */
typedef enum ps_waiting {
    PS_WAITING_UNSAID = 0, /* the task waits for nothing, or is of an older release, which says only as text what it waits for */
    /* the directory (the first ps task) waits for tasks of its job that are not connected or have not reported what they hold */
    PS_WAITING_TASKS = 1,
    PS_WAITING_LOAD = 2,   /* the task waits for the checkpoint with which it starts: it is not chosen or not loaded yet */
    PS_WAITING_RETRY = 3,  /* loading failed for lack of memory or because of a disk, and is tried again */
    PS_WAITING_REFUSED = 4 /* the task does not start before an operator corrects something */
} ps_waiting;

/* Constructors return pointers to constants or to thread-local memory, which is overwritten after 16 further constructor calls on
 * the same thread. Functions that take such a pointer copy at once. Any thread; never NULL. */
PS_API const ps_initializer *ps_zeros(void);
PS_API const ps_initializer *ps_ones(void);
PS_API const ps_initializer *ps_constant(double value);
PS_API const ps_initializer *ps_uniform(double low, double high);
PS_API const ps_initializer *ps_normal(double mean, double stddev);
PS_API const ps_initializer *ps_glorot(ps_fan fan); /* Glorot's uniform distribution */
PS_API const ps_initializer *ps_truncated_normal(double mean, double stddev);
PS_API const ps_initializer *ps_he_normal(ps_fan fan);
PS_API const ps_initializer *ps_he_uniform(ps_fan fan);
PS_API const ps_optimizer *ps_no_optimizer(void);
PS_API const ps_optimizer *ps_sgd(double learning_rate);
PS_API const ps_optimizer *ps_momentum(double learning_rate, double momentum);
PS_API const ps_optimizer *ps_nesterov(double learning_rate, double momentum);
PS_API const ps_optimizer *ps_adagrad(double learning_rate); /* initial accumulator: 0.1 */
PS_API const ps_optimizer *ps_adagrad_from(double learning_rate, double initial_accumulator);
PS_API const ps_optimizer *ps_adam(double learning_rate); /* beta1 0.9, beta2 0.999, epsilon 1e-8 */
PS_API const ps_optimizer *ps_adam_with(double learning_rate, double beta1, double beta2, double epsilon);
/** An optimizer of any kind. Its other hyperparameters have the standard values of README.md, or 0 if README.md gives none.
 * ps_optimizer_parse() (ps.h) sets all hyperparameters. */
PS_API const ps_optimizer *ps_optimizer_standard(ps_opt_kind kind, double learning_rate);

#ifdef __cplusplus
}
#endif
#endif
