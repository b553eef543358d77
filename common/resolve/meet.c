/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meeting of the ranks of an MPI job, at a path that all hosts share.
 *
 * Happy path: this rank writes FILE.RANK beside its place and renames it, which other hosts see whole or not at all -> the files
 * of the other ranks are read until all are there. A text has the address and the job's name; a file that an earlier job left
 * has another name, and its rank is waited for. MPICH gives jobs no name: there a file of this rank with another address is
 * refused, as one that was left.
 *
 * Failure: the directory cannot be written, a rank that does not come in time, a file that was left.
 */
#include "resolve.h"

#include "common/mem.h"
#include "common/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MAX = sizeof(((struct psi_meeting *)0)->text), LOOK_MS = 50 };

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void path_of(const char *file, uint32_t rank, const char *behind, char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s.%u%s", file, rank, behind); /* the caller has checked the length */
}

/* Read what a rank has left. text [TEXT_MAX]; "": nothing. */
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
    int why = n < 0 ? errno : ENOSPC;
    bool closed = close(fd) == 0; /* over NFS this is where a full disk shows */
    return n == (ssize_t)strlen(text) && closed ? PS_OK : psi_fail_errno(err, why, "write", path);
}

static ps_status write_rank(const char *file, const struct psi_meeting *m, struct psi_err *err)
{
    char path[PATH_MAX], aside[PATH_MAX], there[TEXT_MAX];
    if (strlen(file) > PATH_MAX - 32) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "--rendezvous: the path is too long");
    }
    path_of(file, m->rank, "", path);
    path_of(file, m->rank, ".new", aside);
    ps_status st = read_rank(file, m->rank, there, err);
    const char *job = strchr(m->text, ' ');
    if (st == PS_OK && there[0] != '\0' && strcmp(job, " -") == 0 && strcmp(there, m->text) != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "--rendezvous: %.200s is there, with %.100s; remove what an earlier job has left", path, there);
    }
    st = st == PS_OK ? write_whole(aside, m->text, err) : st;
    return st != PS_OK || rename(aside, path) == 0 ? st : psi_fail_errno(err, errno, "rename", path);
}

/* Look once for all ranks that were not seen yet, and decide. */
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

static ps_status meet(const ps_resolver_options *o, char *const *environment, const struct psi_meeting *m, struct psi_cluster *c,
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
            (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000L}, NULL); /* sleep: no event crosses a file system */
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
        (void)gethostname(host, sizeof(host) - 1); /* on failure "", which is refused where it counts */
        here.host_name = host;
    }
    ps_status st = psi_cluster_resolve(&here, environment, NULL, c, out, &meeting, err);
    return st == PS_OK && meeting.needed ? meet(&here, environment, &meeting, c, out, err) : st;
}
