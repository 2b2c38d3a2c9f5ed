"""The system calls against the real kernel, in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridgehead.network import syscalls

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("title", ["bridgehead part --with=options", "short", "x" * 10_000])
def test_a_forked_process_has_a_title_of_its_own(title: str) -> None:
    before = Path("/proc/self/cmdline").read_bytes()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            syscalls.set_process_name("a-name-longer-than-15", title)
            os.write(writer, Path("/proc/self/comm").read_bytes() + Path("/proc/self/cmdline").read_bytes())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        name, _, shown = pipe.read().partition(b"\n")
    os.waitpid(child, 0)
    assert name == b"a-name-longer-t"
    assert shown.rstrip(b"\0") == title.encode()[: len(before) - 2]
    assert Path("/proc/self/cmdline").read_bytes() == before
