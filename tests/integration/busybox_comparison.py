"""Comparisons of built-in programs with those of the host's BusyBox, in the namespace of a test."""

from __future__ import annotations

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from bridgehead.standins.program_scripts import script


def read_version() -> str:
    """The first two numbers of BusyBox's version, "" without BusyBox."""
    with contextlib.suppress(OSError):
        found = re.search(r"BusyBox v(\d+\.\d+)", subprocess.run(["busybox"], capture_output=True, text=True).stdout)
        return found[1] if found else ""
    return ""


# Messages of other versions differ where no server is reached.
needs_same_version = pytest.mark.skipif(
    read_version() not in ("", "1.35"), reason="the built-in programs are compared with BusyBox 1.35"
)


class Output(NamedTuple):
    stdout: str
    stderr: str
    exit_code: int
    files: dict[str, bytes]


def compare(
    name: str,
    arguments: Iterable[Sequence[str]],
    change: Callable[[Output], Output] = lambda output: output,
) -> None:
    """Fail if an applet of BusyBox and the built-in program print different things. Each runs in an empty directory;
    files in it are part of the output."""
    path = Path(f"/run/{name}")
    path.write_text(script(f"busybox.{name}.run"))
    path.chmod(0o755)

    def find_difference(argv: Sequence[str]) -> str:
        real, built_in = change(run("busybox", name, *argv)), change(run(str(path), *argv))
        return "" if real == built_in else f"{argv}:\n{built_in}, but BusyBox:\n{real}"

    with ThreadPoolExecutor(6) as threads:
        differences = list(filter(None, threads.map(find_difference, arguments)))
    assert not differences, "\n".join(differences)


def run(*argv: str) -> Output:
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(argv, capture_output=True, timeout=100, check=False, cwd=directory)
        files = {path.name: path.read_bytes() for path in Path(directory).iterdir()}
    return Output(done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode(), done.returncode, files)


def without_version(output: Output) -> Output:
    """Drop the line before a usage, which names the build of BusyBox."""
    before, usage, after = output.stderr.partition("Usage:")
    lines = [line for line in before.splitlines(keepends=True) if line.strip() and "multi-call binary" not in line]
    return output._replace(stderr="".join([*lines, usage, after]))
