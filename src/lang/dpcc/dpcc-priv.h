/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the passes of the compiler share. lex.c makes tokens; type.c, debug.c and btf.c types; dpcc-parse.c,
 * parse-builtin.c, decl.c, init.c and expr.c a typed tree, with value.c, scope.c and context.c below them; gen*.c,
 * dpcc-gen.c and builtin.c the text. dpcc-unit.c goes through them once for each probed instruction, since a
 * variable's type and place depend on it. Errors leave by longjmp to dp_cc_compile(), which frees all.
 */
#ifndef DPCC_PRIV_H
#define DPCC_PRIV_H

#include <setjmp.h>

#include "lang/dpcc/dpcc.h"
#include "lang/rpn/rpn-priv.h"
#include "symbols/kallsyms.h"
#include "symbols/tracepoints.h"
#include "symbols/vars.h"

#define DPCC_TAG_HEAP \
	0xd0b1               /* top 16 bits of pointers into the handler's own memory: no address of a program   \
		*/
#define DPCC_TAG_VARS 0xd0b2 /* the same for static variables */
#define DPCC_LOCALS_MAX 120  /* words of one function's frame */

enum tok_kind { TOK_END, TOK_WORD, TOK_NUM, TOK_STR, TOK_PUNCT, TOK_PROBE /* $name */ };

struct tok {
	enum tok_kind kind;
	const char *at;
	u32 len;
	u64 value;
	bool is_unsigned, is_long, is_real; /* is_real: value has the bits of a double */
	const struct rpn_line *line;
	char *str; /* of a text */
	u32 str_len;
};

enum type_kind { TY_VOID, TY_INT, TY_FLOAT, TY_PTR, TY_ARRAY, TY_STRUCT, TY_FUNC };

struct type {
	enum type_kind kind;
	bool is_unsigned, is_char, is_bool, is_union, is_complex, is_flags, complete, lazy;
	bool is_opaque; /* a structure of which not all is known */
	bool is_octal;  /* an integer that is shown so */
	bool is_hex;    /* an enumeration of which other numbers are shown so, */
	bool is_half;   /* or by their lower half alone */
	bool is_option; /* of a socket: which name it has depends on the call's level */
	u64 size;
	u32 align;
	struct type *of;
	u64 n; /* elements of an array */
	const char *name;
	struct member *members;
	struct enumerator *enums;      /* of an integer type that is an enumeration */
	struct variant_part *variants; /* NULL: it has none */
	Dwarf_Die die;                 /* lazy: members are still to be read from here, */
	u32 btf;                       /* or from this type of the kernel's */
	u32 number;                    /* of its declaration in the generated text, 0: none yet */
	struct type *next;             /* all types that came from debug information */
};

struct member {
	struct member *next;
	const char *name; /* "": anonymous struct or union */
	struct type *type;
	u64 offset;
	u32 bits, shift; /* of a bitfield in the integer at offset */
};

/* Of a structure that has one of several contents (an enum of Rust), and a number that tells which. */
struct variant_part {
	struct type *discriminant;
	u64 offset; /* of the number */
	struct variant *list;
};

struct variant {
	struct variant *next;
	struct member content;
	bool is_default; /* of all numbers that are no other's */
	s64 number;
};

struct enumerator {
	struct enumerator *next;
	const char *name;
	s64 value;
	u64 mask; /* of a type that is_flags: the bits that it is a value of */
};

enum var_kind {
	VAR_STACK,
	VAR_HEAP,
	VAR_LOCAL /* lv */,
	VAR_GLOBAL /* gv */,
	VAR_MEMORY, /* lv, by bytes */
	VAR_THREAD, /* lv, each thread's own: a table by its id */
	VAR_PROCESS /* to be read, the same in the thread's process: a table of where that is, by the process's id */
};

struct var {
	struct var *next;  /* in a scope */
	struct var *chain; /* in a function */
	const char *name;
	struct type *type;
	enum var_kind kind;
	s32 first_word; /* stack: index from the base; heap: offset in the frame's block; lv, gv: index */
	const struct dpcc_thread *there; /* of VAR_PROCESS */
	bool is_static, in_memory;
	const char *owner; /* of a static one: where it is declared */
	struct node *init; /* of a static one */
};

