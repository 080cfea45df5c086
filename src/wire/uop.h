/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Micro-operations: what the host lifts a basic block of x86-64 to, and what every executor runs
 * (isa/uop_exec.h). docs/design/microops.md is the manual of this little machine.
 *
 * One micro-operation reads up to three registers and writes one. Operand a is a register. Operand
 * b is a register, or imm where UOP_IMM is set. An absent operand (UOP_NONE) is 0.
 */
#pragma once

#include "wire/unwind.h"

typedef long long wire_s64;

/*
 * Registers: x86's sixteen in its own numbering, temporaries of one instruction, what is added to
 * an address in the module to get the one at run time, segment bases, vector registers in words of
 * 8 bytes, mask registers. The words of a vector register lie UOP_VECTOR_STEP apart. Those from 16
 * on have eight, which string functions use; the others have four, the rest is not modelled.
 */
enum uop_register {
	UOP_RAX,
	UOP_RCX,
	UOP_RDX,
	UOP_RBX,
	UOP_RSP,
	UOP_RBP,
	UOP_RSI,
	UOP_RDI,
	UOP_R8,
	UOP_R15 = 15,
	UOP_T0,
	UOP_T_LAST = 28,
	UOP_BIAS, /* always known */
	UOP_FS_BASE,
	UOP_GS_BASE,
	UOP_XMM0, /* lowest words of vector registers 0 to 15 */
	UOP_XMM0_HIGH = 48, /* the words after them */
	UOP_YMM0_UPPER = 64, /* the upper two words of the registers of 32 bytes */
	UOP_XMM16 = 96, /* lowest words of vector registers 16 to 31 */
	UOP_XMM16_HIGH = 112,
	UOP_K0 = 224,
	UOP_VECTORS_END = 232,
	UOP_REGISTERS = 256, /* every number is one */
	UOP_NONE = 0xff,
};

enum {
	UOP_UNKNOWN = 0xff, /* of all bytes of a register */
	UOP_VECTOR_STEP = 16,
	UOP_VECTOR_WORDS = 8, /* of the longest */
	UOP_VECTOR_BYTES = 32, /* that are modelled of registers below 16 */
	UOP_VECTOR_BYTES_LONG = 64, /* of the others */
	/* From the first vector to the last mask: the kernel cannot tell us their values. */
	UOP_VECTORS = UOP_XMM0,
	UOP_VECTORS_COUNT = UOP_VECTORS_END - UOP_VECTORS,
};

/* What an operation reads and does beside its operands; a column of UOPS. */
enum uop_trait {
	UOP_READS_A = 1,
	UOP_READS_B = 2,
	UOP_READS_DST = 4,
	UOP_WRITES = 8, /* dst */
	UOP_READS_FLAGS = 16, /* or leaves some of them as they were */
	UOP_ADDRESS = 32, /* a + (b << scale) + imm is an address or is computed like one */
};

#define UOP_A UOP_READS_A
#define UOP_AB (UOP_READS_A | UOP_READS_B)
#define UOP_W UOP_WRITES
#define UOP_D UOP_READS_DST
#define UOP_F UOP_READS_FLAGS
#define UOP_M (UOP_AB | UOP_ADDRESS)

