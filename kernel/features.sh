#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# What the headers of a kernel have, for compat.h: each piece of C below is compiled, and DP_HAVE_NAME is defined for
# those that are accepted. Run by Kbuild.
#
# Usage: features.sh OUTPUT COMPILER [FLAG...]
set -u

out=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compiler=$1
shift
flags=$*

# NAME LANGUAGE HEADERS PIECE
try() {
	{
		printf '#include <%s>\n' $3
		echo "$4"
	} >"$work/$1.$2"
	# shellcheck disable=SC2086 # words
	"$compiler" $flags $5 -Werror=incompatible-pointer-types -Werror=implicit-function-declaration \
		-Werror=int-conversion -c -o "$work/$1.o" "$work/$1.$2" 2>"$work/$1.log" &&
		echo "#define DP_HAVE_$1" >"$work/$1.h" &
}

# NAME HEADERS PIECE
probe() {
	try "$1" c "$2" "$3" -fsyntax-only
}

probe_assembly() {
	try "$1" S "$2" "$3" -D__ASSEMBLY__
}

# If this is not accepted, the flags are wrong.
probe NOTHING linux/module.h ''

probe MODULE_MEM linux/module.h 'void *f(struct module *m) { return m->mem[MOD_TEXT].base; }'
probe CONST_CTL_TABLE linux/sysctl.h 'int f(const struct ctl_table *t, int w, void *b, size_t *n, loff_t *p);
	struct ctl_table t = {.proc_handler = f};'
probe SYSCTL_SIZE linux/sysctl.h 'void *f(struct ctl_table *t) { return register_sysctl_sz("debug", t, 1); }'
probe SYSRQ_U8 linux/sysrq.h 'void f(u8 key); struct sysrq_key_op op = {.handler = f};'
probe SYMBOL_MODULE "linux/module.h linux/kallsyms.h" 'int f(void *, const char *, struct module *, unsigned long);
	int g(void) { return kallsyms_on_each_symbol(f, NULL); }'
probe SYMBOL_INDEX linux/kallsyms.h 'int f(int (*fn)(void *, unsigned long))
	{ return kallsyms_on_each_match_symbol(fn, "", NULL); }'
probe FTRACE_REGS linux/ftrace.h 'struct pt_regs *f(struct ftrace_regs *r) { return ftrace_get_regs(r); }
	void g(unsigned long a, unsigned long b, struct ftrace_ops *o, struct ftrace_regs *r);
	struct ftrace_ops ops = {.func = g};'
probe FTRACE_DIRECT_OPS linux/ftrace.h 'int f(struct ftrace_ops *o) { return register_ftrace_direct(o, 0); }'
probe FTRACE_FILTER_IPS linux/ftrace.h 'int f(struct ftrace_ops *o, unsigned long *ips)
	{ return ftrace_set_filter_ips(o, ips, 1, 0, 0); }'
probe DFL_WQ linux/workqueue.h 'void *f(void) { return system_dfl_wq; }'
probe UPROBE_COOKIE "linux/fs.h linux/uprobes.h" 'int f(struct uprobe_consumer *c, struct pt_regs *r, __u64 *cookie);
	struct uprobe_consumer c = {.handler = f};'
probe UPROBE_OBJECT "linux/fs.h linux/uprobes.h" 'struct uprobe *f(struct inode *i, struct uprobe_consumer *c)
	{ return uprobe_register(i, 0, 0, c); }'
probe FD_FILE linux/file.h 'struct file *f(struct fd fd) { return fd_file(fd); }'
probe PCPU_HOT asm/current.h 'int *f(void) { return &this_cpu_ptr(&pcpu_hot)->preempt_count; }'
probe_assembly NOENDBR "linux/objtool.h asm/unwind_hints.h" 'f:	ANNOTATE_NOENDBR'
probe ALTERNATIVES_RESERVED asm/alternative.h 'int f(void) { return alternatives_text_reserved(0, 0); }'
probe BPF_KSYM linux/bpf.h 'void f(struct bpf_ksym *k) { bpf_ksym_add(k); bpf_ksym_del(k); }'
probe RDMSRQ asm/msr.h 'u64 f(void) { u64 v; rdmsrq(0x10, v); return v; }'
probe TASK_FPU "linux/sched.h asm/fpu/api.h asm/fpu/types.h asm/processor.h" 'void *f(struct task_struct *t)
	{ return x86_task_fpu(t)->fpstate; }'
probe FPSTATE "linux/sched.h asm/fpu/types.h" 'void *f(struct task_struct *t) { return t->thread.fpu.fpstate; }'
probe HRTIMER_SETUP linux/hrtimer.h 'void f(struct hrtimer *t, enum hrtimer_restart (*fn)(struct hrtimer *))
	{ hrtimer_setup(t, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL); }'
wait

rm "$work/NOTHING.h" || {
	cat "$work/NOTHING.log" >&2
	exit 1
}
echo '/* Made by features.sh. */' | cat - "$work"/*.h >"$out"
