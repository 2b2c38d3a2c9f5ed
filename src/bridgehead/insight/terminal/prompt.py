"""The line in which a filter or a command is typed.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

LONGEST = 200  # characters


class Mode(enum.Enum):
    FILTER = "/"
    COMMAND = ":"


class Prompt:
    """Text that is edited at its end. `completions`: names that tab completes."""

    def __init__(self, mode: Mode, text: str = "", completions: Iterable[str] = ()) -> None:
        self.mode = mode
        self.text = text
        self._completions = sorted(completions)

    def insert(self, text: str) -> None:
        self.text = (self.text + "".join(filter(str.isprintable, text)))[:LONGEST]

    def edit(self, key: str, character: str | None) -> bool:
        """Apply a key, by its name in Textual and the character that it types. Returns whether the text has changed."""
        before = self.text
        match key:
            case "backspace" | "ctrl+h":
                self.text = self.text[:-1]
            case "ctrl+u":
                self.text = ""
            case "ctrl+w":
                self.text = self.text.rstrip().rpartition(" ")[0]
                self.text += " " if self.text else ""
            case "tab" | "right":
                self.text += self.completion
            case _:
                self.insert(character or "")
        return self.text != before

    @property
    def completion(self) -> str:
        """The rest of the first name that begins with the text; "" if there is none."""
        if not self.text:
            return ""
        return next((name[len(self.text) :] for name in self._completions if name.startswith(self.text)), "")
