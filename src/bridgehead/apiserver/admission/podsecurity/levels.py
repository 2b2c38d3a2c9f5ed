"""Levels and versions, and the policy that a namespace's labels ask for.

Pure: no I/O, no clock, no randomness. Source: Kubernetes pod-security-admission/api/helpers.go, constants.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from bridgehead.apiserver.field import Field, FieldError

PREFIX = "pod-security.kubernetes.io/"
MODES = ("enforce", "audit", "warn")

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"
LEVELS = (PRIVILEGED, BASELINE, RESTRICTED)

# The minor version that stands for `latest`: newer than all others.
LATEST = 1 << 30

_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,8})")


class LevelVersion(NamedTuple):
    """A level and the minor version of its checks."""

    level: str = PRIVILEGED
    version: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.version == LATEST else f'v1.{self.version}'}"


@dataclass(frozen=True, slots=True)
class Policy:
    """The levels that are enforced, audited and warned about in a namespace. `errors` are of invalid labels."""

    enforce: LevelVersion
    audit: LevelVersion
    warn: LevelVersion
    errors: tuple[FieldError, ...] = ()


_DEFAULT = LevelVersion()
DEFAULT = Policy(_DEFAULT, _DEFAULT, _DEFAULT)


def has_policy(labels: Mapping[str, str]) -> bool:
    """Whether one of the labels belongs to a policy."""
    return any(label.startswith(PREFIX) for label in labels)


def parse_policy(labels: Mapping[str, str]) -> Policy:
    """Return the policy of labels.

    An invalid level counts as `restricted` if it is enforced, else as `privileged`; an invalid version as `latest`.
    """
    modes: dict[str, LevelVersion] = {}
    found: list[FieldError] = []
    for mode in MODES:
        chosen = _DEFAULT
        level = labels.get(PREFIX + mode)
        if level is not None:
            if level not in LEVELS:
                found.append(_invalid(mode, level, f"must be one of {', '.join(LEVELS)}"))
                level = RESTRICTED if mode == "enforce" else PRIVILEGED
            chosen = chosen._replace(level=level)
        version = labels.get(f"{PREFIX}{mode}-version")
        if version is not None:
            number = _parse_version(version)
            if number is None:
                found.append(_invalid(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
                number = LATEST
            chosen = chosen._replace(version=number)
        modes[mode] = chosen
    return Policy(modes["enforce"], modes["audit"], modes["warn"], tuple(found))


def is_relaxed(new: LevelVersion, old: LevelVersion) -> bool:
    """Whether pods that `old` allowed need no check: the level is lower or the same, in the same version."""
    if new.level == PRIVILEGED:
        return True
    return new.version == old.version and LEVELS.index(new.level) <= LEVELS.index(old.level)


def _parse_version(text: str) -> int | None:
    if text == "latest":
        return LATEST
    match = _VERSION.fullmatch(text)
    return int(match[1]) if match else None


def _invalid(label: str, value: str, why: str) -> FieldError:
    return Field(value, f"metadata.labels[{PREFIX}{label}]").invalid(why)
