/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks in a program's own source, for `assay count -m 'mark:NAME'`:
 *
 *	ASSAY_MARK(name);		a place: how often control arrives here
 *	ASSAY_RANGE_BEGIN(name);	a range: how often it is entered at its beginning, and how
 *	ASSAY_RANGE_END(name);		many instructions are executed in it
 *	ASSAY_DATA(object);		a variable with static storage: how often it is read and
 *					written, and by whom; below 4 GB, and with -fPIC not one
 *					that other files may replace: it is static or hidden
 *
 * A mark is an entry in a section of the object file that is not loaded. It is no instruction and
 * no byte of what runs, whether or not anybody counts. To the compiler it is something that
 * happens, though: a branch that holds nothing else but arithmetic stays a branch. Names are words
 * of letters, digits and _.
 *
 * A range is the code from its beginning to its end as the compiler has laid it out: code that an
 * optimising compiler moves out of the way is not in it. A function that is inlined has its marks
 * in each copy, and a name may be used in many places: what is counted is the sum.
 *
 * For GCC and Clang on x86-64, in C and C++. Elsewhere, and with ASSAY_NO_MARKS defined, the macros
 * are empty. They need the assembler of binutils 2.35 or of Clang 12, or a newer one; the linker
 * gold refuses them with --gc-sections. The entries, 8-byte aligned: address (8 bytes), kind
 * (4 bytes: 1 place, 2 beginning, 3 end, 4 data), the size of data or 0 (4 bytes), the name with a
 * byte 0 behind it.
 */
#ifndef ASSAY_MARK_H
#define ASSAY_MARK_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ASSAY_NO_MARKS)
/*
 * "?": of the same group as the code, of which the linker keeps one copy if several files have it.
 * "o": goes with the section of the code, when the linker drops what is not used.
 */
#define ASSAY_MARK_SECTION_ ".pushsection .assay.marks, \"?o\", @progbits, .Lassay_mark_%=\n\t"
#define ASSAY_MARK_ENTRY_(kind, name)                                                              \
	__asm__ volatile(".Lassay_mark_%=:\n\t" ASSAY_MARK_SECTION_ ".balign 8, 0\n\t"             \
			 ".quad .Lassay_mark_%=\n\t"                                               \
			 ".long " #kind ", 0\n\t"                                                  \
			 ".asciz \"" #name "\"\n\t"                                                \
			 ".balign 8, 0\n\t"                                                        \
			 ".popsection"                                                             \
			 :)
#define ASSAY_DATA(object)                                                                         \
	__asm__ volatile(".Lassay_mark_%=:\n\t" ASSAY_MARK_SECTION_ ".balign 8, 0\n\t"             \
			 ".quad %c0\n\t"                                                           \
			 ".long 4, %c1\n\t"                                                        \
			 ".asciz \"" #object "\"\n\t"                                              \
			 ".balign 8, 0\n\t"                                                        \
			 ".popsection"                                                             \
			 :                                                                         \
			 : "i"(&(object)), "i"(sizeof(object)))
#else
#define ASSAY_DATA(object) ((void)0)
#define ASSAY_MARK_ENTRY_(kind, name) ((void)0)
#endif

#define ASSAY_MARK(name) ASSAY_MARK_ENTRY_(1, name)
#define ASSAY_RANGE_BEGIN(name) ASSAY_MARK_ENTRY_(2, name)
#define ASSAY_RANGE_END(name) ASSAY_MARK_ENTRY_(3, name)

#endif