/* Columns: name, text, traits. */
#define UOPS(X)                                                                                    \
	X(NOP, "nop", 0)                                                                           \
	X(MOV, "mov", UOP_READS_B | UOP_W)                                                         \
	X(SEXT, "sext", UOP_A | UOP_W)                                                             \
	X(HIGH, "high", UOP_A | UOP_D | UOP_W)                                                     \
	X(LEA, "lea", UOP_M | UOP_W)                                                               \
	X(LOAD, "load", UOP_M | UOP_W)                                                             \
	X(STORE, "store", UOP_M | UOP_D)                                                           \
	X(TOUCH, "touch", UOP_M)                                                                   \
	X(POISON, "poison", UOP_M)                                                                 \
	X(FORGET, "forget", UOP_W)                                                                 \
	X(FORGET_FLAGS, "forget_flags", UOP_F)                                                     \
	X(CLEAR, "clear", 0)                                                                       \
	X(CLEAR_UPPER, "clear_upper", 0)                                                           \
	X(ADD, "add", UOP_AB | UOP_W)                                                              \
	X(ADC, "adc", UOP_AB | UOP_W | UOP_F)                                                      \
	X(SUB, "sub", UOP_AB | UOP_W)                                                              \
	X(SBB, "sbb", UOP_AB | UOP_W | UOP_F)                                                      \
	X(AND, "and", UOP_AB | UOP_W)                                                              \
	X(OR, "or", UOP_AB | UOP_W)                                                                \
	X(XOR, "xor", UOP_AB | UOP_W)                                                              \
	X(NEG, "neg", UOP_A | UOP_W)                                                               \
	X(ISZERO, "iszero", UOP_A | UOP_W)                                                         \
	X(SHL, "shl", UOP_AB | UOP_W)                                                              \
	X(SHR, "shr", UOP_AB | UOP_W)                                                              \
	X(SAR, "sar", UOP_AB | UOP_W)                                                              \
	X(ROL, "rol", UOP_AB | UOP_W | UOP_F)                                                      \
	X(ROR, "ror", UOP_AB | UOP_W | UOP_F)                                                      \
	X(RCL, "rcl", UOP_AB | UOP_W | UOP_F)                                                      \
	X(RCR, "rcr", UOP_AB | UOP_W | UOP_F)                                                      \
	X(SHLD, "shld", UOP_AB | UOP_D | UOP_W)                                                    \
	X(SHRD, "shrd", UOP_AB | UOP_D | UOP_W)                                                    \
	X(MUL, "mul", UOP_AB | UOP_W)                                                              \
	X(MULHU, "mulhu", UOP_AB | UOP_W)                                                          \
	X(MULHS, "mulhs", UOP_AB | UOP_W)                                                          \
	X(DIVU, "divu", UOP_AB | UOP_D | UOP_W)                                                    \
	X(DIVS, "divs", UOP_AB | UOP_D | UOP_W)                                                    \
	X(REMU, "remu", UOP_AB | UOP_D | UOP_W)                                                    \
	X(REMS, "rems", UOP_AB | UOP_D | UOP_W)                                                    \
	X(BT, "bt", UOP_AB | UOP_W | UOP_F)                                                        \
	X(BTS, "bts", UOP_AB | UOP_W | UOP_F)                                                      \
	X(BTR, "btr", UOP_AB | UOP_W | UOP_F)                                                      \
	X(BTC, "btc", UOP_AB | UOP_W | UOP_F)                                                      \
	X(BSF, "bsf", UOP_A | UOP_D | UOP_W)                                                       \
	X(BSR, "bsr", UOP_A | UOP_D | UOP_W)                                                       \
	X(TZCNT, "tzcnt", UOP_A | UOP_W)                                                           \
	X(LZCNT, "lzcnt", UOP_A | UOP_W)                                                           \
	X(POPCNT, "popcnt", UOP_A | UOP_W)                                                         \
	X(ANDN, "andn", UOP_AB | UOP_W)                                                            \
	X(BLSI, "blsi", UOP_A | UOP_W)                                                             \
	X(BLSR, "blsr", UOP_A | UOP_W)                                                             \
	X(BLSMSK, "blsmsk", UOP_A | UOP_W)                                                         \
	X(BEXTR, "bextr", UOP_AB | UOP_W)                                                          \
	X(BZHI, "bzhi", UOP_AB | UOP_W)                                                            \
	X(PDEP, "pdep", UOP_AB | UOP_W)                                                            \
	X(PEXT, "pext", UOP_AB | UOP_W)                                                            \
	X(BSWAP, "bswap", UOP_A | UOP_W)                                                           \
	X(ADCX, "adcx", UOP_AB | UOP_W | UOP_F)                                                    \
	X(ADOX, "adox", UOP_AB | UOP_W | UOP_F)                                                    \
	X(PICK, "pick", UOP_AB | UOP_W)                                                            \
	X(ZIP, "zip", UOP_AB | UOP_W)                                                              \
	X(SIGNS, "signs", UOP_AB | UOP_W)                                                          \
	X(SIGNS_JOIN, "signs_join", UOP_AB | UOP_D | UOP_W)                                        \
	X(KEEP, "keep", UOP_AB | UOP_W)                                                            \
	X(TERNARY, "ternary", UOP_AB | UOP_D | UOP_W)                                              \
	X(LANES_EQ, "lanes_eq", UOP_AB | UOP_W)                                                    \
	X(LANES_ADD, "lanes_add", UOP_AB | UOP_W)                                                  \
	X(LANES_SUB, "lanes_sub", UOP_AB | UOP_W)                                                  \
	X(LANES_LESS, "lanes_less", UOP_AB | UOP_W)                                                \
	X(LANES_MIN, "lanes_min", UOP_AB | UOP_W)                                                  \
	X(LANES_MAX, "lanes_max", UOP_AB | UOP_W)                                                  \
	X(FCMP, "fcmp", UOP_AB)                                                                    \
	X(SETCC, "setcc", UOP_W | UOP_F)                                                           \
	X(SELECT, "select", UOP_READS_B | UOP_D | UOP_W | UOP_F)                                   \
	X(FLAGS_GET, "flags_get", UOP_W | UOP_F)                                                   \
	X(FLAGS_SET, "flags_set", UOP_A | UOP_F)                                                   \
	X(STRIDE, "stride", UOP_D | UOP_W | UOP_F)                                                 \
	X(SKIP_ZERO, "skip_zero", UOP_A)                                                           \
	X(AGAIN, "again", UOP_A)                                                                   \
	X(BRANCH, "branch", UOP_F)                                                                 \
	X(BRANCH_ZERO, "branch_zero", UOP_A)                                                       \
	X(JUMP, "jump", 0)                                                                         \
	X(JUMP_TO, "jump_to", UOP_A)                                                               \
	X(GIVE_UP, "give_up", 0)

