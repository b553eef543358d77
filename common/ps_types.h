/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types that all public headers of psd share: status codes, data types, shapes, initializers and optimizers.
 * Installed beside ps.h, ps_nn.h and psd.h; C11 and C++17.
 */
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

/** What a call ended with: TensorFlow's (and gRPC's) canonical codes with their numbers. */
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

/** What a failed call did to the state on the ps. A timeout does not mean "not applied". */
typedef enum ps_applied {
    PS_NOTHING_APPLIED = 0, /* safe to repeat */
    PS_MAYBE_PARTLY_APPLIED = 1,
    PS_OUTCOME_UNKNOWN = 2
} ps_applied;

/** Why a call failed, for programs: X(name, number, text). The status says what to do about the failure, the reason which of its
 * causes it has. Numbers are on the wire: never reused. A reason below 32 is a status, when nothing more is known. A newer
 * server may send numbers that are not here: go by the status then. */
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
    X(IDENTITY, 61, "the peer is not who may do that: another identity's session, or one without rights")
typedef enum ps_reason {
    PS_REASON_NONE = 0, /* no error */
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
    PS_STRING = 10 /* an element is any bytes, also NUL; a variable holds at most PS_STRING_BYTES_MAX in all */
} ps_dtype;
/** Bytes of all elements of a string variable together. */
#define PS_STRING_BYTES_MAX ((size_t)1 << 20)
/** Elements of a string variable. */
#define PS_STRING_ELEMENTS_MAX ((size_t)1 << 17)
/** Bytes of a call's output (ps_call) for which its task always has room. */
#define PS_CALL_BYTES_MAX ((size_t)64 << 10)
/** Bytes of a call's input at most, and of its output at most if its caller has room for so many. */
#define PS_CALL_LARGE_BYTES_MAX ((size_t)1 << 30)
/** Bytes of the value of an `atomic` variable at most. */
#define PS_ATOMIC_BYTES_MAX ((size_t)4 << 20)

#define PS_VERSION "0.1.0"
#define PS_RANK_MAX 8

/** A tensor's dimensions, row-major. rank 0 is a scalar (one element). */
typedef struct ps_shape {
    uint32_t rank;
    uint32_t reserved;
    int64_t dims[PS_RANK_MAX];
} ps_shape;

/** Ends the dimensions of ps_shape_of(). It is no dimension itself. */
#define PS_SHAPE_END INT64_MIN
/** The shape with the given dimensions; the first PS_SHAPE_END ends the list. Any thread. PS_SHAPE(n, 10) has two dimensions for
 * any n: the function that gets the shape refuses a negative one, such as -1 for an unknown size, with a text. More than
 * PS_RANK_MAX dimensions cannot be written; PS_SHAPE() refuses them at compile time. */
PS_API ps_shape ps_shape_of(int64_t d0, int64_t d1, int64_t d2, int64_t d3, int64_t d4, int64_t d5, int64_t d6, int64_t d7);
#define PS_SHAPE(...)                                                                                                            \
    PSI_SHAPE8(__VA_ARGS__, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END, PS_SHAPE_END,    \
               PS_SHAPE_END, 0)
#define PSI_SHAPE8(a, b, c, d, e, f, g, h, ...) ps_shape_of(a, b, c, d, e, f, g, h)
#define PS_SCALAR PSI_SHAPE8(PS_SHAPE_END, 0, 0, 0, 0, 0, 0, 0, 0)

/** Name of a status in upper case ("FAILED_PRECONDITION"); never NULL. Any thread. */
PS_API const char *ps_status_name(ps_status st);
/** Name of a reason in upper case ("UNINITIALIZED"): the status's name if it says no more than the status; "NONE";
 * "UNKNOWN_REASON" for a number of a newer server. Never NULL. Any thread. */
PS_API const char *ps_reason_name(ps_reason reason);
/** A reason in a few words, without a full stop; never NULL. Any thread. */
PS_API const char *ps_reason_text(ps_reason reason);
/** Name of a dtype as users write it ("float32"); "none" for PS_DTYPE_NONE, "invalid" otherwise. Any thread. */
PS_API const char *ps_dtype_name(ps_dtype dtype);
/** Bytes per element; 0 for PS_STRING, whose elements have no size of their own, and for an unknown dtype. Any thread. */
PS_API size_t ps_dtype_bytes(ps_dtype dtype);
/** Product of the dimensions, or -1 on a negative dimension or overflow. Any thread. */
PS_API int64_t ps_shape_elements(const ps_shape *shape);

/** How a variable gets its first values. The owner evaluates it: element i depends on (seed, name, i) only. */
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
/** Which dimensions of a shape Glorot's and He's initializers take for the inputs and the outputs of a layer. fan_in is the
 * number of inputs times the receptive field, fan_out the number of outputs times the receptive field; the receptive field is
 * the product of all other dimensions. With one dimension both fans are that dimension, with none both are 1. */
