"""Parsing of Accept headers.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API concepts "Resource representations".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class MediaType:
    """One entry of an Accept header. `form` is what the parameter `as` names: "Table", "Statusz"; "" without."""

    type: str
    form: str = ""
    group: str = ""
    version: str = ""
    stream: bool = False


@lru_cache(maxsize=256)
def parse_accept(header: str) -> tuple[MediaType, ...]:
    """Parse an Accept header into media types, the preferred one first."""
    accepted = []
    for position, entry in enumerate(header.split(",")):
        name, *parameters = (part.strip() for part in entry.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        try:
            quality = float(values.get("q", 1))
        except ValueError:
            quality = 0.0
        media_type = MediaType(
            name.lower(),
            values.get("as", ""),
            values.get("g", ""),
            values.get("v", ""),
            values.get("stream") == "watch",
        )
        accepted.append((-quality, position, media_type))
    return tuple(media_type for _, _, media_type in sorted(accepted, key=lambda entry: entry[:2]))
