"""What the guest's kernel is kept from seeing on processors that have more registers than it has room for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import guest

pytestmark = pytest.mark.integration

# Of no process at all: whoever is let through is told that there is none.
PROGRAM = """
import ctypes, errno
from tests import guest
guest._hide_extended_registers()
libc = ctypes.CDLL(None, use_errno=True)
for request, registers in ((0x4204, 0x202), (0x4205, 0x202), (0x4204, 1), (14, 0)):
    libc.ptrace(ctypes.c_long(request), 0, ctypes.c_long(registers), None)
    print(errno.errorcode[ctypes.get_errno()])
"""


def test_only_the_extended_registers_are_hidden() -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=guest.ROOT, capture_output=True, text=True, check=True, timeout=100
    )
    assert result.stdout.split() == ["ENODEV", "ESRCH", "ESRCH", "ESRCH"]
