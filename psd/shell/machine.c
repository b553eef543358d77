/* SPDX-License-Identifier: Apache-2.0 */
/* Memory limit and inherited sockets.
 *
 * Happy path: /proc/self/cgroup names the cgroup; memory.max (version 2) or memory.limit_in_bytes (version 1) of this and every
 * cgroup above are read, and the lowest counts. Failure modes: a file that cannot be read sets no limit. */
#include "machine.h"

#include "common/name.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_MAX_BYTES = 1024, INHERITED_MAX = 1024, KEPT_BYTES = 1 << 20 };

/* Read the limit in one file. UINT64_MAX: the file says "max", or cannot be read. */
static uint64_t read_limit(const char *path)
{
    char line[64] = "";
    uint64_t value = 0;
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return UINT64_MAX;
    }
    bool good = fgets(line, sizeof(line), f) != NULL;
    (void)fclose(f);
    line[strcspn(line, "\n")] = '\0';
    return good && psi_number_read(line, strlen(line), UINT64_MAX, &value) && value > 0 ? value : UINT64_MAX;
}

/* Find the lowest limit from `group`, which begins with '/', up to the root of the hierarchy mounted at `root`. */
static uint64_t lowest_limit(const char *root, const char *group, const char *file)
{
    char path[PATH_MAX_BYTES * 2];
    char walk[PATH_MAX_BYTES];
    uint64_t lowest = UINT64_MAX;
    (void)snprintf(walk, sizeof(walk), "%s", group);
    for (;;) {
        (void)snprintf(path, sizeof(path), "%s%s/%s", root, walk, file);
        uint64_t limit = read_limit(path);
        lowest = limit < lowest ? limit : lowest;
        char *slash = strrchr(walk, '/');
        if (slash == NULL) {
            return lowest;
        }
        *slash = '\0';
    }
}

static uint64_t cgroup_limit(void)
{
    char line[PATH_MAX_BYTES];
    uint64_t lowest = UINT64_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (f == NULL) {
        return lowest;
    }
    while (fgets(line, sizeof(line), f) != NULL) {
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        uint64_t limit = UINT64_MAX;
        line[strcspn(line, "\n")] = '\0';
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        if (controllers[1] == '\0') {
            limit = lowest_limit("/sys/fs/cgroup", group, "memory.max");
        } else if (strstr(controllers, "memory") != NULL) {
            limit = lowest_limit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        }
        lowest = limit < lowest ? limit : lowest;
    }
    (void)fclose(f);
    return lowest;
}

uint64_t psd_machine_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t machine = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : (uint64_t)1 << 30;
    uint64_t limit = cgroup_limit();
    return limit < machine ? limit : machine;
}

ps_status psd_inherited_sockets(size_t *out_count, struct psi_err *err)
{
    const char *fds = getenv("LISTEN_FDS");
    const char *pid = getenv("LISTEN_PID");
    uint64_t count = 0;
    uint64_t who = 0;
    *out_count = 0;
    if (fds == NULL || pid == NULL) {
        return PS_OK;
    }
    if (!psi_number_read(pid, strlen(pid), INT32_MAX, &who) || !psi_number_read(fds, strlen(fds), INHERITED_MAX, &count)) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "LISTEN_PID '%.32s' and LISTEN_FDS '%.32s' must be numbers (at most %d sockets)", pid, fds,
                        INHERITED_MAX);
    }
    if (who == (uint64_t)getpid()) {
        *out_count = (size_t)count;
    }
    return PS_OK;
}

void psd_machine_keep_little(void)
{
#ifdef __GLIBC__
    PSI_IGNORE(mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)); /* on failure free memory only goes back to the system later */
    PSI_IGNORE(mallopt(M_MXFAST, 0)); /* on failure the next large malloc() takes longer, while it joins all freed small pieces */
#endif
}

void psd_machine_give_back(void)
{
#ifdef __GLIBC__
    PSI_IGNORE(malloc_trim(0)); /* the result only says whether there was any memory to give */
#endif
}
