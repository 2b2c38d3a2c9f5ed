"""linux/audit.h: architectures of system calls."""

from typing import Final

AUDIT_ARCH_S390: Final = 0x00000016
AUDIT_ARCH_S390X: Final = 0x80000016
AUDIT_ARCH_X86_64: Final = 0xC000003E