enum node_kind {
	N_NUM,
	N_STR,
	N_VAR,
	N_PROBE,
	N_DEREF,
	N_MEMBER,
	N_ADDR,
	N_NEG,
	N_NOT,
	N_LNOT,
	N_BINARY,
	N_ANDAND,
	N_OROR,
	N_ASSIGN,
	N_INCDEC,
	N_COND,
	N_COMMA,
	N_CAST,
	N_CALL,
	N_BUILTIN,
	/* statements */
	N_EXPR,
	N_BLOCK,
	N_IF,
	N_WHILE,
	N_DO,
	N_FOR,
	N_SWITCH,
	N_CASE,
	N_BREAK,
	N_CONTINUE,
	N_RETURN,
	N_TRY,
	N_THROW,
	N_GOTO,
	N_LABEL,
	N_EMPTY,
	N_INIT,
};

struct node {
	enum node_kind kind;
	struct type *type;
	struct node *a, *b, *c, *d; /* operands */
	struct node *next;          /* in lists: arguments, statements, cases */
	struct node *named;         /* of N_LABEL, N_GOTO: the one before it in the function */
	const struct tok *tok;
	const char *op;          /* of N_BINARY, N_ASSIGN ("" or the operator), N_INCDEC */
	bool is_defined;         /* a number that @defined gave */
	bool postfix, in_target; /* in_target: a pointer into, or a place in, the probed program's memory */
	u64 value;
	struct var *var;
	struct var *caught[3]; /* of N_TRY: code and parameters of the exception */
	struct member *member;
	struct dp_var *probe;
	struct function *func;
	const struct builtin *builtin; /* of N_BUILTIN */
	struct aggregate *aggregate;   /* of N_BUILTIN: count and its like */
	const char *text;              /* N_STR: the bytes; N_BUILTIN, N_LABEL: the name; fields: how it is written */
	u32 len;
	int label; /* of a case, once code is made */
};

struct function {
	struct function *next;
	const char *name;
	struct type *ret;
	struct var *params, *locals; /* locals hold the parameters too */
	u32 nparams;
	struct node *body, *named; /* named: its last label or goto */
	bool defined, used, emitted, is_prelude;
	u32 body_at;                  /* its first token: bodies are read when a handler reaches them */
	u32 words, heap, param_words; /* of its frame; words for parameters and result */
};

struct scope {
	struct scope *up;
	struct var *vars;
	struct type *tags; /* by next; structs, unions, enums */
	struct alias {     /* typedef */
		struct alias *next;
		const char *name;
		struct type *type;
	} * aliases;
	struct constant {
		struct constant *next;
		const char *name;
		s64 value;
	} * constants;
};

/* What becomes of a call that a line looks at as a whole, where it ends by a jump to another function. */
enum passing {
	PASS_NOTHING, /* the function itself returns; there are no such jumps that are followed */
	PASS_BEGIN,   /* it begins */
	PASS_ON,      /* the jump */
	PASS_ENTER,   /* the other function begins */
	PASS_RETURN,  /* and returns: in the place of the first one */
	PASS_LEAVE,   /* a jump that is not followed */
};

struct target {           /* one probed instruction */
	u64 pc;           /* in the module; without one the offset in func */
	const char *func; /* of the kernel; else NULL. Of a tracepoint what BTF knows its arguments by */
	const struct dp_tracepoint *tracepoint; /* NULL: it is none */
	const char *copy_of; /* an inlined copy of this function begins here; NULL: none that is meant */
	bool is_return;
	bool is_jump;                 /* the return is none, but a jump to another function */
	enum passing passing;         /* of calls that end by tail calls: what happens here, */
	u64 asked;                    /* and the function that the line names */
	u64 watched;                  /* bytes of memory; it runs at accesses to them. 0: it is an instruction */
	const char *watched_as;       /* the variable that they are; NULL: none whose type is known */
	const struct dp_static *note; /* it is a static probe; NULL: it is none */
	const char *body;             /* when it runs, as `run =` has it: it is no instruction; NULL: it is one */
	bool is_call;                 /* it calls the system, or, is_return, stands behind one that does */
	bool is_function_call;        /* a function is called that does it: its arguments are those of the call */
	bool is_one_call;             /* always the same call, of this number */
	u32 call;
};

