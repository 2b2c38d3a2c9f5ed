"""sys/syscall.h: numbers of system calls without a wrapper in glibc.

Calls since Linux 5.0 have one number on every architecture, older ones have one for each (`uname -m`).
"""

from typing import Final

SYS_open_tree: Final = 428
SYS_move_mount: Final = 429
SYS_openat2: Final = 437
SYS_mount_setattr: Final = 442

SYS_pivot_root: Final = {"x86_64": 155, "aarch64": 41, "riscv64": 41}
SYS_capset: Final = {"x86_64": 126, "aarch64": 91, "riscv64": 91}
SYS_seccomp: Final = {"x86_64": 317, "aarch64": 277, "riscv64": 277, "loongarch64": 277, "s390x": 348, "ppc64le": 358}
SYS_keyctl: Final = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
