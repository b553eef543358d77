/* SPDX-License-Identifier: Apache-2.0 */
/* What psctl can do, one row each, in the order of `psctl --help`: first what looks, then what changes. */
#include "psctl.h"

const struct psctl_verb psctl_verbs[] = {
    {.name = "status",
     .arguments = "[TASK]",
     .summary = "tasks: up or down, what they hold, traffic",
     .args_max = 1,
     .flags = PSCTL_FLAG(WATCH),
     .words = "task",
     .run = psctl_status,
     .help = "One line per task and the total, or one TASK. RESTARTS are the processes that were the task before, since the\n"
             "directory began; LOST are variables that it had and its process of now has not. DATA is what its variables,\n"
             "their slots and values on their way take of its memory budget, not the size of the process. PUSHES/S and\n"
             "BYTES/S are of the last seconds. Exit status 1 when a task is down or has lost variables, or when two\n"
             "processes say that they are the same task. --watch asks again and again, on one session, and draws over the\n"
             "last round on a terminal; an interrupt ends it with exit status 0.\n"},
    {.name = "vars",
     .arguments = "[GLOB]",
     .summary = "variables: owner, shape, dtype, optimizer in force, version",
     .args_max = 1,
     .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(WATCH),
     .words = "variable",
     .run = psctl_vars,
     .help = "All variables of all tasks, with the optimizer and the values that are in force; or those that GLOB matches,\n"
             "such as 'layer1/*' (quote it), or of one container. STATE is `uninitialised`, `initialised`, or `ready` once\n"
             "the chief has declared the model ready. Variables that a task has lost are named, with exit status 1.\n"},
    {.name = "workers",
     .arguments = "",
     .summary = "sessions: who trains, at which step, last heard",
     .flags = PSCTL_FLAG(TASK) | PSCTL_FLAG(WATCH),
     .words = "",
     .run = psctl_workers,
     .help = "The sessions that the directory knows, which are all that created or looked up a variable; --task asks\n"
             "another task for those that are connected with it. A program that is no task of the cluster has - for a\n"
             "TASK; STEP is - until it has said one. STATE is `connected`, `stopping` once it was told to stop, or `gone`\n"
             "until the task forgets it (session_keep). While the directory is down the other tasks are asked for theirs.\n"},
    {.name = "waits",
     .arguments = "",
     .summary = "requests that wait: whose, for what, until when",
     .flags = PSCTL_FLAG(TASK) | PSCTL_FLAG(WATCH),
     .words = "",
     .run = psctl_waits,
     .help = "Each request that waits at a task, the oldest first: who, on what, since when, how long it still may, and\n"
             "what would end it. Requests that wait for a task that is down do so in their program and are not here.\n"},
    {.name = "get",
     .arguments = "NAME",
     .summary = "value of a variable",
     .args_min = 1,
     .args_max = 1,
     .flags = PSCTL_FLAG(NPY) | PSCTL_FLAG(CONTAINER),
     .words = "variable",
     .run = psctl_get,
     .help = "Prints the variable's definition and its first 1,000 values; with --json all of them (NaN and infinities as\n"
             "null). --npy FILE writes all values for numpy.load(); with - they go to standard output and nothing else\n"
             "does.\n"},
    {.name = "export",
     .arguments = "FILE",
     .summary = "all variables of a container into a safetensors file",
     .args_min = 1,
     .args_max = 1,
     .flags = PSCTL_FLAG(CONTAINER),
     .words = "",
     .run = psctl_export,
     .help = "Live values of all tasks; FILE appears whole or not at all, and PyTorch and NumPy read it\n"
             "(safetensors.torch.load_file). Values only, no slots. Not one instant of the whole model while workers\n"
             "push. --timeout is for each variable.\n"},
    {.name = "containers",
     .arguments = "",
     .summary = "containers: variables and bytes per task",
     .words = "",
     .run = psctl_containers,
     .help = "What each container holds on each task; BYTES are values and slots. INCARNATION changes with every reset.\n"},
    {.name = "devices",
     .arguments = "",
     .summary = "devices of the tasks, for placement",
     .words = "",
     .run = psctl_devices,
     .help = "The devices that a variable can be pinned to. MEMORY of a CPU is the budget of its task.\n"},
    {.name = "ping",
     .arguments = "",
     .summary = "round-trip time to each task",
     .words = "",
     .run = psctl_ping,
     .help = "The time of one empty request on an open connection.\n"},
    {.name = "config",
     .arguments = "[get [NAME] | set NAME VALUE]",
     .summary = "settings of the tasks",
     .args_max = 3,
     .flags = PSCTL_FLAG(TASK),
     .words = "get set task",
     .run = psctl_config,
     .help = "Value and default of every setting that the tasks run with, or of NAME. set changes a LIVE one while the\n"
             "tasks run, on all of them or on --task; it is not written to their files. Nothing is changed unless all of\n"
             "them have the setting and can change it. It does not ask: what it replaces is printed.\n"},
    {.name = "set",
     .arguments = "NAME [VALUE]",
     .summary = "give a variable new values",
     .args_min = 1,
     .args_max = 2,
     .flags = PSCTL_FLAG(NPY) | PSCTL_FLAG(FILL) | PSCTL_FLAG(CONTAINER),
     .words = "variable",
     .run = psctl_set,
     .help = "VALUE is one value for a scalar, else a list as deep as the shape, [[1, 2], [3, 4]], or flat, [1, 2, 3, 4];\n"
             "--fill takes one value for all elements. Texts of a string variable stand in double quotes in a list, and as\n"
             "they are without one. --npy FILE reads what numpy.save() wrote. Dtype and shape must be the variable's own.\n"
             "Slots of its optimizer stay. Prints the version before and after; does not ask.\n"},
    {.name = "import",
     .arguments = "FILE",
     .summary = "values of a safetensors file into the variables of a container",
     .args_min = 1,
     .args_max = 1,
     .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(YES),
     .words = "",
     .run = psctl_import,
     .help = "Of psctl export, or of anybody. The file is checked whole and compared with what exists before the first\n"
             "variable changes; missing variables are created, round robin in the order of the file. Slots of those that\n"
             "exist stay. Asks first on a terminal. --timeout is for each variable.\n"},
    {.name = "delete",
     .arguments = "NAME",
     .summary = "remove a variable",
     .args_min = 1,
     .args_max = 1,
     .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(YES),
     .words = "variable",
     .run = psctl_delete,
     .help = "The variable, its slots and its name are gone; programs that use it get ABORTED. Asks first on a\n"
             "terminal.\n"},
    {.name = "reset",
     .arguments = "[CONTAINER ...]",
     .summary = "empty containers on all tasks",
     .args_max = PSCTL_ARGS_MANY,
     .flags = PSCTL_FLAG(ALL) | PSCTL_FLAG(YES),
     .words = "container",
     .run = psctl_reset,
     .help = "Without an argument the default container, localhost, only; --all empties every container. Nothing is reset\n"
             "while a task is down. Programs that use what is gone get ABORTED. Asks first on a terminal;\n"
             "elsewhere --all needs --yes.\n"},
    {.name = "stop",
     .arguments = "",
     .summary = "tell every worker to stop",
     .flags = PSCTL_FLAG(YES),
     .words = "",
     .run = psctl_stop,
     .help = "ps_should_stop() becomes true in every session that the directory knows now; training loops end after their\n"
             "step. The tasks go on. While the directory is down the other tasks tell the sessions that they know. Asks\n"
             "first on a terminal.\n"},
    {.name = "shutdown",
     .arguments = "TASK",
     .summary = "let a task, or all with --all, finish and end",
     .args_max = 1,
     .flags = PSCTL_FLAG(ALL) | PSCTL_FLAG(YES),
     .words = "task",
     .run = psctl_shutdown,
     .help = "TASK, such as ps:1, or with --all every task of the cluster, the directory last. What they hold in memory is\n"
             "lost. Asks first on a terminal; elsewhere --all needs --yes.\n"},
    {.name = "help",
     .arguments = "[VERB]",
     .summary = "this, or what a verb does and takes",
     .args_max = 1,
     .words = "verb",
     .run = psctl_help,
     .help = "The same as psctl VERB --help.\n"},
    {.name = "completion",
     .arguments = "bash",
     .summary = "print the script that completes command lines",
     .args_min = 1,
     .args_max = 1,
     .words = "bash",
     .run = psctl_completion,
     .help = "For bash: eval \"$(psctl completion bash)\", or the same script as a file in bash-completion's folder.\n"},
    {.name = NULL},
};
