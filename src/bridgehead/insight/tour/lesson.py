"""The parts of a lesson. Each text is there in English and in Chinese, side by side.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

NAMESPACE = "tour"  # the only one that commands change


class Language(enum.StrEnum):
    ENGLISH = "en"
    CHINESE = "zh"


class Text(NamedTuple):
    en: str
    zh: str

    def of(self, language: Language) -> str:
        return self.zh if language is Language.CHINESE else self.en


class Need(enum.StrEnum):
    """A need of a step, of the cluster or of the machine. A step whose needs are not met is skipped."""

    LAB = "lab"  # commands in the network of a lab: `bridgehead exec`
    BALANCER = "balancer"  # a load balancer
    EMPTY_NODE = "empty node"  # a node without a pod of the deployment `web`
    WARNINGS = "warnings"  # the controller that warns of Services in trouble
    CURL = "curl"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A command for a shell, with the text before it and the text after its output.

    `expected`: a regular expression that is found in the output of a cluster that works. `waits`: the command is
    repeated until then, for a minute, and only its last output is shown. `fails`: the command exits with an error, as
    the lesson wants to show.
    """

    text: Text
    command: str
    after: Text | None = None
    expected: str = ""
    waits: bool = False
    fails: bool = False
    needs: frozenset[Need] = frozenset()


class Choice(msgspec.Struct, frozen=True):
    """A possible answer. `why`: why it is right or wrong."""

    text: Text
    why: Text


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """`right`: index of the right choice."""

    text: Text
    choices: tuple[Choice, ...]
    right: int


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """`name`: for `--list`. A lesson needs nothing of other lessons, but for `lessons.BASE`."""

    name: str
    title: Text
    steps: tuple[Step, ...]
    question: Question
