/* SPDX-License-Identifier: Apache-2.0 */
/* Settings as data: a program declares one table of rows; flags, the configuration file, --help and the listing for `psctl
 * config` all come from it. The sources of a value, in rising precedence: default, file, environment, flag, in whatever order
 * they are read. Pure; one thread at a time. */
#ifndef PSI_OPTIONS_H
#define PSI_OPTIONS_H

#include "buf.h"
#include "status.h"

enum psi_option_type {
    PSI_OPTION_INT = 1,      /* int64_t or uint32_t; min <= value <= max */
    PSI_OPTION_BYTES = 2,    /* as INT; "64M", "1GiB" (powers of 1024), "512" */
    PSI_OPTION_DURATION = 3, /* as INT, in ms; "250ms", "2.5s", "10min", "1h"; a bare number is in the row's unit */
    PSI_OPTION_BOOL = 4,     /* bool; "true" "false" "yes" "no" "on" "off" "1" "0" */
    PSI_OPTION_STRING = 5,   /* char[max + 1]; min <= bytes <= max, no control bytes unless `lines` */
    PSI_OPTION_ENUM = 6,     /* int: index into choices; min < 0: numbers from 1 to -min are fine too, stored as -1 to min */
    PSI_OPTION_TEXT = 7,     /* const char *: the argument itself, at least min bytes */
    PSI_OPTION_REAL = 8,     /* double, finite */
    PSI_OPTION_TEXTS = 9,    /* const char *[max + 1]: a TEXT that may be given max times, in order; then NULL. No default */
    PSI_OPTION_WAYS = 10     /* char[max + 1]: one choice for all containers, and others for some (common/ways.h) */
};

enum { PSI_OPTION_WAYS_BYTES_MAX = 1024 }; /* of the field of a WAYS */

struct psi_option {
    const char *name; /* lower case, words joined by _; flags and files may write - for it */
    enum psi_option_type type;
    const char *unit;           /* INT: for help, or NULL; DURATION: "ms" or "s", the unit of a bare number */
    int64_t min, max;           /* of the stored value; STRING, WAYS: of its length */
    const char *default_text;   /* as a user would write it; NULL: the field is 0 unless given */
    const char *bare;           /* value of a flag without one (only a beginning of a number counts as one); NULL: never */
    const char *const *choices; /* ENUM, WAYS: NULL-terminated names */
    bool reloadable;            /* may change while the program runs */
    bool lines;                 /* STRING: may contain newlines and tabs */
    bool list;                  /* STRING: entries. Each flag and each line of a file adds one; the text separates them by "; " */
    ps_status (*check)(const char *text, struct psi_err *err); /* STRING: checks a text, or an entry of a list; NULL: none */
    bool flag_only;      /* not in the configuration file, and not listed (--help, --config, ...) */
    char letter;         /* "-t VALUE"; 0 = none */
    const char *group;   /* --help: heading of a section that begins here; NULL: none */
    unsigned tag;        /* for the program's own use */
    const char *metavar; /* of the value in --help ("HOST:PORT,..."); NULL: by the type */
    const char *help;
    size_t offset, size; /* set by PSI_OPTION_FIELD */
};

/** Members of a row, as in { .name = ..., PSI_OPTION_FIELD(struct psd_options, lease_ms) }. */
#define PSI_OPTION_FIELD(type_, field_) .offset = offsetof(type_, field_), .size = sizeof(((type_ *)0)->field_)

enum psi_option_from { PSI_FROM_DEFAULT = 0, PSI_FROM_FILE = 1, PSI_FROM_ENVIRONMENT = 2, PSI_FROM_FLAG = 3 };

struct psi_options {
    const struct psi_option *rows; /* keeps */
    size_t count;
    void *values;  /* the program's struct; keeps */
    uint8_t *from; /* count bytes: psi_option_from of each row; keeps */
};

/* ---- one row; values: the program's struct ---- */
/** Parse text and write the row's field. what ("--lease", "psd.conf:3: lease") begins an error's text. */
PSI_MUST ps_status psi_option_parse(const struct psi_option *row, void *values, const char *what, const char *text,
                                    struct psi_err *err);
/** The value as text that can be parsed back; n > 32, and > the string's size. Returns buf. */
const char *psi_option_format(const struct psi_option *row, const void *values, char *buf, size_t n);
/** Read or write the value of a row as a number, unchecked: bool as 0 and 1, an ENUM as its index. */
int64_t psi_option_number(const struct psi_option *row, const void *values);
void psi_option_set_number(const struct psi_option *row, void *values, int64_t number);

/** Set every field to its default. Asserts that the table is sound (names, sizes, ranges, defaults that parse). */
void psi_options_init(struct psi_options *o, const struct psi_option *rows, size_t count, void *values, uint8_t *from);

/**
 * Read argv[1..]: "--name value", "--name=value", "--flag", "--no-flag", "-t value", "-tvalue"; "--" ends the flags. Flags that
 * were read are taken out of argv (and *argc). Positional arguments (also "-1", "-.5", "-inf") stay in order; "--" is taken out
 * if strict.
 * strict   an unknown flag is an error that names the nearest known one; otherwise it stays in argv.
 * Errors   PS_INVALID_ARGUMENT naming flag, value and what is allowed.
 */
PSI_MUST ps_status psi_options_parse_argv(struct psi_options *o, int *argc, char **argv, bool strict, struct psi_err *err);
/** Read the text of a configuration file: "key = value" lines, # and ; comments. An indented line continues the STRING or WAYS
 * above it; for a list it is the next entry. file_name is for messages. Errors: PS_INVALID_ARGUMENT that begins with file:line
 * (an unknown key, a section, a bad value, a key twice, a line over inih's limit); earlier lines have taken effect. */
PSI_MUST ps_status psi_options_parse_file(struct psi_options *o, const char *file_name, const char *text, size_t len,
                                          struct psi_err *err);
/** Set a row by name ('-' and '_' count as equal) from text. what names the source in errors ("PSD_TARGET"). A value of a higher
 * source stays. */
PSI_MUST ps_status psi_options_set(struct psi_options *o, enum psi_option_from from, const char *what, const char *name,
                                   const char *text, struct psi_err *err);

/** Index of a row by name ('-' and '_' count as equal), or -1. */
int32_t psi_options_find(const struct psi_options *o, const char *name);
/** The value of a row as text that can be parsed back; n > 32, and > the string's size. Returns buf. */
const char *psi_options_format_value(const struct psi_options *o, size_t row, char *buf, size_t n);
/** Append an entry for each row, "  --name VALUE   help (unit, range; default)", wrapped at 100 columns. */
PSI_MUST ps_status psi_options_help(const struct psi_options *o, struct psi_buf *out, struct psi_err *err);
PSI_MUST ps_status psi_option_help(const struct psi_option *row, struct psi_buf *out, struct psi_err *err);
/** Append a configuration file: for each row that is not flag_only its help as comments and "#name = default", commented out
 * unless the value is not the default. psi_options_parse_file() reads it, also with every # before a name removed. */
PSI_MUST ps_status psi_options_file(const struct psi_options *o, struct psi_buf *out, struct psi_err *err);

#endif
