"""A shell of a reader who follows a page: one bash for all commands of the page, in a directory of its own."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from .pages import Command, File

_SECONDS = 60  # for a command, and for a repeated one until its output is right


class PageShell:
    """Variables and the working directory stay from one command to the next, as in a terminal."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._output = directory / ".output"
        read, write = os.pipe()
        self._codes = read
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env={**environment, "CODES": str(write)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(write,),
            text=True,
        )
        os.close(write)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._bash.kill()
        self._bash.communicate()
        os.close(self._codes)

    def run(self, command: str) -> tuple[str, int]:
        """Return the output, standard error included, and the exit code."""
        assert self._bash.stdin is not None
        output = shlex.quote(str(self._output))
        self._bash.stdin.write(f"eval {shlex.quote(command)} </dev/null >{output} 2>&1; echo $? >&$CODES\n")
        self._bash.stdin.flush()
        if not select.select([self._codes], [], [], _SECONDS)[0]:
            raise TimeoutError(f"{command!r} did not end within {_SECONDS} s: {self._output.read_text()}")
        code = int(os.read(self._codes, 16))
        return self._output.read_text("utf-8"), code

    def follow(self, page: str, steps: list[File | Command]) -> None:
        """Do all steps. An AssertionError shows the first command whose output is not that of the page."""
        for step in steps:
            if isinstance(step, File):
                (self._directory / step.name).write_text(step.text, "utf-8")
            else:
                self._check(page, step)

    def _check(self, page: str, command: Command) -> None:
        deadline, pause = time.monotonic() + (_SECONDS if command.is_repeatable else 0), 0.1
        while not command.accepts(*(seen := self.run(command.call.command))):
            if time.monotonic() > deadline:
                expected = "\n".join(command.call.output)
                head = f"{page}:{command.call.line}: $ {command.call.command}"
                raise AssertionError(
                    f"{head}\n--- on the page\n{expected}\n--- printed, exit code {seen[1]}\n{seen[0]}"
                )
            time.sleep(pause)
            pause = min(1.5 * pause, 0.5)  # each look starts programs, which takes time from what it waits for
