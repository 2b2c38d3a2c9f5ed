"""Updates: the values that a view of a cluster receives. They encode to JSON with names in camelCase.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from bridgehead.insight.findings import Unseen

from .rows import Row


class Table(enum.StrEnum):
    """A table of rows, by the type of its rows in `rows.py` and `rates.py`."""

    SERVICES = "services"  # ServiceRow
    ENDPOINTS = "endpoints"  # EndpointsRow, with the key of its Service
    PODS = "pods"  # PodRow
    NODES = "nodes"  # NodeRow
    EVENTS = "events"  # EventRow, the latest ones only
    SYNCS = "syncs"  # SyncRow, of each node's service proxy
    DNS = "dns"  # DnsRow, of each DNS server
    API = "api"  # ApiRow, of the API server


OBJECT_TABLES = frozenset({Table.SERVICES, Table.ENDPOINTS, Table.PODS, Table.NODES, Table.EVENTS})
METRICS_TABLES = frozenset({Table.SYNCS, Table.DNS, Table.API})  # read only while somebody subscribes to them


class Op(enum.StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """One row of a table that was added, changed or removed; `row` is None if it was removed.

    A view may receive the removal of a row that it has never received.
    """

    table: Table
    op: Op
    key: str
    row: Row | None


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """State of the connection to the API server.

    `is_synced`: all tables hold the objects of the API, except for what is unseen. `problem`: why the server does not
    answer now, in one line; "" while it does. `unseen`: parts that cannot be read (missing rights, no metrics page), by
    the plural of the kind (`pods`) or as `metrics of NAME`; their tables are empty or old.
    """

    server: str
    is_synced: bool = False
    problem: str = ""
    unseen: tuple[Unseen, ...] = ()


class Update(msgspec.Struct, frozen=True, kw_only=True, rename="camel", dict=True):
    """Changes of one moment, `at` in epoch seconds; shared between subscribers, never to be modified.

    A snapshot replaces all that a view has: `rows` holds every row of the subscribed tables, each table sorted by key,
    and `changes` is empty. Any other update has changes, and `rows` is empty. `status` is None if it did not change.
    """

    at: float
    is_snapshot: bool = False
    rows: Mapping[Table, tuple[Row, ...]] = {}
    changes: tuple[Change, ...] = ()
    status: Status | None = None

    @property
    def json(self) -> bytes:
        """The update as JSON, encoded once for all subscribers."""
        found: bytes | None = self.__dict__.get("_json")
        if found is None:
            found = self.__dict__["_json"] = msgspec.json.encode(self)
        return found
