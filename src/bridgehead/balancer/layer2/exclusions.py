"""Interfaces that layer 2 leaves out, by the ConfigMap `metallb-excludel2`. Source: MetalLB's manifests, its speaker.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from bridgehead.objects.core import ConfigMap

CONFIG_MAP_NAME: Final = "metallb-excludel2"
_KEY: Final = "excludel2.yaml"
_NOTHING: Final = r"(?!)"


class _Exclusions(msgspec.Struct, frozen=True):
    patterns: list[str] | None = msgspec.field(default=None, name="announcedInterfacesToExclude")


def compile_patterns(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return one pattern that finds what any of these finds; without any, nothing. Raises ValueError."""
    try:
        return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or _NOTHING)
    except re.error as error:
        raise ValueError(f"a pattern is no regular expression: {error}") from None


def parse_exclusions(config_map: ConfigMap) -> re.Pattern[str]:
    """Return the pattern of the interfaces' names. Raises ValueError with the reason."""
    from bridgehead.yaml_loader import UnusableYaml, load  # most clusters have no such ConfigMap

    try:
        found = msgspec.convert(load(config_map.data.get(_KEY, "")) or {}, _Exclusions)
    except UnusableYaml as error:
        raise ValueError(f"{_KEY}: not YAML: {error}") from None
    except msgspec.ValidationError as error:
        raise ValueError(f"{_KEY}: {error}") from None
    try:
        return compile_patterns(found.patterns or ())
    except ValueError as error:
        raise ValueError(f"{_KEY}: {error}") from None
