"""The pages of the application, which are a stack: tables, and texts about what is in them."""

from __future__ import annotations

from dataclasses import dataclass, field

from bridgehead.objects.meta import ObjectKey

from .listing import Listing


@dataclass
class TablePage:
    listing: Listing
    about: str = ""  # of a drill-down: `service default/web`
    key: str | None = None  # under the cursor, while another page is on top


@dataclass
class LogSource:
    """The container whose log a page shows."""

    pod: ObjectKey
    containers: list[str] = field(default_factory=list)
    index: int = 0
    is_previous: bool = False


@dataclass
class TextPage:
    title: str
    log: LogSource | None = None
