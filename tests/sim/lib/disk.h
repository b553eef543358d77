/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk in memory, as a struct psd_fs: what a program sees, and what a power cut leaves of it.
 *
 * What is not synced may be old or new after a cut, each sector of 512 bytes and each change of a directory (a new name, a
 * rename, a removal) for itself, also a length without the bytes that belong to it. A sync of a file that fails has written some
 * of them, and the next one knows nothing of the others, as on Linux. All of it follows from the seed.
 */
#ifndef TESTS_SIM_LIB_DISK_H
#define TESTS_SIM_LIB_DISK_H

#include "psd/durable/fs.h"

struct sim_disk;

struct sim_disk *sim_disk_new(uint64_t seed);
void sim_disk_free(struct sim_disk *d);
/** Its calls, until sim_disk_free(). */
void sim_disk_fs(struct sim_disk *d, struct psd_fs *fs);
/** `other` is the directory of that task, beside it; NULL: there is none. */
void sim_disk_beside(struct sim_disk *d, uint32_t task, struct sim_disk *other);
/** One of so many calls that change something fails, EIO or ENOSPC; 0: none. */
void sim_disk_fail_one_in(struct sim_disk *d, uint32_t calls);
/** After so many calls that change something each one fails, and changes nothing: its process has ended. Until kill or cut. */
void sim_disk_die_after(struct sim_disk *d, uint32_t calls);
/** The process ends: its descriptors are closed. */
void sim_disk_kill(struct sim_disk *d);
/** The power goes: what was not synced is decided. */
void sim_disk_cut(struct sim_disk *d);
/** One bit of a file that has any bytes turns, on the disk and for who reads it; false: there is none. */
bool sim_disk_flip(struct sim_disk *d);

#endif