/* A line of C that was made of an event line of the file, and where in that each character comes from. */
struct origin {
	struct origin *next;
	const char *text;
	size_t n;
	const u32 *at;
	struct rpn_line line;
};

struct dpcc {
	const struct dpcc_options *opt;
	struct dpcc_result *res;
	struct dp_error *err;
	jmp_buf out;
	struct chunk *chunks; /* all memory */

	struct rpn_source src, prelude;
	struct rpn_source owner; /* of the texts of src, where event lines stood among them */
	struct origin *origins;  /* file-lines.c */
	struct tok *toks;
	u32 ntoks, at, prelude_end;
	struct node *(*parse_assign)(struct dpcc *c); /* expr.c's, for what stands in expressions and contains some */

	/* the module and the instruction that code is made for */
	struct dp_module *mod;             /* with debug information; NULL: btf has the types */
	struct btf *btf, *btf_base;        /* of the probed module of the kernel, and of the kernel */
	struct dp_tracepoints tracepoints; /* of the running kernel, once a place asks for them */
	bool by_name;                      /* addresses are not known yet: symbols stand for them */
	struct target target;
	bool is_of_place;   /* something in the code in the making is known for this instruction alone */
	u64 line;           /* of which the handler is: see context.c */
	struct call *calls; /* over all passes */
	struct known {      /* what the control side puts into variables, over all passes */
		struct known *next;
		struct dp_rpn_known k;
	} * knowns;
	u32 call_lines;    /* that look at whole calls */
	u32 idle_lines;    /* handlers of such lines that have no place */
	bool no_result;    /* the handler has asked for a result where there is none yet */
	const char *event; /* the record is shown as one of this event; NULL: as a program's */
	struct type *call_names, *error_names, *call_sets; /* of system calls, over all passes */
	const struct tok *here;                            /* what code is made for: for messages */
	bool in_helpers;                                   /* what they do depends on whom they are called for */
	bool bare; /* words without $ may be variables of the program: in log_probe_expr */

	/* tables of one pass */
	struct scope *scope;
	struct function *funcs, *func;
	struct { /* as they are behind the prelude, over all passes */
		struct scope scope;
		struct function *funcs, *copies; /* of these, in their order */
	} begin;
	struct var *statics; /* with a place, over all passes */
	struct type *debug_types;
	u32 nlocals, nglobals;
	u32 loops, switches;

	/* code */
	struct buf {
		char *s;
		size_t n, cap;
	} * code, decls, all;
	struct buf body, start; /* of the program in the making; their room is used again */
	size_t program_at;      /* in all: where the last probe's program begins, behind what its place makes of it */
	u32 label, depth;
	int brk, cont, handler, loop_handler; /* labels, -1: none */
	bool helper[64];
	struct thread_use { /* variables of threads that the code uses, of one pass */
		struct thread_use *next;
		const struct var *var;
	} * thread_uses;
	const char *fields[1024]; /* of the probe in the making */
	u32 nfields, ntypes;
	struct aggregate { /* over all passes: the same name is the same words */
		struct aggregate *next;
		struct dp_rpn_aggregate a;
	} * aggregates;
	u32 naggregates;         /* calls of theirs, in the source; 0: not counted yet */
	bool keeps_tables_small; /* there is no room for large ones */
	u32 threads;             /* places of variables that each thread has; 0: the usual number */
	u32 keys;                /* of each from here on; 0: the usual number */
	bool logs;               /* some handler makes a record */
	bool counts, traces;     /* the one in the making has aggregates, stack traces */
	struct literal {
		struct literal *next;
		const char *s;
		u32 len, offset;
	} * literals;
	u32 literal_bytes;
};

/* The instruction, for what is known of it alone: the code will not do for another one. */
static inline u64 dp_cc_pc(struct dpcc *c)
{
	c->is_of_place = true;
	return c->target.pc;
}

/* The function whose call is seen, likewise. */
static inline u64 dp_cc_called(struct dpcc *c)
{
	u64 pc = dp_cc_pc(c);

	return c->target.passing == PASS_RETURN ? c->target.asked : pc;
}

/* line-expr.c: the word of event lines that a name lacks two letters of, or has two too many; NULL: none. */

