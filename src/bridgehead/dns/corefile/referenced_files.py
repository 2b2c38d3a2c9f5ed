"""Files and environment variables to which a Corefile refers, and whether any of these files has changed."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bridgehead.dns.config import DnsConfig
from bridgehead.dns.errors import ConfigInvalid


def _read_text(path: str) -> str:
    return Path(path).read_text(errors="replace")


def _find(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern))


@dataclass(frozen=True)
class Sources:
    """Files, by paths relative to `directory`, and variables. `read` raises OSError; `find` expands a pattern."""

    directory: str = ""
    read: Callable[[str], str] = _read_text
    find: Callable[[str], list[str]] = _find
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def path(self, name: str) -> str:
        """Return the path of a file that the Corefile names."""
        return os.path.join(self.directory, name)

    def paths(self, name: str) -> list[str]:
        """Return the path of a file, or those that match a pattern: none, where distributions leave room for users."""
        return self.find(self.path(name)) if glob.has_magic(name) else [self.path(name)]


class Inputs:
    """Contents of files and matches of patterns, to find out later whether they are still the same."""

    def __init__(self) -> None:
        self._texts: dict[str, str | None] = {}  # None: unreadable
        self._found: dict[str, list[str]] = {}

    def sources(self, directory: str) -> Sources:
        """Return sources that record here what they return."""
        return Sources(directory, self._read, self._find)

    def are_unchanged(self) -> bool:
        """Whether every file and pattern has the result that it had first. A file that is not text has changed."""
        return all(_find(pattern) == found for pattern, found in self._found.items()) and all(
            _try_read(path) == text for path, text in self._texts.items()
        )

    def _read(self, path: str) -> str:
        self._texts.setdefault(path, None)
        text = self._texts[path] = _read_text(path)
        return text

    def _find(self, pattern: str) -> list[str]:
        return self._found.setdefault(pattern, _find(pattern))


def _try_read(path: str) -> str | None:
    try:
        return _read_text(path)
    except OSError:
        return None


def only_when_changed(read: Callable[[Inputs], DnsConfig]) -> Callable[[], DnsConfig]:
    """Return a function that calls `read` only if a file that it read the last time has changed since.

    A hosts file may have 100,000 lines, which take a second to parse. The function raises ConfigInvalid as `read` did.
    """
    inputs: Inputs | None = None
    outcome: DnsConfig | ConfigInvalid = DnsConfig()

    def reread() -> DnsConfig:
        nonlocal inputs, outcome
        if inputs is None or not inputs.are_unchanged():
            inputs = Inputs()
            try:
                outcome = read(inputs)
            except ConfigInvalid as error:
                outcome = error
        if isinstance(outcome, ConfigInvalid):
            raise ConfigInvalid(str(outcome))
        return outcome

    return reread
