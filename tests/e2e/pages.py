"""Pages of the documentation as steps that can be run: files that the reader saves, and commands with their output.

A block ```yaml whose first line is `# NAME.yaml` is a file of that name. A block ```console is a transcript (see
`transcripts`): `$ ` begins a command, `> ` continues it, a line `...` stands for lines left out. After the comment
`<!-- fails -->` all commands of the block fail; all others succeed.

The output is that of one run. What differs from run to run is compared by its shape: addresses of pods and Services,
generated names and ports, the nodes of pods, ages. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from . import transcripts

_BLOCK = re.compile(r"^(<!-- fails -->\n+)?```(console|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# ([\w.-]+\.yaml)\n")
# Commands that change something run once. All others are repeated until their output is right: a reader is slower
# than a controller, a test is not.
_CHANGES = re.compile(
    r"\bkubectl (-n \S+ )?(annotate|apply|create|delete|edit|expose|label|patch|replace|rollout restart|run|scale)\b"
    r"|\bbridgehead (down|up)\b|-- ip address (add|del)\b|(^|;|&& )[A-Z_]+=|\beval "
)
_NAME = "[bcdfghjklmnpqrstvwxz2456789]"  # the characters of generated names
# Values that differ between runs, with the placeholders of transcripts that have their shape.
_SHAPES = {
    rf"(?<=[a-z0-9])-{_NAME}{{8,10}}-{_NAME}{{5}}\b": "-<hash>-<hash>",  # a pod of a Deployment
    rf"(?<=[a-z0-9])-{_NAME}{{8,10}}\b": "-<hash>",  # a ReplicaSet
    rf"(?<=[a-z0-9])-{_NAME}{{5}}\b": "-<hash>",  # a pod of a DaemonSet, an EndpointSlice
    r"\bl2-[0-9a-f]{12}\b": "l2-<hash>",
    rf"pod-template-hash={_NAME}+": "pod-template-hash=<hash>",
    r"KUBE-SEP-[A-Z2-7]{16}": "KUBE-SEP-<text>",
    r"\b10\.244\.\d+\.\d+\b": "<ip>",
    r"\b10-244-\d+-\d+\b": "10-244-<number>-<number>",
    r"\b10\.(?:9[6-9]|10\d|11[01])\.\d+\.\d+\b(?!/1\d)(?<!\b10\.96\.0\.1)(?<!\b10\.96\.0\.10)": "<ip>",
    r"(?<=10\.0\.0\.)20[1-3]\b": "<number>",  # a node's, which is where the scheduler put a pod
    r"\bnode[1-3]\b": "node<number>",
    r"(?<![\d.])3[0-2]\d{3}(?![\d.])": "<port>",  # a node port
    r"(?<![\w.-])(?:\d+[smhd]){1,2}(?![\w.-])": "<age>",
    r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z": "<time>",
    r"\b\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}": "<date>",
    r"(?<=127\.0\.0\.1:)\d+\b": "<port>",
    r"\b\d+\.\d+(?= m?s\b)": "<number>.<number>",
}
_SHAPE = re.compile("|".join(f"({shape})" for shape in _SHAPES))


@dataclass(frozen=True)
class File:
    """A file that the page asks the reader to save."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command with its output on the page. `fails`: its exit code is not 0."""

    call: transcripts.Call
    fails: bool

    @property
    def is_repeatable(self) -> bool:
        """Whether it only reads."""
        return _CHANGES.search(self.call.command) is None

    def accepts(self, output: str, code: int) -> bool:
        """Return whether a run of the command has the shape that the page shows."""
        call = replace(self.call, output=tuple(map(shape_of, self.call.output)), code=code)
        return bool(code) == self.fails and call.accepts(output, code)


def parse(text: str) -> list[File | Command]:
    """Return the steps of a page. Raises ValueError for a block of commands that is not a transcript."""
    steps: list[File | Command] = []
    for block in _BLOCK.finditer(text):
        fails, language, content = block.groups()
        if language == "yaml":
            if name := _FILE.match(content):
                steps.append(File(name[1], content))
            continue
        first = text.count("\n", 0, block.start(3))
        steps += [
            Command(replace(call, line=first + call.line), fails is not None) for call in transcripts.parse(content)
        ]
    return steps


def shape_of(line: str) -> str:
    """Return a line of output with placeholders for what differs between runs."""
    placeholders = list(_SHAPES.values())
    return _SHAPE.sub(lambda match: placeholders[(match.lastindex or 1) - 1], line)
