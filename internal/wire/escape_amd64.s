#include "textflag.h"

// Sixty-four bytes at a time, and sixteen where there are not so many, with what every amd64 has. Copies are of sixteen bytes, whatever
// they should be: what is copied too much is written over, or lies behind what is returned.

DATA quote<>+0(SB)/8, $0x2222222222222222
DATA quote<>+8(SB)/8, $0x2222222222222222
GLOBL quote<>(SB), RODATA|NOPTR, $16

DATA backslash<>+0(SB)/8, $0x5c5c5c5c5c5c5c5c
DATA backslash<>+8(SB)/8, $0x5c5c5c5c5c5c5c5c
GLOBL backslash<>(SB), RODATA|NOPTR, $16

DATA control<>+0(SB)/8, $0x1f1f1f1f1f1f1f1f
DATA control<>+8(SB)/8, $0x1f1f1f1f1f1f1f1f
GLOBL control<>(SB), RODATA|NOPTR, $16

#define CONSTANTS \
	MOVOU quote<>(SB), X0; \
	MOVOU backslash<>(SB), X1; \
	MOVOU control<>(SB), X2

// MARKS loads sixteen bytes and sets a bit for each that is a quote, a backslash or a control character.
#define MARKS(from, bytes, bits) \
	MOVOU    from, bytes; \
	MOVO     bytes, X4; \
	PCMPEQB  X0, X4; \
	MOVO     bytes, X5; \
	PCMPEQB  X1, X5; \
	MOVO     bytes, X6; \
	PMINUB   X2, X6; \
	PCMPEQB  bytes, X6; \
	POR      X4, X5; \
	POR      X5, X6; \
	PMOVMSKB X6, bits

// BLOCK is MARKS for the sixty-four bytes at SI, into AX. It uses BX.
#define BLOCK \
	MARKS((SI), X3, AX) \
	MARKS(16(SI), X8, BX) \
	SHLQ $16, BX; \
	ORQ  BX, AX; \
	MARKS(32(SI), X9, BX) \
	SHLQ $32, BX; \
	ORQ  BX, AX; \
	MARKS(48(SI), X10, BX) \
	SHLQ $48, BX; \
	ORQ  BX, AX

// WHOLE copies the block to DI.
#define WHOLE \
	MOVOU X3, (DI); \
	MOVOU X8, 16(DI); \
	MOVOU X9, 32(DI); \
	MOVOU X10, 48(DI); \
	ADDQ  $64, SI; \
	ADDQ  $64, DI

// func unescape(dst, src []byte) (read, wrote int, high, slash bool)
//
// SI is where we are in the block, R12 what of it is not yet copied, BX where the mark stands.
TEXT ·unescape(SB), NOSPLIT, $0-66
	MOVQ dst_base+0(FP), DI
	MOVQ src_base+24(FP), SI
	MOVQ src_len+32(FP), CX
	MOVQ DI, R8
	MOVQ SI, R9
	LEAQ ·escapes(SB), R10
	XORL R11, R11           // whether a slash was escaped
	ADDQ SI, CX
	LEAQ -81(CX), DX        // the last place with a block, a letter, and room to copy too much
	SUBQ $17, CX            // the last place with sixteen bytes and a letter
	PXOR X7, X7             // every byte that was seen
	CONSTANTS

block:
	CMPQ  SI, DX
	JGT   next
	BLOCK
	POR   X3, X7
	POR   X8, X7
	POR   X9, X7
	POR   X10, X7
	TESTQ AX, AX
	JZ    whole
	MOVQ  SI, R12

mark:
	BSFQ AX, R14
	LEAQ (SI)(R14*1), BX

copy:
	MOVOU (R12), X3
	MOVOU X3, (DI)
	MOVQ  BX, R13
	SUBQ  R12, R13
	CMPQ  R13, $16
	JGT   more
	ADDQ  R13, DI
	CMPB  (BX), $0x5c
	JNE   stop
	MOVBLZX 1(BX), R13
	MOVBLZX (R10)(R13*1), R13
	TESTL R13, R13
	JZ    stop
	MOVB  R13, (DI)
	INCQ  DI
	CMPL  R13, $0x2f
	JEQ   slash

clear:
	LEAQ  2(BX), R12
	LEAQ  -1(AX), R13
	ANDQ  R13, AX
	INCQ  R14
	BTRQ  R14, AX           // the escaped one is none; the bit of a 65th is that of the first, which is done
	TESTQ AX, AX
	JNZ   mark
	ADDQ  $64, SI

