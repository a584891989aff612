/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Code that is copied into a process to load or unload a shared object (process-load.c). A sleeping thread runs
 * the first part: it starts a thread of the C library and goes back to its call by itself. The new thread runs
 * the second part and ends. Offsets are those of struct load_data.
 */
#define D_CREATED	0
#define D_DONE		8
#define D_CREATE_ERROR	16
#define D_STATUS	24
#define D_THREAD	32
#define D_ERRNO		40
#define D_OLD_MASK	48
#define D_MASK		56
#define D_PTHREAD_CREATE 64
#define D_PTHREAD_DETACH 72
#define D_ERRNO_LOCATION 80
#define D_DLOPEN	88
#define D_DLCLOSE	96
#define D_DLERROR	104
#define D_UNLOAD	112
#define D_MAIN		120
#define D_HANDLE	128
#define D_TID		136
#define D_NAME		144
#define D_TEXT		512
#define D_TEXT_SIZE	1024
#define D_PATH		4096
#define D_XSAVE		8192

#define SYS_RT_SIGPROCMASK 14
#define SYS_PRCTL	157
#define SYS_GETTID	186

	.section .rodata
	.balign 16
	.globl dp_load_code, dp_load_main, dp_load_code_end
	.hidden dp_load_code, dp_load_main, dp_load_code_end
/*
 * rsp points at { data, rbp, rbx, rax, rcx, rdx, rsi, rdi, r8..r11, flags, rip } below the thread's red zone. The
 * interrupted code may be in the middle of anything that a system call keeps: vector registers, flags, errno.
 */
dp_load_code:
	pop	%rbx
	mov	%rsp, %rbp
	and	$-16, %rsp
	cld
	/* No handler may come in between: it could meet the allocator's lock held. */
	mov	$SYS_RT_SIGPROCMASK, %eax
	xor	%edi, %edi			/* SIG_BLOCK */
	lea	D_MASK(%rbx), %rsi
	lea	D_OLD_MASK(%rbx), %rdx
	mov	$8, %r10d
	syscall
	mov	$-1, %eax
	mov	$-1, %edx
	xsave64	D_XSAVE(%rbx)
	call	*D_ERRNO_LOCATION(%rbx)
	mov	(%rax), %ecx
	mov	%ecx, D_ERRNO(%rbx)
	lea	D_THREAD(%rbx), %rdi
	xor	%esi, %esi
	mov	D_MAIN(%rbx), %rdx
	mov	%rbx, %rcx
	call	*D_PTHREAD_CREATE(%rbx)
	cltq
	mov	%rax, D_CREATE_ERROR(%rbx)
	test	%eax, %eax
	jnz	1f
	mov	D_THREAD(%rbx), %rdi
	call	*D_PTHREAD_DETACH(%rbx)
1:	call	*D_ERRNO_LOCATION(%rbx)
	mov	D_ERRNO(%rbx), %ecx
	mov	%ecx, (%rax)
	mov	$-1, %eax
	mov	$-1, %edx
	xrstor64 D_XSAVE(%rbx)
	mov	$SYS_RT_SIGPROCMASK, %eax
	mov	$2, %edi			/* SIG_SETMASK */
	lea	D_OLD_MASK(%rbx), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
	movq	$1, D_CREATED(%rbx)
	mov	%rbp, %rsp
	pop	%rbp
	pop	%rbx
	pop	%rax
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
	pop	%r8
	pop	%r9
	pop	%r10
	pop	%r11
	popfq
	ret	$128

/* The new thread's start routine: void *(data). It has inherited the blocked signals. */
dp_load_main:
	push	%rbx
	mov	%rdi, %rbx
	mov	$SYS_GETTID, %eax
	syscall
	mov	%rax, D_TID(%rbx)
	mov	$15, %edi			/* PR_SET_NAME: the module finds its parameters by it */
	lea	D_NAME(%rbx), %rsi
	mov	$SYS_PRCTL, %eax
	syscall
	lea	D_PATH(%rbx), %rdi
	mov	$5, %esi			/* RTLD_NOLOAD | RTLD_LAZY: is it there? */
	call	*D_DLOPEN(%rbx)
	mov	%rax, D_HANDLE(%rbx)
	cmpq	$0, D_UNLOAD(%rbx)
	jne	2f
	test	%rax, %rax
	jz	1f
	mov	%rax, %rdi
	call	*D_DLCLOSE(%rbx)
	movq	$2, D_STATUS(%rbx)		/* LOAD_THERE */
	jmp	9f
1:	lea	D_PATH(%rbx), %rdi
	mov	$2, %esi			/* RTLD_NOW */
	call	*D_DLOPEN(%rbx)
	test	%rax, %rax
	jz	4f
	movq	$1, D_STATUS(%rbx)		/* LOAD_GOOD */
	jmp	9f
2:	test	%rax, %rax
	jnz	3f
	movq	$3, D_STATUS(%rbx)		/* LOAD_ABSENT */
	jmp	9f
3:	mov	%rax, %rdi			/* once for the question, once for the load */
	call	*D_DLCLOSE(%rbx)
	mov	D_HANDLE(%rbx), %rdi
	call	*D_DLCLOSE(%rbx)
	test	%eax, %eax
	jnz	4f
	lea	D_PATH(%rbx), %rdi
	mov	$5, %esi
	call	*D_DLOPEN(%rbx)
	movq	$1, D_STATUS(%rbx)
	test	%rax, %rax
	jz	9f
	mov	%rax, %rdi
	call	*D_DLCLOSE(%rbx)
	movq	$5, D_STATUS(%rbx)		/* LOAD_STAYS */
	jmp	9f
4:	movq	$4, D_STATUS(%rbx)		/* LOAD_FAILED, with the linker's words */
	call	*D_DLERROR(%rbx)
	test	%rax, %rax
	jz	9f
	xor	%ecx, %ecx
5:	mov	(%rax,%rcx), %dl
	mov	%dl, D_TEXT(%rbx,%rcx)
	inc	%ecx
	test	%dl, %dl
	jz	9f
	cmp	$D_TEXT_SIZE - 1, %ecx
	jb	5b
9:	movq	$1, D_DONE(%rbx)
	xor	%eax, %eax
	pop	%rbx
	ret
dp_load_code_end:
	.section .note.GNU-stack, "", @progbits
