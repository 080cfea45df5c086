// SPDX-License-Identifier: BSD-2-Clause
/* Which function lifts which mnemonic, and its argument. */
#include "isa/lift_private.h"

/* Which half of which source each half becomes. */
enum {
	LIFT_LOW_LOW = LIFT_SECOND << LIFT_TO_HIGH,
	LIFT_HIGH_HIGH = LIFT_HIGH | (LIFT_SECOND | LIFT_HIGH) << LIFT_TO_HIGH,
	LIFT_OTHER_HIGH = LIFT_SECOND | LIFT_HIGH | LIFT_HIGH << LIFT_TO_HIGH,
	LIFT_TWICE = LIFT_SECOND | LIFT_SECOND << LIFT_TO_HIGH,
	LIFT_LOAD_LOW = LIFT_SECOND | LIFT_HIGH << LIFT_TO_HIGH,
	LIFT_LOAD_HIGH = LIFT_SECOND << LIFT_TO_HIGH | LIFT_STORE_HIGH,
};

/* Columns: Zydis mnemonic, function, argument. */
#define LIFT_RULES(X)                                                                              \
	/* moves */                                                                                \
	X(MOV, lift_move, 0)                                                                       \
	X(MOVNTI, lift_move, 0)                                                                    \
	X(MOVDIRI, lift_move, 0)                                                                   \
	X(MOVZX, lift_move_extend, 0)                                                              \
	X(MOVSX, lift_move_extend, 1)                                                              \
	X(MOVSXD, lift_move_extend, 1)                                                             \
	X(LEA, lift_lea, 0)                                                                        \
	X(MOVBE, lift_move_swapped, 0)                                                             \
	X(BSWAP, lift_swap, 0)                                                                     \
	X(XLAT, lift_table, 0)                                                                     \
	X(CBW, lift_widen, 1)                                                                      \
	X(CWDE, lift_widen, 2)                                                                     \
	X(CDQE, lift_widen, 4)                                                                     \
	X(CWD, lift_widen_double, 2)                                                               \
	X(CDQ, lift_widen_double, 4)                                                               \
	X(CQO, lift_widen_double, 8)                                                               \
	X(XCHG, lift_exchange, 0)                                                                  \
	X(XADD, lift_exchange_add, 0)                                                              \
	X(CMPXCHG, lift_compare_exchange, 0)                                                       \
	X(CMPXCHG8B, lift_compare_exchange_pair, 4)                                                \
	X(CMPXCHG16B, lift_compare_exchange_pair, 8)                                               \
	X(RDFSBASE, lift_base_read, UOP_FS_BASE)                                                   \
	X(RDGSBASE, lift_base_read, UOP_GS_BASE)                                                   \
	X(WRFSBASE, lift_base_write, UOP_FS_BASE)                                                  \
	X(WRGSBASE, lift_base_write, UOP_GS_BASE)                                                  \
	/* arithmetic and logic */                                                                 \
	X(ADD, lift_binary, UOP_OP_ADD)                                                            \
	X(ADC, lift_binary, UOP_OP_ADC)                                                            \
	X(SUB, lift_binary, UOP_OP_SUB)                                                            \
	X(SBB, lift_binary, UOP_OP_SBB)                                                            \
	X(AND, lift_binary, UOP_OP_AND)                                                            \
	X(OR, lift_binary, UOP_OP_OR)                                                              \
	X(XOR, lift_binary, UOP_OP_XOR)                                                            \
	X(CMP, lift_compare, UOP_OP_SUB)                                                           \
	X(TEST, lift_compare, UOP_OP_AND)                                                          \
	X(NEG, lift_unary, UOP_OP_NEG)                                                             \
	X(NOT, lift_not, 0)                                                                        \
	X(INC, lift_step, UOP_OP_ADD)                                                              \
	X(DEC, lift_step, UOP_OP_SUB)                                                              \
	X(ADCX, lift_add_carry, UOP_OP_ADCX)                                                       \
	X(ADOX, lift_add_carry, UOP_OP_ADOX)                                                       \
	/* shifts, products, bits */                                                               \
	X(SHL, lift_shift, UOP_OP_SHL)                                                             \
	X(SHR, lift_shift, UOP_OP_SHR)                                                             \
	X(SAR, lift_shift, UOP_OP_SAR)                                                             \
	X(ROL, lift_shift, UOP_OP_ROL)                                                             \
	X(ROR, lift_shift, UOP_OP_ROR)                                                             \
	X(RCL, lift_shift, UOP_OP_RCL)                                                             \
	X(RCR, lift_shift, UOP_OP_RCR)                                                             \
	X(SHLD, lift_shift_double, UOP_OP_SHLD)                                                    \
	X(SHRD, lift_shift_double, UOP_OP_SHRD)                                                    \
	X(RORX, lift_shift_quiet, UOP_OP_ROR)                                                      \
	X(SARX, lift_shift_quiet, UOP_OP_SAR)                                                      \
	X(SHLX, lift_shift_quiet, UOP_OP_SHL)                                                      \
	X(SHRX, lift_shift_quiet, UOP_OP_SHR)                                                      \
	X(MUL, lift_multiply, 0)                                                                   \
	X(IMUL, lift_multiply_signed, 0)                                                           \
	X(MULX, lift_multiply_quiet, 0)                                                            \
	X(DIV, lift_divide, 0)                                                                     \
	X(IDIV, lift_divide, 1)                                                                    \
	X(BT, lift_bit, UOP_OP_BT)                                                                 \
	X(BTS, lift_bit, UOP_OP_BTS)                                                               \
	X(BTR, lift_bit, UOP_OP_BTR)                                                               \
	X(BTC, lift_bit, UOP_OP_BTC)                                                               \
	X(BSF, lift_scan, UOP_OP_BSF)                                                              \
	X(BSR, lift_scan, UOP_OP_BSR)                                                              \
	X(TZCNT, lift_scan, UOP_OP_TZCNT)                                                          \
	X(LZCNT, lift_scan, UOP_OP_LZCNT)                                                          \
	X(POPCNT, lift_scan, UOP_OP_POPCNT)                                                        \
	X(BLSI, lift_scan, UOP_OP_BLSI)                                                            \
	X(BLSR, lift_scan, UOP_OP_BLSR)                                                            \
	X(BLSMSK, lift_scan, UOP_OP_BLSMSK)                                                        \
	X(ANDN, lift_bmi_binary, UOP_OP_ANDN)                                                      \
	X(BEXTR, lift_bmi_binary, UOP_OP_BEXTR)                                                    \
	X(BZHI, lift_bmi_binary, UOP_OP_BZHI)                                                      \
	X(PDEP, lift_bmi_binary, UOP_OP_PDEP)                                                      \
	X(PEXT, lift_bmi_binary, UOP_OP_PEXT)                                                      \
	/* conditions; the argument is x86's condition code */                                     \
	X(JO, lift_branch, 0)                                                                      \
	X(JNO, lift_branch, 1)                                                                     \
	X(JB, lift_branch, 2)                                                                      \
	X(JNB, lift_branch, 3)                                                                     \
	X(JZ, lift_branch, 4)                                                                      \
	X(JNZ, lift_branch, 5)                                                                     \
	X(JBE, lift_branch, 6)                                                                     \
	X(JNBE, lift_branch, 7)                                                                    \
	X(JS, lift_branch, 8)                                                                      \
	X(JNS, lift_branch, 9)                                                                     \
	X(JP, lift_branch, 10)                                                                     \
	X(JNP, lift_branch, 11)                                                                    \
	X(JL, lift_branch, 12)                                                                     \
	X(JNL, lift_branch, 13)                                                                    \
	X(JLE, lift_branch, 14)                                                                    \
	X(JNLE, lift_branch, 15)                                                                   \
	X(SETO, lift_setcc, 0)                                                                     \
	X(SETNO, lift_setcc, 1)                                                                    \
	X(SETB, lift_setcc, 2)                                                                     \
	X(SETNB, lift_setcc, 3)                                                                    \
	X(SETZ, lift_setcc, 4)                                                                     \
	X(SETNZ, lift_setcc, 5)                                                                    \
	X(SETBE, lift_setcc, 6)                                                                    \
	X(SETNBE, lift_setcc, 7)                                                                   \
	X(SETS, lift_setcc, 8)                                                                     \
	X(SETNS, lift_setcc, 9)                                                                    \
	X(SETP, lift_setcc, 10)                                                                    \
	X(SETNP, lift_setcc, 11)                                                                   \
	X(SETL, lift_setcc, 12)                                                                    \
	X(SETNL, lift_setcc, 13)                                                                   \
	X(SETLE, lift_setcc, 14)                                                                   \
	X(SETNLE, lift_setcc, 15)                                                                  \
	X(CMOVO, lift_cmov, 0)                                                                     \
	X(CMOVNO, lift_cmov, 1)                                                                    \
	X(CMOVB, lift_cmov, 2)                                                                     \
	X(CMOVNB, lift_cmov, 3)                                                                    \
	X(CMOVZ, lift_cmov, 4)                                                                     \
	X(CMOVNZ, lift_cmov, 5)                                                                    \
	X(CMOVBE, lift_cmov, 6)                                                                    \
	X(CMOVNBE, lift_cmov, 7)                                                                   \
	X(CMOVS, lift_cmov, 8)                                                                     \
	X(CMOVNS, lift_cmov, 9)                                                                    \
	X(CMOVP, lift_cmov, 10)                                                                    \
	X(CMOVNP, lift_cmov, 11)                                                                   \
	X(CMOVL, lift_cmov, 12)                                                                    \
	X(CMOVNL, lift_cmov, 13)                                                                   \
	X(CMOVLE, lift_cmov, 14)                                                                   \
	X(CMOVNLE, lift_cmov, 15)                                                                  \
	X(JECXZ, lift_branch_count, 4)                                                             \
	X(JRCXZ, lift_branch_count, 8)                                                             \
	X(LOOP, lift_loop, 0)                                                                      \
	X(LOOPE, lift_loop, 4)                                                                     \
	X(LOOPNE, lift_loop, 5)                                                                    \
	/* calls and the stack */                                                                  \
	X(JMP, lift_jmp, 0)                                                                        \
	X(CALL, lift_call, 0)                                                                      \
	X(RET, lift_ret, 0)                                                                        \
	X(PUSH, lift_push, 0)                                                                      \
	X(POP, lift_pop, 0)                                                                        \
	X(LEAVE, lift_leave, 0)                                                                    \
	X(ENTER, lift_enter, 0)                                                                    \
	/* flags */                                                                                \
	X(PUSHF, lift_push_flags, 2)                                                               \
	X(PUSHFQ, lift_push_flags, 8)                                                              \
	X(POPF, lift_pop_flags, 2)                                                                 \
	X(POPFQ, lift_pop_flags, 8)                                                                \
	X(LAHF, lift_lahf, 0)                                                                      \
	X(SAHF, lift_sahf, 0)                                                                      \
	X(CLC, lift_flag, UOP_CF)                                                                  \
	X(STC, lift_flag, UOP_CF | LIFT_SET)                                                       \
	X(CLD, lift_flag, UOP_DF)                                                                  \
	X(STD, lift_flag, UOP_DF | LIFT_SET)                                                       \
	X(CLI, lift_flag, UOP_IF)                                                                  \
	X(STI, lift_flag, UOP_IF | LIFT_SET)                                                       \
	X(CLAC, lift_flag, UOP_AC)                                                                 \
	X(STAC, lift_flag, UOP_AC | LIFT_SET)                                                      \
	X(XTEST, lift_outside, 0)                                                                  \
	X(CMC, lift_flip_carry, 3)                                                                 \
	/* strings; the argument is the size of an element */                                      \
	X(MOVSB, lift_string, 1)                                                                   \
	X(MOVSW, lift_string, 2)                                                                   \
	X(MOVSD, lift_movsd, 0)                                                                    \
	X(MOVSQ, lift_string, 8)                                                                   \
	X(CMPSB, lift_string, 1)                                                                   \
	X(CMPSW, lift_string, 2)                                                                   \
	X(CMPSD, lift_cmpsd, 0)                                                                    \
	X(CMPSQ, lift_string, 8)                                                                   \
	X(STOSB, lift_string, 1)                                                                   \
	X(STOSW, lift_string, 2)                                                                   \
	X(STOSD, lift_string, 4)                                                                   \
	X(STOSQ, lift_string, 8)                                                                   \
	X(LODSB, lift_string, 1)                                                                   \
	X(LODSW, lift_string, 2)                                                                   \
	X(LODSD, lift_string, 4)                                                                   \
	X(LODSQ, lift_string, 8)                                                                   \
	X(SCASB, lift_string, 1)                                                                   \
	X(SCASW, lift_string, 2)                                                                   \
	X(SCASD, lift_string, 4)                                                                   \
	X(SCASQ, lift_string, 8)                                                                   \
	/* vectors */                                                                              \
	X(MOVAPS, lift_vector_move, 0)                                                             \
	X(MOVUPS, lift_vector_move, 0)                                                             \
	X(MOVAPD, lift_vector_move, 0)                                                             \
	X(MOVUPD, lift_vector_move, 0)                                                             \
	X(MOVDQA, lift_vector_move, 0)                                                             \
	X(MOVDQU, lift_vector_move, 0)                                                             \
	X(LDDQU, lift_vector_move, 0)                                                              \
	X(MOVNTDQA, lift_vector_move, 0)                                                           \
	X(MOVNTPS, lift_vector_move, 0)                                                            \
	X(MOVNTPD, lift_vector_move, 0)                                                            \
	X(MOVNTDQ, lift_vector_move, 0)                                                            \
	X(VMOVAPS, lift_vector_move, 0)                                                            \
	X(VMOVUPS, lift_vector_move, 0)                                                            \
	X(VMOVAPD, lift_vector_move, 0)                                                            \
	X(VMOVUPD, lift_vector_move, 0)                                                            \
	X(VMOVDQA, lift_vector_move, 0)                                                            \
	X(VMOVDQU, lift_vector_move, 0)                                                            \
	X(VLDDQU, lift_vector_move, 0)                                                             \
	X(VMOVNTDQA, lift_vector_move, 0)                                                          \
	X(VMOVNTPS, lift_vector_move, 0)                                                           \
	X(VMOVNTPD, lift_vector_move, 0)                                                           \
	X(VMOVNTDQ, lift_vector_move, 0)                                                           \
	X(VMOVDQA32, lift_vector_move, 0)                                                          \
	X(VMOVDQA64, lift_vector_move, 0)                                                          \
	X(VMOVDQU8, lift_vector_move, 0)                                                           \
	X(VMOVDQU16, lift_vector_move, 0)                                                          \
	X(VMOVDQU32, lift_vector_move, 0)                                                          \
	X(VMOVDQU64, lift_vector_move, 0)                                                          \
	X(MOVD, lift_vector_low, 4)                                                                \
	X(VMOVD, lift_vector_low, 4)                                                               \
	X(MOVQ, lift_vector_low, 8)                                                                \
	X(VMOVQ, lift_vector_low, 8)                                                               \
	X(MOVSS, lift_vector_scalar, 4)                                                            \
	X(VMOVSS, lift_vector_scalar, 4)                                                           \
	X(MOVNTSS, lift_vector_scalar, 4)                                                          \
	X(VMOVSD, lift_vector_scalar, 8)                                                           \
	X(MOVNTSD, lift_vector_scalar, 8)                                                          \
	X(MOVLPS, lift_vector_half, LIFT_LOAD_LOW)                                                 \
	X(MOVLPD, lift_vector_half, LIFT_LOAD_LOW)                                                 \
	X(VMOVLPS, lift_vector_half, LIFT_LOAD_LOW)                                                \
	X(VMOVLPD, lift_vector_half, LIFT_LOAD_LOW)                                                \
	X(MOVHPS, lift_vector_half, LIFT_LOAD_HIGH)                                                \
	X(MOVHPD, lift_vector_half, LIFT_LOAD_HIGH)                                                \
	X(VMOVHPS, lift_vector_half, LIFT_LOAD_HIGH)                                               \
	X(VMOVHPD, lift_vector_half, LIFT_LOAD_HIGH)                                               \
	X(MOVLHPS, lift_vector_halves, LIFT_LOW_LOW)                                               \
	X(VMOVLHPS, lift_vector_halves, LIFT_LOW_LOW)                                              \
	X(UNPCKLPD, lift_vector_halves, LIFT_LOW_LOW)                                              \
	X(VUNPCKLPD, lift_vector_halves, LIFT_LOW_LOW)                                             \
	X(PUNPCKLQDQ, lift_vector_halves, LIFT_LOW_LOW)                                            \
	X(VPUNPCKLQDQ, lift_vector_halves, LIFT_LOW_LOW)                                           \
	X(UNPCKHPD, lift_vector_halves, LIFT_HIGH_HIGH)                                            \
	X(VUNPCKHPD, lift_vector_halves, LIFT_HIGH_HIGH)                                           \
	X(PUNPCKHQDQ, lift_vector_halves, LIFT_HIGH_HIGH)                                          \
	X(VPUNPCKHQDQ, lift_vector_halves, LIFT_HIGH_HIGH)                                         \
	X(MOVHLPS, lift_vector_halves, LIFT_OTHER_HIGH)                                            \
	X(VMOVHLPS, lift_vector_halves, LIFT_OTHER_HIGH)                                           \
	X(MOVDDUP, lift_vector_halves, LIFT_TWICE)                                                 \
	X(VMOVDDUP, lift_vector_halves, LIFT_TWICE)                                                \
	X(PAND, lift_vector_logic, UOP_OP_AND)                                                     \
	X(ANDPS, lift_vector_logic, UOP_OP_AND)                                                    \
	X(ANDPD, lift_vector_logic, UOP_OP_AND)                                                    \
	X(VPAND, lift_vector_logic, UOP_OP_AND)                                                    \
	X(VPANDD, lift_vector_logic, UOP_OP_AND)                                                   \
	X(VPANDQ, lift_vector_logic, UOP_OP_AND)                                                   \
	X(VANDPS, lift_vector_logic, UOP_OP_AND)                                                   \
	X(VANDPD, lift_vector_logic, UOP_OP_AND)                                                   \
	X(POR, lift_vector_logic, UOP_OP_OR)                                                       \
	X(ORPS, lift_vector_logic, UOP_OP_OR)                                                      \
	X(ORPD, lift_vector_logic, UOP_OP_OR)                                                      \
	X(VPOR, lift_vector_logic, UOP_OP_OR)                                                      \
	X(VPORD, lift_vector_logic, UOP_OP_OR)                                                     \
	X(VPORQ, lift_vector_logic, UOP_OP_OR)                                                     \
	X(VORPS, lift_vector_logic, UOP_OP_OR)                                                     \
	X(VORPD, lift_vector_logic, UOP_OP_OR)                                                     \
	X(PXOR, lift_vector_logic, UOP_OP_XOR)                                                     \
	X(XORPS, lift_vector_logic, UOP_OP_XOR)                                                    \
	X(XORPD, lift_vector_logic, UOP_OP_XOR)                                                    \
	X(VPXOR, lift_vector_logic, UOP_OP_XOR)                                                    \
	X(VPXORD, lift_vector_logic, UOP_OP_XOR)                                                   \
	X(VPXORQ, lift_vector_logic, UOP_OP_XOR)                                                   \
	X(VXORPS, lift_vector_logic, UOP_OP_XOR)                                                   \
	X(VXORPD, lift_vector_logic, UOP_OP_XOR)                                                   \
	X(PANDN, lift_vector_logic, UOP_OP_ANDN)                                                   \
	X(ANDNPS, lift_vector_logic, UOP_OP_ANDN)                                                  \
	X(ANDNPD, lift_vector_logic, UOP_OP_ANDN)                                                  \
	X(VPANDN, lift_vector_logic, UOP_OP_ANDN)                                                  \
	X(VPANDND, lift_vector_logic, UOP_OP_ANDN)                                                 \
	X(VPANDNQ, lift_vector_logic, UOP_OP_ANDN)                                                 \
	X(VANDNPS, lift_vector_logic, UOP_OP_ANDN)                                                 \
	X(VANDNPD, lift_vector_logic, UOP_OP_ANDN)                                                 \
	/* lanes of them */                                                                        \
	X(PCMPEQB, lift_lanes, UOP_OP_LANES_EQ | 1 << LIFT_LANE_SHIFT)                             \
	X(VPCMPEQB, lift_lanes, UOP_OP_LANES_EQ | 1 << LIFT_LANE_SHIFT)                            \
	X(PADDB, lift_lanes, UOP_OP_LANES_ADD | 1 << LIFT_LANE_SHIFT)                              \
	X(VPADDB, lift_lanes, UOP_OP_LANES_ADD | 1 << LIFT_LANE_SHIFT)                             \
	X(PSUBB, lift_lanes, UOP_OP_LANES_SUB | 1 << LIFT_LANE_SHIFT)                              \
	X(VPSUBB, lift_lanes, UOP_OP_LANES_SUB | 1 << LIFT_LANE_SHIFT)                             \
	X(PCMPEQW, lift_lanes, UOP_OP_LANES_EQ | 2 << LIFT_LANE_SHIFT)                             \
	X(VPCMPEQW, lift_lanes, UOP_OP_LANES_EQ | 2 << LIFT_LANE_SHIFT)                            \
	X(PADDW, lift_lanes, UOP_OP_LANES_ADD | 2 << LIFT_LANE_SHIFT)                              \
	X(VPADDW, lift_lanes, UOP_OP_LANES_ADD | 2 << LIFT_LANE_SHIFT)                             \
	X(PSUBW, lift_lanes, UOP_OP_LANES_SUB | 2 << LIFT_LANE_SHIFT)                              \
	X(VPSUBW, lift_lanes, UOP_OP_LANES_SUB | 2 << LIFT_LANE_SHIFT)                             \
	X(PCMPEQD, lift_lanes, UOP_OP_LANES_EQ | 4 << LIFT_LANE_SHIFT)                             \
	X(VPCMPEQD, lift_lanes, UOP_OP_LANES_EQ | 4 << LIFT_LANE_SHIFT)                            \
	X(PADDD, lift_lanes, UOP_OP_LANES_ADD | 4 << LIFT_LANE_SHIFT)                              \
	X(VPADDD, lift_lanes, UOP_OP_LANES_ADD | 4 << LIFT_LANE_SHIFT)                             \
	X(PSUBD, lift_lanes, UOP_OP_LANES_SUB | 4 << LIFT_LANE_SHIFT)                              \
	X(VPSUBD, lift_lanes, UOP_OP_LANES_SUB | 4 << LIFT_LANE_SHIFT)                             \
	X(PCMPEQQ, lift_lanes, UOP_OP_LANES_EQ | 8 << LIFT_LANE_SHIFT)                             \
	X(VPCMPEQQ, lift_lanes, UOP_OP_LANES_EQ | 8 << LIFT_LANE_SHIFT)                            \
	X(PADDQ, lift_lanes, UOP_OP_LANES_ADD | 8 << LIFT_LANE_SHIFT)                              \
	X(VPADDQ, lift_lanes, UOP_OP_LANES_ADD | 8 << LIFT_LANE_SHIFT)                             \
	X(PSUBQ, lift_lanes, UOP_OP_LANES_SUB | 8 << LIFT_LANE_SHIFT)                              \
	X(VPSUBQ, lift_lanes, UOP_OP_LANES_SUB | 8 << LIFT_LANE_SHIFT)                             \
	X(PMINUB, lift_lanes, UOP_OP_LANES_MIN | 1 << LIFT_LANE_SHIFT)                             \
	X(VPMINUB, lift_lanes, UOP_OP_LANES_MIN | 1 << LIFT_LANE_SHIFT)                            \
	X(PMOVMSKB, lift_signs, 1)                                                                 \
	X(VPMOVMSKB, lift_signs, 1)                                                                \
	X(MOVMSKPS, lift_signs, 4)                                                                 \
	X(VMOVMSKPS, lift_signs, 4)                                                                \
	X(MOVMSKPD, lift_signs, 8)                                                                 \
	X(VMOVMSKPD, lift_signs, 8)                                                                \
	X(PSHUFD, lift_shuffle, 0)                                                                 \
	X(VPSHUFD, lift_shuffle, 0)                                                                \
	X(SHUFPS, lift_shuffle, 1)                                                                 \
	X(VSHUFPS, lift_shuffle, 1)                                                                \
	X(SHUFPD, lift_shuffle_halves, 0)                                                          \
	X(VSHUFPD, lift_shuffle_halves, 0)                                                         \
	X(PSHUFLW, lift_shuffle_words, 0)                                                          \
	X(VPSHUFLW, lift_shuffle_words, 0)                                                         \
	X(PSHUFHW, lift_shuffle_words, 1)                                                          \
	X(VPSHUFHW, lift_shuffle_words, 1)                                                         \
	X(MOVSLDUP, lift_duplicate, 0)                                                             \
	X(VMOVSLDUP, lift_duplicate, 0)                                                            \
	X(MOVSHDUP, lift_duplicate, 1)                                                             \
	X(VMOVSHDUP, lift_duplicate, 1)                                                            \
	X(PUNPCKLBW, lift_interleave, 1)                                                           \
	X(VPUNPCKLBW, lift_interleave, 1)                                                          \
	X(PUNPCKLWD, lift_interleave, 2)                                                           \
	X(VPUNPCKLWD, lift_interleave, 2)                                                          \
	X(PUNPCKLDQ, lift_interleave, 4)                                                           \
	X(VPUNPCKLDQ, lift_interleave, 4)                                                          \
	X(UNPCKLPS, lift_interleave, 4)                                                            \
	X(VUNPCKLPS, lift_interleave, 4)                                                           \
	X(PUNPCKHBW, lift_interleave, 1 | LIFT_HIGH_LANES)                                         \
	X(VPUNPCKHBW, lift_interleave, 1 | LIFT_HIGH_LANES)                                        \
	X(PUNPCKHWD, lift_interleave, 2 | LIFT_HIGH_LANES)                                         \
	X(VPUNPCKHWD, lift_interleave, 2 | LIFT_HIGH_LANES)                                        \
	X(PUNPCKHDQ, lift_interleave, 4 | LIFT_HIGH_LANES)                                         \
	X(VPUNPCKHDQ, lift_interleave, 4 | LIFT_HIGH_LANES)                                        \
	X(UNPCKHPS, lift_interleave, 4 | LIFT_HIGH_LANES)                                          \
	X(VUNPCKHPS, lift_interleave, 4 | LIFT_HIGH_LANES)                                         \
	X(PEXTRB, lift_extract, 1)                                                                 \
	X(VPEXTRB, lift_extract, 1)                                                                \
	X(PEXTRW, lift_extract, 2)                                                                 \
	X(VPEXTRW, lift_extract, 2)                                                                \
	X(PINSRW, lift_insert, 2)                                                                  \
	X(VPINSRW, lift_insert, 2)                                                                 \
	X(PEXTRD, lift_extract, 4)                                                                 \
	X(VPEXTRD, lift_extract, 4)                                                                \
	X(PINSRD, lift_insert, 4)                                                                  \
	X(VPINSRD, lift_insert, 4)                                                                 \
	X(PEXTRQ, lift_extract, 8)                                                                 \
	X(VPEXTRQ, lift_extract, 8)                                                                \
	X(PINSRQ, lift_insert, 8)                                                                  \
	X(VPINSRQ, lift_insert, 8)                                                                 \
	X(PSRLQ, lift_shift_lanes, UOP_OP_SHR)                                                     \
	X(VPSRLQ, lift_shift_lanes, UOP_OP_SHR)                                                    \
	X(PSLLQ, lift_shift_lanes, UOP_OP_SHL)                                                     \
	X(VPSLLQ, lift_shift_lanes, UOP_OP_SHL)                                                    \
	X(PSLLDQ, lift_shift_bytes, LIFT_BYTES_LEFT)                                               \
	X(VPSLLDQ, lift_shift_bytes, LIFT_BYTES_LEFT)                                              \
	X(PSRLDQ, lift_shift_bytes, LIFT_BYTES_RIGHT)                                              \
	X(VPSRLDQ, lift_shift_bytes, LIFT_BYTES_RIGHT)                                             \
	X(PALIGNR, lift_shift_bytes, LIFT_BYTES_ALIGN)                                             \
	X(VPALIGNR, lift_shift_bytes, LIFT_BYTES_ALIGN)                                            \
	X(COMISS, lift_compare_floats, 4)                                                          \
	X(VCOMISS, lift_compare_floats, 4)                                                         \
	X(UCOMISS, lift_compare_floats, 4)                                                         \
	X(VUCOMISS, lift_compare_floats, 4)                                                        \
	X(COMISD, lift_compare_floats, 8)                                                          \
	X(VCOMISD, lift_compare_floats, 8)                                                         \
	X(UCOMISD, lift_compare_floats, 8)                                                         \
	X(VUCOMISD, lift_compare_floats, 8)                                                        \
	X(PMAXUB, lift_lanes, UOP_OP_LANES_MAX | 1 << LIFT_LANE_SHIFT)                             \
	X(VPMAXUB, lift_lanes, UOP_OP_LANES_MAX | 1 << LIFT_LANE_SHIFT)                            \
	X(PMINUW, lift_lanes, UOP_OP_LANES_MIN | 2 << LIFT_LANE_SHIFT)                             \
	X(VPMINUW, lift_lanes, UOP_OP_LANES_MIN | 2 << LIFT_LANE_SHIFT)                            \
	X(PMAXUW, lift_lanes, UOP_OP_LANES_MAX | 2 << LIFT_LANE_SHIFT)                             \
	X(VPMAXUW, lift_lanes, UOP_OP_LANES_MAX | 2 << LIFT_LANE_SHIFT)                            \
	X(PMINUD, lift_lanes, UOP_OP_LANES_MIN | 4 << LIFT_LANE_SHIFT)                             \
	X(VPMINUD, lift_lanes, UOP_OP_LANES_MIN | 4 << LIFT_LANE_SHIFT)                            \
	X(PMAXUD, lift_lanes, UOP_OP_LANES_MAX | 4 << LIFT_LANE_SHIFT)                             \
	X(VPMAXUD, lift_lanes, UOP_OP_LANES_MAX | 4 << LIFT_LANE_SHIFT)                            \
	X(PCMPGTB, lift_greater, 1)                                                                \
	X(VPCMPGTB, lift_greater, 1)                                                               \
	X(VPCMPB, lift_vector_compare, 1)                                                          \
	X(VPCMPUB, lift_vector_compare, 0)                                                         \
	X(VPTESTMB, lift_vector_test_lanes, 0)                                                     \
	X(VPTESTNMB, lift_vector_test_lanes, 1)                                                    \
	X(VPBROADCASTB, lift_broadcast, 1)                                                         \
	X(PCMPGTW, lift_greater, 2)                                                                \
	X(VPCMPGTW, lift_greater, 2)                                                               \
	X(VPCMPW, lift_vector_compare, 1)                                                          \
	X(VPCMPUW, lift_vector_compare, 0)                                                         \
	X(VPTESTMW, lift_vector_test_lanes, 0)                                                     \
	X(VPTESTNMW, lift_vector_test_lanes, 1)                                                    \
	X(VPBROADCASTW, lift_broadcast, 2)                                                         \
	X(PCMPGTD, lift_greater, 4)                                                                \
	X(VPCMPGTD, lift_greater, 4)                                                               \
	X(VPCMPD, lift_vector_compare, 1)                                                          \
	X(VPCMPUD, lift_vector_compare, 0)                                                         \
	X(VPTESTMD, lift_vector_test_lanes, 0)                                                     \
	X(VPTESTNMD, lift_vector_test_lanes, 1)                                                    \
	X(VPBROADCASTD, lift_broadcast, 4)                                                         \
	X(PCMPGTQ, lift_greater, 8)                                                                \
	X(VPCMPGTQ, lift_greater, 8)                                                               \
	X(VPCMPQ, lift_vector_compare, 1)                                                          \
	X(VPCMPUQ, lift_vector_compare, 0)                                                         \
	X(VPTESTMQ, lift_vector_test_lanes, 0)                                                     \
	X(VPTESTNMQ, lift_vector_test_lanes, 1)                                                    \
	X(VPBROADCASTQ, lift_broadcast, 8)                                                         \
	X(PTEST, lift_vector_test, 0)                                                              \
	X(VPTEST, lift_vector_test, 0)                                                             \
	X(VBROADCASTSS, lift_broadcast, 4)                                                         \
	X(VBROADCASTSD, lift_broadcast, 8)                                                         \
	X(VPTERNLOGD, lift_ternary, 0)                                                             \
	X(VPTERNLOGQ, lift_ternary, 0)                                                             \
	/* masks */                                                                                \
	X(KMOVB, lift_mask_move, 1)                                                                \
	X(KANDB, lift_mask_logic, UOP_OP_AND | 1 << LIFT_LANE_SHIFT)                               \
	X(KANDNB, lift_mask_logic, UOP_OP_ANDN | 1 << LIFT_LANE_SHIFT)                             \
	X(KORB, lift_mask_logic, UOP_OP_OR | 1 << LIFT_LANE_SHIFT)                                 \
	X(KXORB, lift_mask_logic, UOP_OP_XOR | 1 << LIFT_LANE_SHIFT)                               \
	X(KADDB, lift_mask_logic, UOP_OP_ADD | 1 << LIFT_LANE_SHIFT)                               \
	X(KXNORB, lift_mask_logic, UOP_OP_XOR | 1 << LIFT_LANE_SHIFT | LIFT_INVERTED)              \
	X(KNOTB, lift_mask_not, 1)                                                                 \
	X(KSHIFTLB, lift_mask_shift, UOP_OP_SHL | 1 << LIFT_LANE_SHIFT)                            \
	X(KSHIFTRB, lift_mask_shift, UOP_OP_SHR | 1 << LIFT_LANE_SHIFT)                            \
	X(KORTESTB, lift_mask_test, 1)                                                             \
	X(KTESTB, lift_mask_test, 1 | LIFT_TEST)                                                   \
	X(KMOVW, lift_mask_move, 2)                                                                \
	X(KANDW, lift_mask_logic, UOP_OP_AND | 2 << LIFT_LANE_SHIFT)                               \
	X(KANDNW, lift_mask_logic, UOP_OP_ANDN | 2 << LIFT_LANE_SHIFT)                             \
	X(KORW, lift_mask_logic, UOP_OP_OR | 2 << LIFT_LANE_SHIFT)                                 \
	X(KXORW, lift_mask_logic, UOP_OP_XOR | 2 << LIFT_LANE_SHIFT)                               \
	X(KADDW, lift_mask_logic, UOP_OP_ADD | 2 << LIFT_LANE_SHIFT)                               \
	X(KXNORW, lift_mask_logic, UOP_OP_XOR | 2 << LIFT_LANE_SHIFT | LIFT_INVERTED)              \
	X(KNOTW, lift_mask_not, 2)                                                                 \
	X(KSHIFTLW, lift_mask_shift, UOP_OP_SHL | 2 << LIFT_LANE_SHIFT)                            \
	X(KSHIFTRW, lift_mask_shift, UOP_OP_SHR | 2 << LIFT_LANE_SHIFT)                            \
	X(KORTESTW, lift_mask_test, 2)                                                             \
	X(KTESTW, lift_mask_test, 2 | LIFT_TEST)                                                   \
	X(KMOVD, lift_mask_move, 4)                                                                \
	X(KANDD, lift_mask_logic, UOP_OP_AND | 4 << LIFT_LANE_SHIFT)                               \
	X(KANDND, lift_mask_logic, UOP_OP_ANDN | 4 << LIFT_LANE_SHIFT)                             \
	X(KORD, lift_mask_logic, UOP_OP_OR | 4 << LIFT_LANE_SHIFT)                                 \
	X(KXORD, lift_mask_logic, UOP_OP_XOR | 4 << LIFT_LANE_SHIFT)                               \
	X(KADDD, lift_mask_logic, UOP_OP_ADD | 4 << LIFT_LANE_SHIFT)                               \
	X(KXNORD, lift_mask_logic, UOP_OP_XOR | 4 << LIFT_LANE_SHIFT | LIFT_INVERTED)              \
	X(KNOTD, lift_mask_not, 4)                                                                 \
	X(KSHIFTLD, lift_mask_shift, UOP_OP_SHL | 4 << LIFT_LANE_SHIFT)                            \
	X(KSHIFTRD, lift_mask_shift, UOP_OP_SHR | 4 << LIFT_LANE_SHIFT)                            \
	X(KORTESTD, lift_mask_test, 4)                                                             \
	X(KTESTD, lift_mask_test, 4 | LIFT_TEST)                                                   \
	X(KMOVQ, lift_mask_move, 8)                                                                \
	X(KANDQ, lift_mask_logic, UOP_OP_AND | 8 << LIFT_LANE_SHIFT)                               \
	X(KANDNQ, lift_mask_logic, UOP_OP_ANDN | 8 << LIFT_LANE_SHIFT)                             \
	X(KORQ, lift_mask_logic, UOP_OP_OR | 8 << LIFT_LANE_SHIFT)                                 \
	X(KXORQ, lift_mask_logic, UOP_OP_XOR | 8 << LIFT_LANE_SHIFT)                               \
	X(KADDQ, lift_mask_logic, UOP_OP_ADD | 8 << LIFT_LANE_SHIFT)                               \
	X(KXNORQ, lift_mask_logic, UOP_OP_XOR | 8 << LIFT_LANE_SHIFT | LIFT_INVERTED)              \
	X(KNOTQ, lift_mask_not, 8)                                                                 \
	X(KSHIFTLQ, lift_mask_shift, UOP_OP_SHL | 8 << LIFT_LANE_SHIFT)                            \
	X(KSHIFTRQ, lift_mask_shift, UOP_OP_SHR | 8 << LIFT_LANE_SHIFT)                            \
	X(KORTESTQ, lift_mask_test, 8)                                                             \
	X(KTESTQ, lift_mask_test, 8 | LIFT_TEST)                                                   \
	X(KUNPCKBW, lift_mask_join, 1)                                                             \
	X(KUNPCKWD, lift_mask_join, 2)                                                             \
	X(KUNPCKDQ, lift_mask_join, 4)                                                             \
	/* without an effect on registers or memory */                                             \
	X(NOP, lift_nop, 0)                                                                        \
	X(PAUSE, lift_pause, 0)                                                                    \
	X(ENDBR64, lift_nop, 0)                                                                    \
	X(ENDBR32, lift_nop, 0)                                                                    \
	X(LFENCE, lift_nop, 0)                                                                     \
	X(MFENCE, lift_nop, 0)                                                                     \
	X(SFENCE, lift_nop, 0)                                                                     \
	X(SERIALIZE, lift_nop, 0)                                                                  \
	X(PREFETCH, lift_nop, 0)                                                                   \
	X(PREFETCHW, lift_nop, 0)                                                                  \
	X(PREFETCHNTA, lift_nop, 0)                                                                \
	X(PREFETCHT0, lift_nop, 0)                                                                 \
	X(PREFETCHT1, lift_nop, 0)                                                                 \
	X(PREFETCHT2, lift_nop, 0)                                                                 \
	X(PREFETCHWT1, lift_nop, 0)                                                                \
	X(CLFLUSH, lift_nop, 0)                                                                    \
	X(CLFLUSHOPT, lift_nop, 0)                                                                 \
	X(CLWB, lift_nop, 0)                                                                       \
	X(CLDEMOTE, lift_nop, 0)                                                                   \
	X(INVLPG, lift_nop, 0)                                                                     \
	X(INVPCID, lift_nop, 0)                                                                    \
	X(WBINVD, lift_nop, 0)                                                                     \
	X(CLTS, lift_nop, 0)                                                                       \
	X(WRPKRU, lift_nop, 0)                                                                     \
	X(FWAIT, lift_nop, 0)                                                                      \
	X(EMMS, lift_nop, 0)                                                                       \
	X(VZEROUPPER, lift_zero_upper, 0)                                                          \
	X(VZEROALL, lift_zero_upper, 1)                                                            \
	/* results that are not known */                                                           \
	X(RDSSPD, lift_opaque, 0)                                                                  \
	X(RDSSPQ, lift_opaque, 0)                                                                  \
	X(RDTSC, lift_opaque, 0)                                                                   \
	X(RDTSCP, lift_opaque, 0)                                                                  \
	X(CPUID, lift_opaque, 0)                                                                   \
	X(XGETBV, lift_opaque, 0)                                                                  \
	X(RDPKRU, lift_opaque, 0)                                                                  \
	X(TPAUSE, lift_opaque, 0)                                                                  \
	X(VERR, lift_opaque, 0)                                                                    \
	X(VERW, lift_opaque, 0)                                                                    \
	X(LAR, lift_opaque, 0)                                                                     \
	X(LSL, lift_opaque, 0)                                                                     \
	X(RDPMC, lift_end, UOP_END_PRIVILEGED)                                                     \
	X(FXRSTOR, lift_end, UOP_END_UNSUPPORTED)                                                  \
	X(FXRSTOR64, lift_end, UOP_END_UNSUPPORTED)                                                \
	/* ends */                                                                                 \
	X(SYSCALL, lift_end, UOP_END_SYSTEM)                                                       \
	X(SYSENTER, lift_end, UOP_END_SYSTEM)                                                      \
	X(SYSRET, lift_end, UOP_END_SYSTEM)                                                        \
	X(SYSEXIT, lift_end, UOP_END_SYSTEM)                                                       \
	X(INT, lift_end, UOP_END_SYSTEM)                                                           \
	X(IRETD, lift_end, UOP_END_SYSTEM)                                                         \
	X(IRETQ, lift_end, UOP_END_SYSTEM)                                                         \
	X(INT3, lift_end, UOP_END_TRAP)                                                            \
	X(INT1, lift_end, UOP_END_TRAP)                                                            \
	X(UD0, lift_end, UOP_END_TRAP)                                                             \
	X(UD1, lift_end, UOP_END_TRAP)                                                             \
	X(UD2, lift_end, UOP_END_TRAP)                                                             \
	X(HLT, lift_end, UOP_END_PRIVILEGED)                                                       \
	X(INVD, lift_end, UOP_END_PRIVILEGED)                                                      \
	X(LGDT, lift_end, UOP_END_PRIVILEGED)                                                      \
	X(LIDT, lift_end, UOP_END_PRIVILEGED)                                                      \
	X(LLDT, lift_end, UOP_END_PRIVILEGED)                                                      \
	X(LTR, lift_end, UOP_END_PRIVILEGED)                                                       \
	X(LMSW, lift_end, UOP_END_PRIVILEGED)                                                      \
	X(RDMSR, lift_end, UOP_END_PRIVILEGED)                                                     \
	X(WRMSR, lift_end, UOP_END_PRIVILEGED)                                                     \
	X(SWAPGS, lift_end, UOP_END_PRIVILEGED)                                                    \
	X(INSB, lift_end, UOP_END_PRIVILEGED)                                                      \
	X(INSW, lift_end, UOP_END_PRIVILEGED)                                                      \
	X(INSD, lift_end, UOP_END_PRIVILEGED)                                                      \
	X(OUTSB, lift_end, UOP_END_PRIVILEGED)                                                     \
	X(OUTSW, lift_end, UOP_END_PRIVILEGED)                                                     \
	X(OUTSD, lift_end, UOP_END_PRIVILEGED)                                                     \
	X(IN, lift_end, UOP_END_PRIVILEGED)                                                        \
	X(OUT, lift_end, UOP_END_PRIVILEGED)                                                       \
	X(XSETBV, lift_end, UOP_END_PRIVILEGED)                                                    \
	X(VMCALL, lift_end, UOP_END_PRIVILEGED)                                                    \
	X(VMMCALL, lift_end, UOP_END_PRIVILEGED)                                                   \
	X(MONITOR, lift_end, UOP_END_PRIVILEGED)                                                   \
	X(MWAIT, lift_end, UOP_END_PRIVILEGED)

static const struct lift_rule rules[ZYDIS_MNEMONIC_MAX_VALUE + 1] = {
#define X(mnemonic, function, argument)                                                            \
	[ZYDIS_MNEMONIC_##mnemonic] = { .lift = (function), .arg = (argument) },
	LIFT_RULES(X)
#undef X
};

struct lift_rule lift_rule_get(ZydisMnemonic mnemonic)
{
	if (mnemonic > ZYDIS_MNEMONIC_MAX_VALUE)
		return (struct lift_rule){ 0 };
	return rules[mnemonic];
}
