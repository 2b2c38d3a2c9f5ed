"""Transcripts: commands and the output that each must have, in a text that people read.

    ## A remark: a line that begins with "## ".
    $ kubectl get namespace shop
    NAME   STATUS   AGE
    shop   Active   <age>

    $ kubectl get namespace nowhere
    Error from server (NotFound): namespaces "nowhere" not found
    [1]

    until$ kubectl get pods
    > --no-headers
    No resources found in shop namespace.

`$ ` begins a command, `> ` continues it, and what follows is its output, standard error included. A last line `[N]` is
the exit code, 0 if there is none. A command after `until$ ` is run again until its output is right. Blank lines do not
count, and any spaces are as good as one, because columns are as wide as their contents. A line `...` in an output
matches any lines, and `PLACEHOLDERS` match what differs between runs. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PLACEHOLDERS = {
    "<age>": r"\d+(?:[smhd]\d*)*[smhd]",
    "<ip>": r"[0-9a-f.:]*[.:][0-9a-f.:]+",
    "<hash>": r"[a-z0-9]+",
    "<id>": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "<number>": r"\d+",
    "<time>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "<date>": r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}",
    "<port>": r"\d{2,5}",
    "<text>": r".*",
}
_BEGIN = re.compile(r"(until)?\$ (.*)")
# client-go logs this if an event arrives at the moment at which `kubectl wait` has seen enough.
_ENDED_WATCH = re.compile(r"[EIW]\d{4} .* reflector\.go:\d+\] .*watch ended with error.*context canceled")
_EXIT = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True)
class Call:
    """One command of a transcript and what it must print. `until`: it is repeated until it does."""

    line: int
    command: str
    output: tuple[str, ...]
    code: int
    until: bool

    def accepts(self, output: str, code: int) -> bool:
        """Return whether the command's output and exit code are those of the transcript."""
        return (
            code == self.code
            and _pattern(self.output).fullmatch("".join(f"{line}\n" for line in _lines(output))) is not None
        )


def parse(text: str) -> list[Call]:
    """Return the calls of a transcript. Raises ValueError for an output that belongs to no command."""
    calls: list[Call] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line, first = lines[number], number + 1
        number += 1
        if not line.strip() or line.startswith("## "):
            continue
        begin = _BEGIN.fullmatch(line)
        if begin is None:
            raise ValueError(f"line {first}: no command before {line!r}")
        command = [begin[2]]
        while number < len(lines) and lines[number].startswith("> "):
            command.append(lines[number][2:])
            number += 1
        output = []
        while number < len(lines) and not _BEGIN.fullmatch(lines[number]) and not lines[number].startswith("## "):
            output.append(lines[number])
            number += 1
        kept = list(_lines("\n".join(output)))
        code = _EXIT.fullmatch(kept[-1]) if kept else None
        expected = tuple(kept[:-1] if code else kept)
        calls.append(Call(first, "\n".join(command), expected, int(code[1]) if code else 0, begin[1] is not None))
    return calls


def _lines(text: str) -> list[str]:
    """Return the lines of a text without empty ones and what kubectl logs about a watch that it ends itself."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line and not _ENDED_WATCH.match(line)]


def _pattern(output: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("".join(r"(?:.*\n)*?" if line == "..." else f"{_line_pattern(line)}\n" for line in output))


def _line_pattern(line: str) -> str:
    pieces = re.split(f"({'|'.join(PLACEHOLDERS)})", line)
    return "".join(PLACEHOLDERS.get(piece) or re.escape(piece) for piece in pieces)
