/* SPDX-License-Identifier: Apache-2.0 */
/* Command-line options that fill in ps_resolver_options: rows for the tables of options of all programs. */
#ifndef PSI_RESOLVE_ROWS_H
#define PSI_RESOLVE_ROWS_H

#include "common/limits.h"
#include "common/status.h"

/* Rows of a table of options, ROW(field of ps_resolver_options, type, name of the value, help, further fields). */
#define PSI_RESOLVER_ROWS(ROW)                                                                                                   \
    ROW(ps_tasks, INT, "N",                                                                                                      \
        "With --cluster slurm, mpi or torchrun: the first N ranks are ps tasks, the others workers. kubernetes: pods of job ps", \
        .max = PS_TASKS_MAX)                                                                                                     \
    ROW(ps_per_node, INT, "N",                                                                                                   \
        "With --cluster slurm: the first N tasks of each node are ps tasks; with --ps_tasks only until that many are",           \
        .max = PS_TASKS_MAX)                                                                                                     \
    ROW(worker_tasks, INT, "N", "With --cluster kubernetes: pods of job worker; 0: none is listed", .max = PS_TASKS_MAX)         \
    ROW(base_port, INT, "PORT",                                                                                                  \
        "Port of the first task on a host, the others count on; default: Slurm's reserved ports, with kubernetes 2222",          \
        .max = UINT16_MAX)                                                                                                       \
    ROW(directory_port, INT, "PORT",                                                                                             \
        "With --cluster slurm, mpi or torchrun, instead of --base_port: port of ps task 0; the other tasks take any free port",  \
        .max = UINT16_MAX)                                                                                                       \
    ROW(ps_pods, TEXT, "NAME.SERVICE", "With --cluster kubernetes: pods of job ps are NAME-0.SERVICE, NAME-1.SERVICE, ...")      \
    ROW(worker_pods, TEXT, "NAME.SERVICE", "With --cluster kubernetes: pods of job worker")                                      \
    ROW(rendezvous, TEXT, "FILE|HOST:PORT",                                                                                      \
        "With --cluster mpi: a path that all hosts share, beside which each rank leaves its address as FILE.RANK (without "      \
        "--base_port and --directory_port at a free port); or the address of ps task 0")                                         \
    ROW(address_suffix, TEXT, "TEXT", "With --cluster slurm: what follows the name of a node in its address, as -ib")
enum { PSI_RESOLVER_ROW_COUNT = 9, PSI_RENDEZVOUS_MS = 120000 /* default time for which programs wait for other ranks */ };

/** True if text, a value of --cluster, is the name of a manager, neither a spec nor @FILE. */
bool psi_resolver_named(const char *text);

#endif
