/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of page.html, between exporter_page and exporter_page_end. */
#include "exporter.h"

__asm__(".section .rodata\n"
        ".global exporter_page\n"
        ".hidden exporter_page\n"
        ".global exporter_page_end\n"
        ".hidden exporter_page_end\n"
        "exporter_page:\n"
        ".incbin \"worker/exporter/page.html\"\n"
        "exporter_page_end:\n"
        ".byte 0\n"
        ".previous\n");