/* ---- lex.c ---- */
void *dp_cc_alloc(struct dpcc *c, size_t n);
/* Names from files stand in lines of our own, and some of those are a program: a name cannot end a line. */
const char *dp_cc_one_line(struct dpcc *c, const char *name);
char *dp_cc_text(struct dpcc *c, const char *s, size_t n);
char *dp_cc_format(struct dpcc *c, const char *fmt, ...) DP_PRINTF(2, 3);
_Noreturn void dp_cc_fail(struct dpcc *c, const struct tok *t, enum dp_code code, const char *fmt, ...) DP_PRINTF(4, 5);
/* With a suggestion, when a name is near. */
_Noreturn void dp_cc_fail_near(struct dpcc *c, const struct tok *t, enum dp_code code, const struct dp_near *near,
			       const char *fmt, ...) DP_PRINTF(5, 6);
/* An error that another part has filled in, at a token. */
_Noreturn void dp_cc_refail(struct dpcc *c, const struct tok *t, const struct dp_error *why);
void dp_cc_lex(struct dpcc *c, const struct rpn_source *s);

/* line-bodies.c: 1s, 100ms: nanoseconds; false: it is no time, or out of bounds. */
bool dp_cc_period(const char *text, u64 *ns);

/* file-lines.c: event lines of c->src become handlers. */
void dp_cc_file_lines(struct dpcc *c);

bool dp_cc_tok_is(const struct tok *t, const char *text);
void dp_cc_buf_add(struct dpcc *c, struct buf *b, const char *s, size_t n);
void dp_cc_buf_put(struct dpcc *c, struct buf *b, const char *fmt, ...) DP_PRINTF(3, 4);
/* As a text of the RPN language, with its quotes. */
void dp_cc_put_quoted(struct dpcc *c, struct buf *b, const char *s);

/* ---- type.c ---- */
extern struct type dp_cc_type_void, dp_cc_type_bool, dp_cc_type_char, dp_cc_type_schar, dp_cc_type_uchar,
    dp_cc_type_short, dp_cc_type_ushort, dp_cc_type_int, dp_cc_type_uint, dp_cc_type_long, dp_cc_type_ulong,
    dp_cc_type_float, dp_cc_type_double, dp_cc_type_code /* void (*)() */;
struct type *dp_cc_type_ptr(struct dpcc *c, struct type *of);
struct type *dp_cc_type_named(struct dpcc *c, struct type *of, const char *name); /* by a typedef */
struct type *dp_cc_type_array(struct dpcc *c, struct type *of, u64 n);
bool dp_cc_type_is_scalar(const struct type *t);
bool dp_cc_type_same(const struct type *a, const struct type *b);
struct type *dp_cc_type_promote(struct type *t);
struct type *dp_cc_type_common(struct type *a, struct type *b);
const char *dp_cc_type_name(struct dpcc *c, const struct type *t);
/* float and double, which handlers compute with. */
bool dp_cc_is_real(const struct type *t);
bool dp_cc_type_is_text(const struct type *t);

/* ---- type-layout.c ---- */
/* The notation of "field =" for it; declares what it consists of. */
const char *dp_cc_type_field(struct dpcc *c, struct type *t, const struct tok *at);

/* ---- tokens.c ---- */
struct tok *dp_cc_peek(struct dpcc *c);
struct tok *dp_cc_next_tok(struct dpcc *c);
bool dp_cc_accept(struct dpcc *c, const char *text);
struct tok *dp_cc_expect(struct dpcc *c, const char *text);
const char *dp_cc_parse_word(struct dpcc *c);
void dp_cc_skip_brackets(struct dpcc *c);
void dp_cc_skip_expression(struct dpcc *c, const char *const *ends);

/* ---- scope.c ---- */
void dp_cc_open_scope(struct dpcc *c);
void dp_cc_close_scope(struct dpcc *c);
struct var *dp_cc_find_var(struct dpcc *c, const struct tok *t);
bool dp_cc_is_declared(const struct dpcc *c, const char *name); /* a variable of the source, of this name */
bool dp_cc_find_constant(struct dpcc *c, const struct tok *t, s64 *v);
struct function *dp_cc_find_func(struct dpcc *c, const char *name);

