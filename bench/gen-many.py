#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Write assembly with N small functions f00000, f00001, ... and a table of them, for timing how long many
probes take to arm. Entries vary as compilers vary them. Usage: gen-many.py N OUTPUT"""
import sys

BODIES = [
    "push %rbp\n\tmov %rsp, %rbp\n\tlea {k}(%rdi), %rax\n\tpop %rbp\n\tret",
    "endbr64\n\tsub $24, %rsp\n\tmov %rdi, 8(%rsp)\n\tmov 8(%rsp), %rax\n\tadd ${k}, %rax\n\tadd $24, %rsp\n\tret",
    "test %rdi, %rdi\n\tje 1f\n\tlea {k}(%rdi), %rax\n\tret\n1:\tmov ${k}, %eax\n\tret",
    "push %rbx\n\tmov %rdi, %rbx\n\tmov many_word(%rip), %rax\n\tadd %rbx, %rax\n\tadd ${k}, %rax\n\tpop %rbx\n\tret",
    "xor %eax, %eax\n\tcmp ${k}, %rdi\n\tsetg %al\n\tadd %rdi, %rax\n\tret",
    "lea (%rdi,%rdi,2), %rax\n\tadd ${k}, %rax\n\tret",
]


def main():
    n = int(sys.argv[1])
    with open(sys.argv[2], "w") as out:
        out.write("\t.text\n")
        for i in range(n):
            name = "f%05d" % i
            out.write("\t.balign 16\n\t.globl %s\n\t.type %s, @function\n%s:\n\t%s\n\t.size %s, . - %s\n"
                      % (name, name, name, BODIES[i % len(BODIES)].format(k=i + 1), name, name))
        out.write("\t.data\n\t.balign 8\n\t.globl many_word, many_table, many_count\nmany_word: .quad 7\nmany_table:\n")
        for i in range(n):
            out.write("\t.quad f%05d\n" % i)
        out.write("many_count: .quad %d\n\t.section .note.GNU-stack, \"\", @progbits\n" % n)


main()
