"""The contents of discovery and OpenAPI for aggregated APIs, which other servers serve.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bridgehead.apiserver.resource import JsonObject


@dataclass(frozen=True, slots=True)
class ExternalApi:
    """A group and version of another server.

    `resources` have the form of aggregated discovery; they are those last seen when `is_current` is False. `priorities`
    are of the group and of the version. `openapi_hash` is the hash of the server's document of version 3, "" without
    one; `paths` and `definitions` are its document of version 2.
    """

    group: str
    version: str
    resources: list[JsonObject] = field(default_factory=list)
    is_current: bool = False
    priorities: tuple[int, int] = (0, 0)
    openapi_hash: str = ""
    paths: JsonObject = field(default_factory=dict)
    definitions: JsonObject = field(default_factory=dict)