/* ---- value.c ---- */
struct node *dp_cc_node_new(struct dpcc *c, enum node_kind kind, const struct tok *t);
struct node *dp_cc_node_number(struct dpcc *c, const struct tok *t, s64 v, struct type *type);
bool dp_cc_in_memory(const struct dp_var *v);
/* A copy with room for no more than its pieces and the last one's code; for one piece at least. */
struct dp_var *dp_cc_keep_var(struct dpcc *c, const struct dp_var *v);
/* library-types.c: texts with a length (std::string, &str, String, Go's string), std::vector; false: n is none. */
struct node *dp_cc_inside(struct dpcc *c, struct node *of, const struct member *m,
			  u64 offset); /* part of a structure */
bool dp_cc_library_text(struct dpcc *c, struct node *n, struct node **text, struct node **length);
bool dp_cc_library_vector(struct dpcc *c, struct node *n, struct node **begin, struct node **end);
/* What a unique_ptr or shared_ptr points to; NULL: it is none. */
struct node *dp_cc_library_owned(struct dpcc *c, struct node *n);
/* The word that leads to the type of an interface of Go; NULL: n is none. type_at: at which offset of what it points to
 * the type is, -1: it is the type. */
struct node *dp_cc_go_interface(struct dpcc *c, struct node *n, s64 *type_at);
/* result.c: n becomes $retval of the function at hand. Leaves by dp_cc_fail() where it has none that is known. */
struct node *dp_cc_result(struct dpcc *c, struct node *n, const struct tok *where);
/* context.c: which of the names that are known at every hit are near. */
void dp_cc_context_near(struct dp_near *near, const char *name);
/* $comm, $exe, $cgroup and $backtrace have no value: they are logged, compared and taken as keys only. */
bool dp_cc_is_comm(const struct node *n);
int dp_cc_known_text(const struct node *n); /* which text of the process (enum dp_rpn_known_what); -1: none */
bool dp_cc_is_chain(const struct node *n);
struct node *dp_cc_to_value(struct dpcc *c, struct node *n);
struct node *dp_cc_cast_to(struct dpcc *c, struct node *n, struct type *t);
/* What a pointer leads to; a member of a structure, NULL: it has none of this name. */
struct node *dp_cc_deref(struct dpcc *c, struct node *pointer, const struct tok *t);
struct node *dp_cc_member(struct dpcc *c, struct node *of, const struct tok *name);
/* Fails for integers that do not fit into a word of the machine. */
void dp_cc_need_word(struct dpcc *c, const struct node *n);

/* ---- dpcc-words.c ---- */
#define CALL_VALUES_MAX 15
#define CALL_KEYS 2 /* where the stack is, and whose: forked processes share the table */

struct call { /* of one line: a table by stack pointer and process, whose words are the time and the kept values */
	struct call *next;
	u64 line;
	u32 index, words, calls;
	u32 losses; /* where those are counted that find no room */
	const char *names[CALL_VALUES_MAX];
	struct type *types[CALL_VALUES_MAX];
	u32 n;
	bool is_known; /* all names are there */
	bool passes;   /* to other functions: the last word says where it is (dp_cc_gen_call_pass()) */
};

/* NULL: the line looks at no whole calls. */
struct call *dp_cc_call_of(struct dpcc *c, u64 line);
/* The aggregate of that name, which is made when it is met first. */
struct aggregate *dp_cc_aggregate(struct dpcc *c, const struct tok *t, const struct dp_rpn_aggregate *wanted);
/* The local variable that counts what is lost, by its name. */
u32 dp_cc_loss(struct dpcc *c, const struct tok *t, const char *name);
/* A variable that each thread has, here, or (of_process) in its process: its table. */
struct dp_rpn_aggregate *dp_cc_thread_table(struct dpcc *c, const struct tok *t, const char *name, bool of_process);
struct dp_rpn_aggregate *dp_cc_table_of(struct dpcc *c, const struct var *v);
/* Where the control side puts what it knows of the process. */
u32 dp_cc_known(struct dpcc *c, const struct tok *t, u32 what, enum dp_rpn_known_how how, const char *text);

/* ---- builtin.c ---- */
enum argument {
	ARG_NONE,
	ARG_ONE,
	ARG_TWO,
	ARG_TEXT,
	ARG_TEXT_AND_ONE,
	ARG_TEXT_AND_TWO,
	ARG_TEXT_AND_ANY,
	ARG_ANY,
	ARG_KEYS, /* the name of an aggregate and its keys */
	ARG_VALUE_AND_KEYS,
	ARG_VALUE_AND_ROW, /* the name of one that has keys, a value, and what row() gave */
	ARG_CALL,
	ARG_AGGREGATE
};

