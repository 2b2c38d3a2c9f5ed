"""Env files: the variables that an init container writes to a file for containers of its pod (`fileKeyRef`).

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Define Environment Variable Values Using An Init Container".
"""

from __future__ import annotations

import re

_VARIABLE = re.compile(r"[ \t]*(?P<name>[!-<>-~]+)[ \t]*=[ \t]*'(?P<value>[^']*)'[ \t]*(?:\n|\Z)")
_IGNORED = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of a file; the last one of a name counts.

    A variable is `NAME='value'`; the value is taken as it is and may have several lines. Empty lines and those that
    begin with # are ignored. Raises ValueError.
    """
    text = text.replace("\r\n", "\n")
    variables: dict[str, str] = {}
    at = 0
    while at < len(text):
        if found := _IGNORED.match(text, at):
            at = found.end()
        elif found := _VARIABLE.match(text, at):
            variables[found["name"]] = found["value"]
            at = found.end()
        else:
            raise ValueError(f"invalid environment variable format at line {text.count(chr(10), 0, at) + 1}")
    return variables