typedef enum ps_fan {
    /* The last two dimensions: TensorFlow's (in, out), and (height, width, in, out) of a convolution (_compute_fans). */
    PS_FAN_IN_OUT = 0,
    /* The first two dimensions: PyTorch's (out, in), and (out, in, height, width) of a convolution;
     * _calculate_fan_in_and_fan_out in PyTorch's torch/nn/init.py. */
    PS_FAN_OUT_IN = 1
} ps_fan;
typedef struct ps_initializer {
    uint32_t kind; /* ps_init_kind */
    uint32_t fan;  /* ps_fan; of GLOROT_UNIFORM, HE_NORMAL and HE_UNIFORM */
    double a, b;
} ps_initializer;

/** Update rules that run on the ps; docs/PROTOCOL.md has the formulas. The numbers are on the wire and on disk: never reused. */
typedef enum ps_opt_kind {
    PS_OPT_NONE = 0, /* the variable cannot be pushed to */
    PS_OPT_SGD = 1,
    PS_OPT_MOMENTUM = 2,
    PS_OPT_ADAGRAD = 3,
    PS_OPT_ADAM = 4,
    PS_OPT_ADAGRAD_V2 = 5,
    PS_OPT_ADAGRAD_DA = 6,
    PS_OPT_ADADELTA = 7,
    PS_OPT_RMSPROP = 8,
    PS_OPT_RMSPROP_CENTERED = 9,
    PS_OPT_ADAMW = 10,    /* PyTorch's: the decay is multiplied by the rate */
    PS_OPT_ADAMW_TF = 11, /* TensorFlow's: the decay is not multiplied by the rate */
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
    PS_OPT_LAZY_ADAM = 25,       /* adam, of which a push of rows moves these rows only */
    PS_OPT_ROWWISE_ADAGRAD = 26, /* one sum of squares for each row, which is of their mean */
    PS_OPT_ROWWISE_ADAM = 27,    /* one mean of squares for each row; a push of rows moves these rows only */
    PS_OPT_LAMB = 28,
    PS_OPT_LARS = 29
} ps_opt_kind;
/** How a learning rate follows the global step: TensorFlow's functions of these names, README.md has the formulas. The numbers
 * are on the wire and on disk: never reused. */
typedef enum ps_schedule_kind {
    PS_SCHEDULE_NONE = 0, /* the rate stays */
    PS_SCHEDULE_CONSTANT = 1,
    PS_SCHEDULE_EXPONENTIAL_DECAY = 2,
    PS_SCHEDULE_INVERSE_TIME_DECAY = 3,
    PS_SCHEDULE_POLYNOMIAL_DECAY = 4,
    PS_SCHEDULE_PIECEWISE_CONSTANT = 5,
    PS_SCHEDULE_COSINE_DECAY = 6,
    PS_SCHEDULE_COSINE_DECAY_RESTARTS = 7
} ps_schedule_kind;
enum { PS_SCHEDULE_NUMBERS = 12, PS_SCHEDULE_BOUNDARIES_MAX = 6 };

/** An optimizer with its hyperparameters. A kind uses the fields that its row in README.md names. The others are 0. Constructors
 * and ps_optimizer_parse() fill it in. A program that changes a field changes a copy that ps_optimizer_parse() made. */
typedef struct ps_optimizer {
    size_t struct_bytes;        /* of the struct as its maker knows it; it grows at its end */
    uint32_t kind;              /* ps_opt_kind */
    uint32_t nesterov;          /* 0 or 1; Momentum only */
    double learning_rate;       /* > 0 */
    double momentum;            /* share of the last step that goes on */
    double initial_accumulator; /* first value of sums of squared gradients */
    double beta1;               /* decay of the mean of gradients */
    double beta2;               /* decay of the mean of squared gradients; Adadelta's rho, RMSProp's decay */
    double epsilon;             /* is added to what a step is divided by */
    double weight_decay;        /* shrinks the variable beside the step: AdamW, Lion, LAMB, LARS */
    double power;               /* FTRL: of the accumulator; PowerSign: base; AddSign: alpha; LARS: eeta */
    double l1_strength;         /* FTRL, Proximal*, AdagradDA */
    double l2_strength;         /* FTRL, Proximal*, AdagradDA */
    double l2_shrinkage;        /* FTRL */
    double l2;                  /* any kind: l2 * variable is added to the gradient */
    double clip_value;          /* any kind: elements of the gradient are limited to +-clip_value; 0: no limit */
    double ema;                 /* any kind: decay of a moving average of the variable, in a slot of its own; 0: no average */
    /* How learning_rate follows the global step, as ps_optimizer_schedule() (ps.h) fills it in from a text. */
    uint32_t schedule;        /* ps_schedule_kind */
    uint32_t schedule_switch; /* 0 or 1: staircase, cycle */
    double warmup_steps;      /* the rate rises from warmup_rate to learning_rate first; 0: it does not */
    double warmup_rate;
    /* What the kind has, in the order of README.md. PIECEWISE_CONSTANT: from 0 on the boundaries, and from 6 on the rate behind
     * each of them. The others are 0. */
    double schedule_numbers[PS_SCHEDULE_NUMBERS];
} ps_optimizer;