struct builtin {
	const char *name;
	enum argument args;
	struct type *type;
	const char *code;                            /* after the argument; NULL: see gen */
	void (*gen)(struct dpcc *c, struct node *n); /* both NULL: there is no code */
};

/* A call of it, without arguments; NULL: there is no such builtin. */
struct node *dp_cc_builtin(struct dpcc *c, const struct tok *t, const char *name);
bool dp_cc_has_keys(const struct tok *name); /* it is a builtin that keeps values in an aggregate */
void dp_cc_builtin_near(struct dp_near *near, const char *name);

/* ---- parse-builtin.c ---- */
struct node *dp_cc_parse_builtin(struct dpcc *c, const struct tok *name);

/* ---- debug.c ---- */
struct type *dp_cc_debug_type(struct dpcc *c, Dwarf_Die *die);
void dp_cc_debug_complete(struct dpcc *c, struct type *t);
struct type *dp_cc_debug_named(struct dpcc *c, int tag, const char *name);

/* ---- btf.c: the same for the kernel ---- */
/* Open what is known of a module ("": of the kernel itself); optional: or of the kernel alone. E_KERNEL_BTF. */
void dp_cc_btf_open(struct dpcc *c, const char *module, bool is_optional);
void dp_cc_btf_close(struct dpcc *c);
void dp_cc_btf_complete(struct dpcc *c, struct type *t);
struct type *dp_cc_btf_named(struct dpcc *c, int tag, const char *name);
bool dp_cc_btf_enumerator(struct dpcc *c, const char *name, s64 *value);
/* A parameter, function or global variable as the target sees it. E_VAR_NONE, E_VAR_GONE. */
int dp_cc_btf_variable(struct dpcc *c, const char *name, struct dp_var *v, struct type **type, struct dp_error *err);
/* $current, the current task, whoever knows its type. */
void dp_cc_current(struct dpcc *c, struct dp_var *v, struct type **type);
/* The function by which BTF knows the arguments of a tracepoint; NULL: it does not know them. */
const char *dp_cc_btf_tracepoint(struct dpcc *c, const char *name);
const char *dp_cc_btf_parameter(const struct dpcc *c, u32 i); /* from 1; NULL: there are not so many */
struct type *dp_cc_btf_return_type(struct dpcc *c);           /* NULL: not known */
void dp_cc_btf_each_parameter(struct dpcc *c, void (*fn)(struct dpcc *c, const char *name));
/* Names of functions that match the pattern, at most max. */
u32 dp_cc_btf_functions(struct dpcc *c, const char *pattern, const char **names, u32 max);

/* ---- probed.c ---- */
/* A variable of the probed program; NULL when there is none and it need not be. */
struct node *dp_cc_probed(struct dpcc *c, const struct tok *t, const char *name, bool needed);
bool dp_cc_probed_is_reference(const struct dpcc *c,
			       const struct dp_var *v); /* of C++: a pointer that is followed by itself */
bool dp_cc_probed_enumerator(struct dpcc *c, const char *name, s64 *value);

/* The same for a variable alone, whatever else has this name. */
struct node *dp_cc_variable(struct dpcc *c, const struct tok *t, const char *name, bool needed);
/* The name of parameter i, from 1, of the probed function; NULL: not known. */
const char *dp_cc_parameter_name(struct dpcc *c, u32 i);
/* Of a static probe at the instruction, from 1; NULL: there are not so many. */
struct node *dp_cc_static_argument(struct dpcc *c, const struct tok *t, u32 i);
/* The instruction is a function's first one. */
bool dp_cc_at_entry(const struct dpcc *c);

/* ---- tracepoint.c ---- */
/*
 * A name of the tracepoint's record, as tracefs shows it: ARGUMENT_MEMBER, or MEMBER of the only argument that has one
 * of this name. NULL: it is neither.
 */
struct node *dp_cc_tracepoint_field(struct dpcc *c, const struct tok *t, const char *name);
_Noreturn void dp_cc_no_tracepoint_word(struct dpcc *c, const struct tok *t, const char *name);

