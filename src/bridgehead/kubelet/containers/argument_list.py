"""Size of a program's arguments and environment: what execve(2) refuses is refused while it is made.

`$(NAME)` doubles a value with each variable that has it twice, so that a few lines would fill the node's memory long
before execve answered E2BIG. Pure: no I/O, no clock, no randomness. Source: `MAX_ARG_STRLEN` in
include/uapi/linux/binfmts.h, `bprm_stack_limits` in fs/exec.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from bridgehead.kubelet.errors import ArgumentListTooLong

MAX_ARG_STRLEN: Final = 128 << 10  # bytes of one argument, or of one variable with its name, with the final NUL
ARG_MAX: Final = 2 << 20  # bytes of all of them with their pointers: a quarter of a stack of 8 MiB
_POINTER: Final = 8
_SHOWN_NAME: Final = 100  # characters of a variable's name in a message

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")


def expand(text: str, *scopes: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value in the first scope that has it, and `$$` by `$`.

    Unknown names stay as they are. Raises ArgumentListTooLong when the values alone are longer than an argument.
    """
    room = MAX_ARG_STRLEN

    def replace(found: re.Match[str]) -> str:
        nonlocal room
        if found.group(1) == "$":
            return "$"
        for scope in scopes:
            if found.group(2) in scope:
                value = scope[found.group(2)]
                room -= len(value)
                if room < 0:
                    raise ArgumentListTooLong("the expanded value")
                return value
        return found.group(0)

    return _REFERENCE.sub(replace, text)


def missing_references(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the names that `text` refers to and that have no value, sorted."""
    names = {found.group(2) for found in _REFERENCE.finditer(text) if found.group(1) != "$"}
    return sorted(name for name in names if not variables.get(name))


class ArgumentList:
    """The bytes of the arguments and variables so far. Every method raises ArgumentListTooLong, which names the one
    that is too long."""

    def __init__(self) -> None:
        self._used = 0
        self._variables: dict[str, int] = {}

    def set_variable(self, name: str, value: str) -> None:
        """Count a variable, in place of an earlier one of its name."""
        what = _variable(name)
        size = _size(f"{name}={value}", what)
        self._used += size - self._variables.get(name, 0)
        self._variables[name] = size
        self._check(what)

    def expand_variable(self, name: str, text: str, *scopes: Mapping[str, str]) -> str:
        """Return the value of a variable, counted."""
        try:
            value = expand(text, *scopes)
        except ArgumentListTooLong:
            raise _too_long(_variable(name)) from None
        self.set_variable(name, value)
        return value

    def expand_texts(self, texts: Iterable[str], kind: str, scope: Mapping[str, str]) -> tuple[str, ...]:
        """Return a command or its arguments, counted. `kind`: the field of the container."""
        expanded = []
        for number, text in enumerate(texts):
            what = f"{kind}[{number}]"
            try:
                word = expand(text, scope)
            except ArgumentListTooLong:
                raise _too_long(what) from None
            self._used += _size(word, what)
            self._check(what)
            expanded.append(word)
        return tuple(expanded)

    def _check(self, what: str) -> None:
        if self._used > ARG_MAX:
            raise ArgumentListTooLong(
                f"argument list too long: with {what}, arguments and environment have more than {ARG_MAX} bytes"
            )


def _variable(name: str) -> str:
    """Describe a variable for a message, which is kept in the status of its pod."""
    shown = name if len(name) <= _SHOWN_NAME else f"{name[:_SHOWN_NAME]}..."
    return f'environment variable "{shown}"'


def _size(text: str, what: str) -> int:
    """Return the bytes of a string with its NUL and pointer. `text`: at most a few times as long as allowed."""
    size = len(text.encode()) + 1
    if size > MAX_ARG_STRLEN:
        raise _too_long(what)
    return size + _POINTER


def _too_long(what: str) -> ArgumentListTooLong:
    return ArgumentListTooLong(f"argument list too long: {what} has more than {MAX_ARG_STRLEN} bytes")
