/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a safetensors file: text in, table out, and back. Pure: the caller reads and writes the file.
 *
 *   bytes 0..7    N, u64 little-endian: bytes of the header
 *   8..8+N        JSON: {"__metadata__":{"k":"v"},"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[begin,end]},...}, maybe
 *                 with blanks behind it
 *   8+N..         the values, row-major, little-endian; offsets count from here, without holes or overlap to the end of the file
 *
 * Any thread.
 */
#ifndef PSI_SAFETENSORS_H
#define PSI_SAFETENSORS_H

#include "buf.h"

/* The format's own parser (safetensors 0.4, MAX_HEADER_SIZE) reads no longer header. It alone limits the number of tensors. */
#define PSI_SAFETENSORS_HEADER_MAX ((uint64_t)100000000)
/* psi_json_bound() of one entry of the header, which needs less than 20: at most 75 MB of memory at a time. A header of millions
 * of entries takes no more than that besides its table, because each entry is parsed alone. */
#define PSI_SAFETENSORS_MARKS_MAX ((size_t)1 << 19)
enum { PSI_SAFETENSORS_PREFIX = 8 };

/** An element type of the format. All types of whole bytes are known, also those that no variable can have. */
struct psi_tensor_type {
    const char *name;
    uint32_t bytes;
    ps_dtype dtype; /* PS_DTYPE_NONE: no variable can have it */
};
/** NULL: unknown. */
const struct psi_tensor_type *psi_tensor_type_find(const char *name);
/** NULL: PS_STRING, or an unknown dtype. */
const struct psi_tensor_type *psi_tensor_type_of(ps_dtype dtype);

struct psi_tensor {
    char *name; /* NUL-terminated; owned by a table that was read */
    const struct psi_tensor_type *type;
    ps_shape shape;      /* dimensions of 0 are possible in other programs' files */
    uint64_t begin, end; /* bytes from the end of the header */
};
struct psi_tensor_metadata {
    char *key, *value; /* UTF-8, NUL-terminated */
};
/** A header that was read. Zero it before first use. */
struct psi_safetensors {
    struct psi_tensor *tensors; /* in the order of the header */
    size_t tensor_count;
    struct psi_tensor_metadata *metadata;
    size_t metadata_count;
    uint64_t data_start; /* offset of the values in the file */
    uint64_t data_bytes;
};

/** The caller's wishes about tensors, for psi_safetensors_decode(). Each function may be NULL. */
struct psi_tensor_reader {
    /* Says whether a tensor is wanted; NULL: all are. Of an unwanted one only the name is looked at: its entry need not be
     * parseable, and its values may be missing from the file. */
    ps_status (*takes)(void *ctx, const char *name, bool *out_takes, struct psi_err *err);
    /* Checks the name of a wanted tensor, before anything else of it is looked at. */
    ps_status (*check_name)(void *ctx, const char *name, struct psi_err *err);
    /* A tensor of this name is wrong, as err (INVALID_ARGUMENT) says. PS_OK: it stays out of the table, the next one is read,
     * and the caller refuses the file in the end. NULL: decoding fails with err. */
    ps_status (*refused)(void *ctx, const char *name, struct psi_err *err);
    void *ctx;
    /* Seed of the map of names: random, so that nobody can choose names that collide. Zeros: the file's writer is trusted. */
    uint64_t map_seed[2];
};

/**
 * Bytes of the header, from the first 8 of a file of file_bytes.
 * Errors  PS_INVALID_ARGUMENT: longer than the limit or the file, or too short for any header.
 */
PSI_MUST ps_status psi_safetensors_length(const uint8_t prefix[PSI_SAFETENSORS_PREFIX], uint64_t file_bytes,
                                          uint64_t *out_header_bytes, struct psi_err *err);
/**
 * Read a header of header_bytes, which psi_safetensors_length() has allowed, and check all wanted tensors, against each other
 * and the file. If all are wanted, their values cover the file without holes; otherwise the values of the wanted ones do not
 * overlap. Memory: the table, and PSI_SAFETENSORS_MARKS_MAX.
 *
 * reader      NULL: all tensors are wanted, with any names, and the first fault ends decoding.
 * out         zeroed; gives; psi_safetensors_fini(). Gets the wanted tensors. Zeroed again on failure.
 * Errors      PS_INVALID_ARGUMENT naming the tensor; PS_RESOURCE_EXHAUSTED; those of reader.
 */
PSI_MUST ps_status psi_safetensors_decode(const char *header, size_t header_bytes, uint64_t file_bytes,
                                          const struct psi_tensor_reader *reader, struct psi_safetensors *out,
                                          struct psi_err *err);
void psi_safetensors_fini(struct psi_safetensors *s);
/** NULL: no such key. */
const char *psi_safetensors_metadata(const struct psi_safetensors *s, const char *key);

/**
 * Lay out tensors, and append prefix and header to out. The header has them in the given order. The values go into the file by
 * falling element size, and among equal sizes in the given order, so that all are aligned without holes.
 *
 * tensors   name, type, shape set; begin and end are written. Names are unique.
 * metadata  UTF-8; unique keys.
 * out       len is a multiple of 8, before and afterwards.
 * Errors    PS_INVALID_ARGUMENT (a name or value is not UTF-8, a name twice, over the limits of the header),
 *           PS_RESOURCE_EXHAUSTED.
 */
PSI_MUST ps_status psi_safetensors_encode(struct psi_tensor *tensors, size_t count, const struct psi_tensor_metadata *metadata,
                                          size_t metadata_count, struct psi_buf *out, struct psi_err *err);

#endif
