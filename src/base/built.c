/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See built.h. A file of its own, which the static build leaves in the archive. */
#include "base/built.h"

const bool dp_built_static = false;