enum uop_op {
#define X(name, text, traits) UOP_OP_##name,
	UOPS(X)
#undef X
		UOP_OP_COUNT
};

/* Bits of struct uop's flags. */
enum uop_flag {
	UOP_IMM = 1, /* operand b is imm */
	UOP_FLAGS = 2, /* sets x86's arithmetic flags */
	UOP_MERGE = 4, /* only the low size bytes of dst change; otherwise the rest becomes 0 */
	UOP_KEEP_CF = 8, /* CF stays as it was (inc, dec) */
	UOP_CALL = 16, /* of a jump */
	UOP_RET = 32,
	UOP_SCALE_SHIFT = 6, /* the two highest bits: log2 of the factor of b in an address */
};

struct uop {
	wire_u8 op; /* enum uop_op */
	/* bytes operated on: 1, 2, 4, 8; vector accesses up to 64; FORGET, CLEAR: of a vector */
	wire_u8 size;
	wire_u8 dst;
	wire_u8 a;
	wire_u8 b;
	wire_u8 flags;
	wire_u16 at; /* which instruction: its first byte, counted from the block's */
	wire_s64 imm;
};

_Static_assert(sizeof(struct uop) == 16, "read by BPF");

/*
 * Why a run ended before its length was reached. Columns: name, JSON name, what a person reads.
 */
#define UOP_ENDS(X)                                                                                \
	X(NONE, "none", "has not ended")                                                           \
	X(UNSUPPORTED, "unsupported", "instruction is not interpreted")                            \
	X(UNDECODABLE, "undecodable", "bytes are no instruction")                                  \
	X(PRIVILEGED, "privileged", "instruction of the system itself")                            \
	X(SYSTEM, "system", "enters or leaves the kernel")                                         \
	X(TRAP, "trap", "breakpoint or deliberate trap")                                           \
	X(DIVIDE, "divide", "division by zero or quotient too large")                              \
	X(UNKNOWN_ADDRESS, "unknown_address", "store to an address that is not known")             \
	X(UNKNOWN_BRANCH, "unknown_branch", "branch on a value that is not known")                 \
	X(STRING_LONG, "string_long", "string instruction with too many repetitions")              \
	X(OVERLAY_FULL, "overlay_full", "more stores than the overlay holds")                      \
	X(LOG_FULL, "log_full", "more loads than a record holds")                                  \
	X(BLOCK_MISSING, "block_missing", "code not translated yet")                               \
	X(BLOCK_STALE, "block_stale", "code changed since its translation")                        \
	X(CODE_UNREADABLE, "code_unreadable", "code was not present")                              \
	X(BAD_BLOCK, "bad_block", "translation is not well-formed")

