/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The hooks of the example server, for modules that bring exits. */
#ifndef SERVER_H
#define SERVER_H

#include <dprobes/hooks.h>

/* A request has come: an exit may exchange the path, or answer it with a negative errno. */
USE_HOOK(request, int *, const char **);
/* fopen() of the C library is called, which knows nothing of hooks. */
USE_DYNAMIC_HOOK(file_opening, const char *, const char *);

#endif
