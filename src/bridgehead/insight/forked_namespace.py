"""A network namespace of this machine: the one of this process, or one that a forked process can enter."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from bridgehead.network.forked_calls import CallFailed, call_forked
from bridgehead.network.programs import Program, run_program

from .network_namespaces import MOST_BYTES, SECONDS, Completed, NotEntered

Argument = TypeVar("Argument")
Result = TypeVar("Result")

STARTING_SECONDS: Final = 2.0  # more than its own bound that the process of a program has
RESULT_BYTES: Final = 2 * MOST_BYTES + (1 << 20)  # of two outputs


def _stay() -> None: ...


class ForkedNamespace:
    """The namespace that `enter` enters: without it, the one of this process.

    `enter_as_program` is called instead before a program is started, and `before_program` in the process that executes
    the program. All three are called in forked processes, and raise OSError. `check` raises NotEntered before each
    operation. `is_proxied`: programs get the environment variables of HTTP proxies.
    """

    def __init__(
        self,
        name: str,
        *,
        enter: Callable[[], None] = _stay,
        enter_as_program: Callable[[], None] = _stay,
        before_program: Callable[[], None] = _stay,
        check: Callable[[], None] = _stay,
        is_proxied: bool = True,
    ) -> None:
        self.name = name
        self._enter = enter
        self._enter_as_program = enter_as_program
        self._before_program = before_program
        self._check = check
        self._is_proxied = is_proxied

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", seconds: float = SECONDS) -> Completed:
        env = {
            key: value for key, value in os.environ.items() if self._is_proxied or not key.lower().endswith("_proxy")
        }
        program = Program(argv, env, MOST_BYTES, seconds, stdin, self._before_program)
        return Completed(*await self._fork(run_program, program, self._enter_as_program, seconds + STARTING_SECONDS))

    async def call(
        self, function: Callable[[Argument], Result], argument: Argument, *, seconds: float = SECONDS
    ) -> Result:
        return await self._fork(function, argument, self._enter, seconds)

    async def _fork(
        self,
        function: Callable[[Argument], Result],
        argument: Argument,
        prepare: Callable[[], None],
        seconds: float,
    ) -> Result:
        self._check()
        try:
            return await call_forked(function, argument, prepare=prepare, seconds=seconds, most_bytes=RESULT_BYTES)
        except CallFailed as error:
            raise NotEntered(str(error)) from None
        except OSError as error:
            raise NotEntered(f"cannot make a process: {error.strerror}") from None