/* ---- static-args.c ---- */
struct dp_static;
/*
 * Argument n, from 1, as text of the Dynamic Probes language that pushes its value, extended from its size by its sign.
 * size: its bytes, negative where it is signed. 1: there are not so many. -1: why says why it cannot be read.
 */
#define STATIC_CODE 512
int dp_cc_static_operand(struct dp_module *m, const struct dp_static *s, u32 n, char code[STATIC_CODE], int *size,
			 const char **why);

/* ---- context.c ---- */
/* $pid and the like; NULL: the name means nothing of this kind. */
struct node *dp_cc_context(struct dpcc *c, const struct tok *t, const char *name);
/* The same where no probe is hit: in bodies of begin, end and timers. */
struct node *dp_cc_body_word(struct dpcc *c, const struct tok *t, const char *name, bool needed);
struct node *dp_cc_compare_text(struct dpcc *c, const struct tok *t, const char *op, struct node *a, struct node *b);
struct node *dp_cc_call_set(struct dpcc *c, struct node *value, const char *set);
struct node *dp_cc_call_shown(struct dpcc *c, struct node *value); /* what is logged of it, or taken as a key */
void dp_cc_call_arguments(struct dpcc *c, struct node *n);         /* of a system call, for log_args() */
void dp_cc_parse_call_begin(struct dpcc *c, struct node *n);

/* ---- decl.c ---- */
/* static, typedef, global(N) and the like are told by *storage; N + 1 by *index. */
struct type *dp_cc_parse_specifiers(struct dpcc *c, const char **storage, u32 *index);
struct type *dp_cc_parse_declarator(struct dpcc *c, struct type *base, const struct tok **name);

/* ---- float.c ---- */
extern const char dp_cc_prelude_float[];
/* Between two of them, or one and an integer. */
struct node *dp_cc_real_cast(struct dpcc *c, struct node *n, struct type *to);
struct node *dp_cc_real_binary(struct dpcc *c, const struct tok *t, const char *op, struct node *a, struct node *b);

/* ---- init.c ---- */
/* What follows "=" behind a variable of a function, as statements; it may give an array its size. */
struct node *dp_cc_parse_initialiser(struct dpcc *c, struct var *v, const struct tok *t);

/* ---- dpcc-parse.c: variables, statements, functions; expr.c ---- */
void dp_cc_parse(struct dpcc *c);
void dp_cc_parse_body(struct dpcc *c, struct function *f);
bool dp_cc_begins_type(struct dpcc *c);
struct type *dp_cc_parse_type_name(struct dpcc *c);
struct node *dp_cc_parse_expr(struct dpcc *c);
struct node *dp_cc_parse_assign(struct dpcc *c);
s64 dp_cc_parse_constant(struct dpcc *c);
bool dp_cc_fold(const struct node *n, s64 *v);

/* ---- dpcc-gen.c ---- */
void dp_cc_emit(struct dpcc *c, const char *fmt, ...) DP_PRINTF(2, 3);
void dp_cc_gen_value(struct dpcc *c, struct node *n); /* pushes it */
void dp_cc_gen_address(struct dpcc *c, struct node *n);
void dp_cc_gen_void(struct dpcc *c, struct node *n);
/* All of a probe's program: the handler, what it calls, helpers. */
void dp_cc_gen_program(struct dpcc *c, struct function *handler);
/* What the program's probe is told of the line that it comes from, into all; if it comes from one. */
void dp_cc_put_event(struct dpcc *c);
const char *dp_cc_event_words(struct dpcc *c); /* what "field = event" has at this place */
void dp_cc_gen_helpers(struct dpcc *c);
void dp_cc_gen_load(struct dpcc *c, u64 size, bool is_signed, bool in_target); /* (addr -- v) */
void dp_cc_gen_store(struct dpcc *c, u64 size, bool in_target);                /* (addr v -- ) */
void dp_cc_gen_normalise(struct dpcc *c, const struct type *t);
/* Bytes [at, at + size) of a variable that is not in memory as a whole: (-- v), not normalised. */
void dp_cc_gen_pieces(struct dpcc *c, const struct node *n, const struct dp_var *v, u64 at, u64 size);
int dp_cc_new_label(struct dpcc *c);
void dp_cc_put_label(struct dpcc *c, int label);

/* ---- tree.c ---- */
void dp_cc_tree(struct dpcc *c);

#endif