enum uop_end {
#define X(name, json, text) UOP_END_##name,
	UOP_ENDS(X)
#undef X
		UOP_END_COUNT
};

/* imm of GIVE_UP: why, and the Zydis mnemonic of the instruction. */
#define UOP_GIVE_UP_IMM(end, mnemonic) ((wire_s64)(end) | (wire_s64)(mnemonic) << 8)
#define UOP_GIVE_UP_END(imm) ((imm)&0xff)
#define UOP_GIVE_UP_MNEMONIC(imm) ((imm) >> 8 & 0xffff)

/* imm of PICK: which of the eight words of a and b each word of the result is. */
#define UOP_PICK_IMM(w0, w1, w2, w3) ((w0) | (w1) << 3 | (w2) << 6 | (w3) << 9)

/* imm of KEEP: size of a lane, which bit of b is the first lane's, whether a clear bit keeps it. */
#define UOP_KEEP_IMM(size, first, inverted) ((size) | (first) << 8 | (inverted) << 16)

enum {
	UOP_CODE_MAX = 64, /* bytes of code in a block */
	UOP_BLOCK_MAX = 64, /* micro-operations in a block */
	UOP_AGAIN_MAX = 64, /* repetitions of a string instruction */
};

/* The flags, as bits of x86's flags register. */
enum {
	UOP_CF = 1 << 0,
	UOP_PF = 1 << 2,
	UOP_AF = 1 << 4,
	UOP_ZF = 1 << 6,
	UOP_SF = 1 << 7,
	UOP_IF = 1 << 9,
	UOP_DF = 1 << 10,
	UOP_OF = 1 << 11,
	UOP_AC = 1 << 18,
	UOP_STATUS = UOP_CF | UOP_PF | UOP_AF | UOP_ZF | UOP_SF | UOP_OF,
	UOP_TRACKED = UOP_STATUS | UOP_DF | UOP_IF | UOP_AC, /* known when a run begins */
};

/*
 * A translated block: from pc on, up to a branch, to an instruction that gives up or to a limit
 * above.
 */
struct uop_block {
	wire_u64 pc; /* in its module */
	wire_u16 length; /* bytes of code that were translated */
	wire_u16 count; /* of uops; the last always ends the block */
	wire_u16 instructions;
	wire_u16 reserved;
	/* as translated, then zeros: compared before the block is used */
	wire_u8 code[UOP_CODE_MAX];
	struct uop uops[UOP_BLOCK_MAX];
};

_Static_assert(sizeof(struct uop_block) == 80 + 1024, "read by BPF");

enum uop_lazy {
	UOP_LAZY_NONE,
	UOP_LAZY_ADD,
	UOP_LAZY_SUB,
	UOP_LAZY_LOGIC,
};

/* A running machine. */
struct uop_state {
	wire_u64 regs[UOP_REGISTERS];
	wire_u64 pc; /* of the next block, once one is over, at run time */
	wire_u64 address; /* of the last load, store, touch or poison */
	wire_u64 value; /* that the last store wrote */
	wire_u64 lazy_a; /* operands and result that flags are computed from when they are needed */
	wire_u64 lazy_b;
	wire_u64 lazy_result;
	wire_u32 flags; /* x86's flags register, but for the bits in lazy_mask */
	wire_u32 flags_known; /* which of flags are known; valid as flags are */
	wire_u32 lazy_mask; /* flags that lazy_* stand for */
	wire_u16 lazy_kind; /* enum uop_lazy */
	wire_u16 lazy_size;
	wire_u32 next; /* micro-operation to run next */
	wire_u32 again; /* repetitions of the present string instruction */
	wire_u32 misses; /* loads that could not read: their results are unknown */
	wire_u32 reserved;
	wire_u8 unknown[UOP_REGISTERS]; /* bit per byte of the register: it is not known */
};

_Static_assert(sizeof(struct uop_state) == 2048 + 48 + 32 + 256, "map value");

/* What a run cannot know at its start: vectors and masks. */
static inline __attribute__((always_inline)) void uop_vectors_forget(wire_u8 *unknown)
{
	__builtin_memset(unknown + UOP_VECTORS, UOP_UNKNOWN, UOP_VECTORS_COUNT);
}