/** What ps_cluster_resolve() knows besides the environment; the flags of psd and pstrain have these names. Texts may be NULL. */
typedef struct ps_resolver_options {
    size_t struct_bytes;    /* filled by ps_resolver_options_init */
    const char *cluster;    /* slurm, mpi, kubernetes, torchrun, env or auto (NULL) */
    const char *job_name;   /* job of this process; NULL: the variables say it */
    const char *task_index; /* "0": its task; NULL: the variables say it */
    /* mpi: FILE, where every rank leaves its address beside it, in FILE.RANK; or the HOST:PORT of the only ps task */
    const char *rendezvous;
    const char *address_suffix;        /* slurm: behind the name of each node, as in "-ib" */
    const char *ps_pods, *worker_pods; /* kubernetes: NAME.SERVICE; pod 0 is NAME-0.SERVICE */
    const char *host_name;             /* of this machine; NULL: the system is asked */
    uint32_t ps_tasks;                 /* slurm, mpi, torchrun: the first ranks are ps; kubernetes: pods that are ps */
    uint32_t ps_per_node;              /* slurm: the first tasks of each node are ps, so many */
    uint32_t worker_tasks;             /* kubernetes: pods that are workers */
    uint32_t base_port;                /* of the first task on a host, the others count on; 0: none */
    uint32_t wait_ms;                  /* for other ranks at the rendezvous FILE; 0: only look, leave nothing there */
    uint32_t reserved;
} ps_resolver_options;

/** What ps_cluster_resolve() has decided. */
typedef struct ps_resolved {
    char manager[16]; /* slurm, mpi, kubernetes, torchrun, env; "none": no variable of a manager is set */
    char job[64];     /* of this process; "": not known */
    int32_t task;     /* -1: not known */
    char listen[276]; /* where a ps task listens; "": at its address in the cluster */
    char why[1022];   /* the variables that decided, "NAME=VALUE, NAME=VALUE"; a long value is cut */
} ps_resolved;

/** State of a checkpoint, as its directory sees it. */
typedef enum ps_checkpoint_state {
    PS_CHECKPOINT_WHOLE = 1,    /* all tasks have their part, and know that it is whole */
    PS_CHECKPOINT_WRITING = 2,  /* the checkpoint is being made */
    PS_CHECKPOINT_IN_PART = 3,  /* all tasks have written their part; some task does not know so yet, or has lost its part */
    PS_CHECKPOINT_UNUSABLE = 4, /* its manifest is damaged or another cluster's, or one of its files was found to be bad */
    /* No checkpoint: the last attempt, which failed or could not begin (number 0). Listed until a checkpoint is saved. */
    PS_CHECKPOINT_FAILED = 5
} ps_checkpoint_state;

/** What a task waits for, as its answer says. */
typedef enum ps_waiting {
    PS_WAITING_UNSAID = 0, /* for nothing; or the task is of an older version, and its text alone says it */
    PS_WAITING_TASKS = 1,  /* the directory: for tasks of its job, which are not connected or whose lists have not come */
    PS_WAITING_LOAD = 2,   /* for the checkpoint that tasks begin with: it is not chosen, or not loaded yet */
    PS_WAITING_RETRY = 3,  /* the same load failed for want of memory, or of a disk, and is tried again */
    PS_WAITING_REFUSED = 4 /* tasks do not begin before somebody puts something right */
} ps_waiting;

/* Constructors return pointers to constants, or to one of a few thread-local slots, valid until 16 further calls of constructors
 * on that thread; the functions that take them copy at once. Any thread; never NULL. */
PS_API const ps_initializer *ps_zeros(void);
PS_API const ps_initializer *ps_ones(void);
PS_API const ps_initializer *ps_constant(double value);
PS_API const ps_initializer *ps_uniform(double low, double high);
PS_API const ps_initializer *ps_normal(double mean, double stddev);
PS_API const ps_initializer *ps_glorot(ps_fan fan); /* uniform */
PS_API const ps_initializer *ps_truncated_normal(double mean, double stddev);
PS_API const ps_initializer *ps_he_normal(ps_fan fan);
PS_API const ps_initializer *ps_he_uniform(ps_fan fan);
PS_API const ps_optimizer *ps_no_optimizer(void);
PS_API const ps_optimizer *ps_sgd(double learning_rate);
PS_API const ps_optimizer *ps_momentum(double learning_rate, double momentum);
PS_API const ps_optimizer *ps_nesterov(double learning_rate, double momentum);
PS_API const ps_optimizer *ps_adagrad(double learning_rate); /* initial accumulator 0.1 */
PS_API const ps_optimizer *ps_adagrad_from(double learning_rate, double initial_accumulator);
PS_API const ps_optimizer *ps_adam(double learning_rate); /* 0.9, 0.999, 1e-8 */
PS_API const ps_optimizer *ps_adam_with(double learning_rate, double beta1, double beta2, double epsilon);
/** Any kind, with the standard values of README.md; a hyperparameter without one is 0. ps_optimizer_parse() (ps.h) takes all. */
PS_API const ps_optimizer *ps_optimizer_standard(ps_opt_kind kind, double learning_rate);

#ifdef __cplusplus
}
#endif
#endif
