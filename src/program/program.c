/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The life of a program object. What it contains is made by the front ends and judged by the
 * verifier. */
#include "abi/abi-program.h"
#include "program/program.h"
#include "program/work.h"

void dp_program_free(struct dp_program *p)
{
	if (!p)
		return;
	dp_free(p->code);
	dp_free(p->layout.fields);
	memset(p, 0, sizeof(*p));
}

void dp_program_to_rt(const struct dp_program *p, struct dp_code_rt *rt)
{
	const struct dp_rpn_params *rpn = &p->rpn;

	*rt = (struct dp_code_rt){
	    .len = p->len,
	    .jmpmax = p->jmpmax,
	    .logmax = p->logmax,
	    .nlocals = p->nlocals,
	    .nglobals = p->nglobals,
	    .ex_mask = rpn->ex_mask,
	    .work = DP_RING0 || p->in_kernel ? DP_WORK_KERNEL : DP_WORK_PROCESS,
	};
	if (!rpn->ex_mask)
		return;
	rt->logmax = p->logmax ? p->logmax + (u32)sizeof(struct dp_rpn_head) : 0;
	rt->heap = rpn->heap;
	rt->ex_logmax = rpn->ex_logmax;
	rt->major = rpn->major;
	rt->minor = rpn->minor;
	rt->pass = rpn->pass;
	rt->max = rpn->max == DP_MAXHITS_NONE ? DP_NO_LIMIT : rpn->max;
}