rest:
	MOVOU (R12), X3
	MOVOU X3, (DI)
	MOVQ  SI, R13
	SUBQ  R12, R13
	CMPQ  R13, $16
	JGT   morerest
	ADDQ  R13, DI           // it is -1 if the block ended within an escape
	CMPQ  R13, $0
	JGE   block
	INCQ  SI
	INCQ  DI
	JMP   block

more:
	ADDQ $16, R12
	ADDQ $16, DI
	JMP  copy

morerest:
	ADDQ $16, R12
	ADDQ $16, DI
	JMP  rest

slash:
	MOVL $1, R11
	JMP  clear

whole:
	WHOLE
	JMP block

stop:
	MOVQ BX, SI
	JMP  done

next:
	CMPQ  SI, CX
	JGT   done
	MARKS((SI), X3, AX)
	MOVOU X3, (DI)
	POR   X3, X7
	TESTL AX, AX
	JNZ   one
	ADDQ  $16, SI
	ADDQ  $16, DI
	JMP   next

one:
	BSFL    AX, AX
	ADDQ    AX, SI
	ADDQ    AX, DI
	CMPB    (SI), $0x5c
	JNE     done
	MOVBLZX 1(SI), BX
	MOVBLZX (R10)(BX*1), BX
	TESTL   BX, BX
	JZ      done
	MOVB    BX, (DI)
	INCQ    DI
	ADDQ    $2, SI
	CMPL    BX, $0x2f
	JNE     next
	MOVL    $1, R11
	JMP     next

done:
	SUBQ     R9, SI
	SUBQ     R8, DI
	MOVQ     SI, read+48(FP)
	MOVQ     DI, wrote+56(FP)
	PMOVMSKB X7, AX
	TESTL    AX, AX
	SETNE    high+64(FP)
	MOVB     R11, slash+65(FP)
	RET

// func escape(dst []byte, src string) (read, wrote int)
TEXT ·escape(SB), NOSPLIT, $0-56
	MOVQ dst_base+0(FP), DI
	MOVQ src_base+24(FP), SI
	MOVQ src_len+32(FP), CX
	MOVQ DI, R8
	MOVQ SI, R9
	LEAQ ·letters(SB), R10
	ADDQ SI, CX
	LEAQ -80(CX), DX
	SUBQ $16, CX
	CONSTANTS

block:
	CMPQ     SI, DX
	JGT      next
	BLOCK
	PMOVMSKB X3, R11        // what is not ASCII is marked too
	PMOVMSKB X8, R12
	SHLQ     $16, R12
	ORQ      R12, R11
	PMOVMSKB X9, R12
	SHLQ     $32, R12
	ORQ      R12, R11
	PMOVMSKB X10, R12
	SHLQ     $48, R12
	ORQ      R12, R11
	ORQ      R11, AX
	JZ       whole
	MOVQ     SI, R12

mark:
	BSFQ AX, BX
	ADDQ SI, BX

copy:
	MOVOU   (R12), X3
	MOVOU   X3, (DI)
	MOVQ    BX, R13
	SUBQ    R12, R13
	CMPQ    R13, $16
	JGT     more
	ADDQ    R13, DI
	MOVBLZX (BX), R13
	MOVBLZX (R10)(R13*1), R13
	TESTL   R13, R13
	JZ      stop
	MOVB    $0x5c, (DI)
	MOVB    R13, 1(DI)
	ADDQ    $2, DI
	LEAQ    1(BX), R12
	LEAQ    -1(AX), R13
	ANDQ    R13, AX
	JNZ     mark
	ADDQ    $64, SI

rest:
	MOVOU (R12), X3
	MOVOU X3, (DI)
	MOVQ  SI, R13
	SUBQ  R12, R13
	CMPQ  R13, $16
	JGT   morerest
	ADDQ  R13, DI
	JMP   block

more:
	ADDQ $16, R12
	ADDQ $16, DI
	JMP  copy

morerest:
	ADDQ $16, R12
	ADDQ $16, DI
	JMP  rest

whole:
	WHOLE
	JMP block

stop:
	MOVQ BX, SI
	JMP  done

next:
	CMPQ     SI, CX
	JGT      done
	MARKS((SI), X3, AX)
	MOVOU    X3, (DI)
	PMOVMSKB X3, BX
	ORL      BX, AX
	JNZ      one
	ADDQ     $16, SI
	ADDQ     $16, DI
	JMP      next

one:
	BSFL    AX, AX
	ADDQ    AX, SI
	ADDQ    AX, DI
	MOVBLZX (SI), BX
	MOVBLZX (R10)(BX*1), BX
	TESTL   BX, BX
	JZ      done
	MOVB    $0x5c, (DI)
	MOVB    BX, 1(DI)
	INCQ    SI
	ADDQ    $2, DI
	JMP     next

