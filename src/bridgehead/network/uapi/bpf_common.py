"""linux/bpf_common.h: codes of classic BPF instructions."""

from typing import Final

# Classes
BPF_LD: Final = 0x00
BPF_JMP: Final = 0x05
BPF_RET: Final = 0x06

# Sizes and modes of BPF_LD
BPF_W: Final = 0x00
BPF_B: Final = 0x10
BPF_ABS: Final = 0x20

# Operations of BPF_JMP
BPF_JA: Final = 0x00
BPF_JEQ: Final = 0x10
BPF_JGT: Final = 0x20
BPF_JGE: Final = 0x30
BPF_JSET: Final = 0x40

# Source of the operand
BPF_K: Final = 0x00

BPF_MAXINSNS: Final = 4096
