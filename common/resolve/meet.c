/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of an MPI job tell each other their addresses by files at a path that all hosts share. Happy path: each rank writes
 * FILE.RANK.new and renames it to FILE.RANK, so that other hosts see the whole text or none. Then it reads the files of all ranks
 * again and again, until all are there. A file has the rank's address and the job's name. A file with the name of another job is
 * left from an earlier job, and counts as missing. MPICH gives jobs no name: there a rank fails if its own file exists with
 * another text. Rank 0 may take a free port, where the other ranks find the directory. Failure: a file cannot be written, a rank
 * does not come in time, a file of an earlier job, no free port. */
#include "resolve.h"

#include "common/mem.h"
#include "common/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MAX = sizeof(((struct psi_meeting *)0)->text), LOOK_MS = 50 };

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void path_of(const char *file, uint32_t rank, const char *behind, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s.%u%s", file, rank, behind); /* the caller has checked the length */
}

static ps_status read_rank(const char *file, uint32_t rank, char *text, struct psi_err *err)
{
    char path[PATH_MAX];
    struct psi_buf content;
    path_of(file, rank, "", path);
    ps_status st = psi_text_file_read("rendezvous file", path, TEXT_MAX - 1, &content, err);
    text[0] = '\0';
    if (st == PS_OK) {
        memcpy(text, content.data, content.len);
        text[content.len] = '\0';
    }
    psi_buf_fini(&content);
    return st == PS_NOT_FOUND ? PS_OK : st;
}

static ps_status write_whole(const char *path, const char *text, struct psi_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return psi_fail_errno(err, errno, "open", path);
    }
    ssize_t n = write(fd, text, strlen(text));
    bool whole = n == (ssize_t)strlen(text);
    int why = n < 0 ? errno : ENOSPC;
    if (close(fd) != 0 && whole) { /* over NFS a full disk shows at close() */
        whole = false;
        why = errno;
    }
    return whole ? PS_OK : psi_fail_errno(err, why, "write", path);
}

/* The free port that take_port() has chosen for this process; 0: none yet. If the cluster is resolved again, the port stays. */
static atomic_uint taken;

/* Take a free port of this machine. Its socket never listens and stays open until the process ends: the system gives the port to
 * nobody else meanwhile, and the task can listen there, because both sockets have SO_REUSEADDR. */
static ps_status take_port(unsigned *out, struct psi_err *err)
{
    const int on = 1;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof(at);
    *out = atomic_load(&taken);
    if (*out != 0) {
        return PS_OK;
    }
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                      bind(fd, (const struct sockaddr *)(const void *)&at, bytes) == 0 &&
                      getsockname(fd, (struct sockaddr *)(void *)&at, &bytes) == 0;
    const int why = errno;
    if (good && atomic_compare_exchange_strong(&taken, out, ntohs(at.sin_port))) {
        *out = ntohs(at.sin_port);
        return PS_OK;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    /* good is true here if another thread took a port first: *out has that port */
    return good ? PS_OK : psi_fail_errno(err, why, "bind", "a free port");
}

static ps_status settle_port(struct psi_meeting *m, struct psi_err *err)
{
    char text[TEXT_MAX];
    const char *job = strchr(m->text, ' ');
    unsigned port = 0;
    const ps_status st = take_port(&port, err);
    (void)snprintf(text, sizeof(text), "%.*s%u%s", (int)(job - m->text) - 1, m->text, port, job);
    memcpy(m->text, text, sizeof(text));
    return st;
}

static ps_status write_rank(const char *file, struct psi_meeting *m, struct psi_err *err)
{
    char path[PATH_MAX], aside[PATH_MAX], there[TEXT_MAX];
    if (strlen(file) > PATH_MAX - 32) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "--rendezvous: the path is too long");
    }
    path_of(file, m->rank, "", path);
    path_of(file, m->rank, ".new", aside);
    ps_status st = m->takes_port ? settle_port(m, err) : PS_OK;
    st = st == PS_OK ? read_rank(file, m->rank, there, err) : st;
    const char *job = strchr(m->text, ' ');
    if (st == PS_OK && there[0] != '\0' && strcmp(job, " -") == 0 && strcmp(there, m->text) != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "--rendezvous: %.200s is there, with %.100s; remove what an earlier job has left", path, there);
    }
    st = st == PS_OK ? write_whole(aside, m->text, err) : st;
    return st != PS_OK || rename(aside, path) == 0 ? st : psi_fail_errno(err, errno, "rename", path);
}

static ps_status read_ranks(const ps_resolver_options *o, char *const *environment, const struct psi_meeting *m,
                            char (*texts)[TEXT_MAX], struct psi_cluster *c, ps_resolved *out, struct psi_err *err)
{
    const char *at[PS_TASKS_MAX];
    struct psi_meeting again;
    ps_status st = PS_OK;
    for (uint32_t rank = 0; st == PS_OK && rank < m->count; rank++) {
        st = read_rank(o->rendezvous, rank, texts[rank], err);
        at[rank] = texts[rank][0] != '\0' ? texts[rank] : NULL;
    }
    return st == PS_OK ? psi_cluster_resolve(o, environment, &(struct psi_met){m->count, at}, c, out, &again, err) : st;
}

static ps_status meet(const ps_resolver_options *o, char *const *environment, struct psi_meeting *m, struct psi_cluster *c,
                      ps_resolved *out, struct psi_err *err)
{
    const int64_t end = now_ms() + o->wait_ms;
    char(*texts)[TEXT_MAX] = psi_calloc(m->count, sizeof(*texts));
    ps_status st = texts == NULL    ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for the addresses of the ranks")
                   : o->wait_ms > 0 ? write_rank(o->rendezvous, m, err)
                                    : PS_OK;
    if (st == PS_OK) {
        st = read_ranks(o, environment, m, texts, c, out, err);
        while (st == PS_UNAVAILABLE && now_ms() < end) {
            (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL); /* sleep: no event tells of a file that
                                                                                       * another host makes */
            st = read_ranks(o, environment, m, texts, c, out, err);
        }
    }
    psi_free(texts);
    return st;
}

ps_status psi_cluster_resolve_here(const ps_resolver_options *o, char *const *environment, struct psi_cluster *c,
                                   ps_resolved *out, struct psi_err *err)
{
    char host[PS_HOST_BYTES_MAX + 1] = "";
    struct psi_meeting meeting;
    ps_resolver_options here = *o;
    if (here.host_name == NULL) {
        (void)gethostname(host, sizeof(host) - 1); /* on failure "", which is refused where a name is needed */
        here.host_name = host;
    }
    ps_status st = psi_cluster_resolve(&here, environment, NULL, c, out, &meeting, err);
    return st == PS_OK && meeting.needed ? meet(&here, environment, &meeting, c, out, err) : st;
}