done:
	SUBQ R9, SI
	SUBQ R8, DI
	MOVQ SI, read+40(FP)
	MOVQ DI, wrote+48(FP)
	RET

// func stretch(src []byte) (n int, high bool)
TEXT ·stretch(SB), NOSPLIT, $0-33
	MOVQ src_base+0(FP), SI
	MOVQ src_len+8(FP), CX
	LEAQ -16(SI)(CX*1), CX
	MOVQ SI, R9
	PXOR X7, X7
	CONSTANTS

next:
	CMPQ  SI, CX
	JGT   done
	MARKS((SI), X3, AX)
	POR   X3, X7
	TESTL AX, AX
	JNZ   mark
	ADDQ  $16, SI
	JMP   next

mark:
	BSFL AX, AX
	ADDQ AX, SI

done:
	SUBQ     R9, SI
	MOVQ     SI, n+24(FP)
	PMOVMSKB X7, AX
	TESTL    AX, AX
	SETNE    high+32(FP)
	RET

// func ascii(src []byte) bool
TEXT ·ascii(SB), NOSPLIT, $0-25
	MOVQ src_base+0(FP), SI
	MOVQ src_len+8(FP), CX
	PXOR X7, X7

next:
	CMPQ  CX, $64
	JLT   few
	MOVOU (SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	POR   X1, X0
	POR   X3, X2
	POR   X0, X7
	POR   X2, X7
	ADDQ  $64, SI
	SUBQ  $64, CX
	JMP   next

few:
	CMPQ  CX, $16
	JLT   last
	MOVOU (SI), X0
	POR   X0, X7
	ADDQ  $16, SI
	SUBQ  $16, CX
	JMP   few

last:
	CMPQ     src_len+8(FP), $16
	JLT      tiny
	MOVOU    -16(SI)(CX*1), X0 // some of them again
	POR      X0, X7
	PMOVMSKB X7, AX
	JMP      done

tiny:
	XORL AX, AX

one:
	TESTQ   CX, CX
	JZ      done
	MOVBLZX (SI), BX
	ANDL    $0x80, BX
	ORL     BX, AX
	INCQ    SI
	DECQ    CX
	JMP     one

done:
	TESTL AX, AX
	SETEQ ret+24(FP)
	RET

// QUOTES sets a bit in BX for each quote and one in AX for each backslash among sixteen bytes, from bit shift on.
#define QUOTES(from, shift) \
	MOVOU    from, X2; \
	MOVO     X2, X3; \
	PCMPEQB  X0, X2; \
	PCMPEQB  X1, X3; \
	PMOVMSKB X2, DX; \
	PMOVMSKB X3, R11; \
	SHLQ     shift, DX; \
	SHLQ     shift, R11; \
	ORQ      DX, BX; \
	ORQ      R11, AX

// func within(src []byte) int
//
// Which bytes are escaped is worked out for a block at once. A backslash escapes unless it is escaped itself, so of a row of them every second
// one does; to add to a row the bit where it begins carries to behind its end, and whether that is odd or even tells.
TEXT ·within(SB), NOSPLIT, $0-32
	MOVQ  src_base+0(FP), SI
	MOVQ  src_len+8(FP), CX
	MOVQ  SI, R9
	MOVQ  $0x5555555555555555, R10
	XORL  R8, R8                   // whether the first byte of the block is escaped
	MOVOU quote<>(SB), X0
	MOVOU backslash<>(SB), X1

block:
	CMPQ  CX, $64
	JLT   done
	XORL  AX, AX
	XORL  BX, BX
	QUOTES((SI), $0)
	QUOTES(16(SI), $16)
	QUOTES(32(SI), $32)
	QUOTES(48(SI), $48)
	MOVQ  R8, R11
	NOTQ  R11
	ANDQ  R11, AX                  // those that may escape
	LEAQ  (AX)(AX*1), DX
	ORQ   R8, DX                   // what follows one
	MOVQ  R10, R11
	ORQ   DX, R11
	NOTQ  R11
	ANDQ  AX, R11                  // rows that begin at an odd place
	ADDQ  AX, R11
	SETCS R8
	MOVBLZX R8, R8
	ADDQ  R11, R11
	XORQ  R10, R11
	ANDQ  DX, R11                  // what is escaped
	NOTQ  R11
	ANDQ  R11, BX
	JNZ   found
	ADDQ  $64, SI
	SUBQ  $64, CX
	JMP   block

found:
	BSFQ BX, R8

done:
	ADDQ R8, SI
	SUBQ R9, SI
	MOVQ SI, ret+24(FP)
	RET
