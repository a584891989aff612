/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes coverage`: its own header, for programs other than dprobes (see cmd.h for what it
 * shares). */
#ifndef DP_CMD_COVERAGE_H
#define DP_CMD_COVERAGE_H

int dp_cmd_coverage(int argc, char **argv);

#endif
