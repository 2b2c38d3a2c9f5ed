"""A process that stays and answers requests of tests, where a new program for each would cost more than its work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any


class HelperProcess:
    """A running program that calls `serve`. `close` it."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ask(self, request: Any) -> Any:
        """Return the answer to a request, both fit for JSON. Raises AssertionError when the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise AssertionError(f"a helper process ended: {self._process.stderr and self._process.stderr.read()}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process, in any state."""
        self._process.kill()
        self._process.communicate()


def serve(answer: Callable[[Any], Any]) -> None:
    """Answer each line of standard input, until it ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()
