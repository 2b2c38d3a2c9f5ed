"""The tables of the terminal view: columns, colours, and their names in command mode.

Pure: no I/O, no clock, no randomness. Times are arguments, in epoch seconds.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from bridgehead.insight.live.rows import PodRow, Row, ServiceRow
from bridgehead.insight.live.updates import Table
from bridgehead.insight.speakers import age


class Tone(enum.Enum):
    """The state of a row, which decides its colour."""

    PLAIN = "plain"
    BAD = "bad"
    WARNING = "warning"
    FAINT = "faint"


@dataclass(frozen=True)
class Column:
    """A column. `text` returns its cell from a row and the time; `order`, by which it is sorted, from a row.

    `letter`: the key (with shift) that sorts by it; "" for none. `rank`: narrow terminals drop the highest ones first;
    0 stays.
    """

    title: str
    text: Callable[[Any, float], str]
    order: Callable[[Any], Any]
    letter: str = ""
    rank: int = 0
    least: int = 6
    right: bool = False
    is_age: bool = False  # the text changes with the time
    is_descending: bool = False  # at first


@dataclass(frozen=True)
class View:
    """A table. `tables`: those whose updates it needs besides the ones that are always there."""

    name: str
    title: str
    aliases: tuple[str, ...]
    table: Table | None  # None: rows are made of those of other tables
    columns: tuple[Column, ...]
    tone: Callable[[Any], Tone]
    sort: int = 0  # index of the column
    is_namespaced: bool = False
    kind: str = ""  # of its objects, for the API; "" for rows that are no objects
    help: str = ""

    @property
    def tables(self) -> frozenset[Table]:
        return frozenset() if self.table is None or self.table in ALWAYS else frozenset({self.table})


ALWAYS = frozenset({Table.SERVICES, Table.PODS, Table.NODES, Table.EVENTS})


class NamespaceRow(Row, frozen=True, kw_only=True):
    """A namespace that has Services or pods. `broken`: Services with a problem; `unready`: pods that are not ready."""

    services: int
    pods: int
    broken: int
    unready: int


def namespace_rows(services: Iterable[ServiceRow], pods: Iterable[PodRow]) -> dict[str, Row]:
    counts: dict[str, list[int]] = {}
    for service in services:
        found = counts.setdefault(service.namespace, [0, 0, 0, 0])
        found[0] += 1
        found[2] += bool(service.problem)
    for pod in pods:
        found = counts.setdefault(pod.namespace, [0, 0, 0, 0])
        found[1] += 1
        found[3] += pod_tone(pod) is not Tone.PLAIN
    return {
        name: NamespaceRow(key=name, services=found[0], pods=found[1], broken=found[2], unready=found[3])
        for name, found in counts.items()
    }


def seconds_text(seconds: float | None) -> str:
    """Return a duration with its unit: `340µs`, `1.2ms`, `2.1s`; `-` for none."""
    if seconds is None:
        return "-"
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f}µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g}ms" if seconds < 0.0995 else f"{seconds * 1e3:.0f}ms"
    return f"{seconds:.1f}s"


def rate_text(rate: float | None) -> str:
    """Return a rate per second; `-` for none."""
    if rate is None:
        return "-"
    return f"{rate:.0f}" if rate >= 100 or rate == 0 else f"{rate:.2g}"


def _age_text(since: float, now: float) -> str:
    return age(now - since) if since else "-"


def _number(value: float | None) -> float:
    return -1.0 if value is None else value


def service_tone(row: ServiceRow) -> Tone:
    if row.problem:
        return Tone.WARNING if row.problem == "Pending" else Tone.BAD
    return Tone.WARNING if row.ready < row.total else Tone.PLAIN


def pod_tone(row: PodRow) -> Tone:
    if row.status in ("Completed", "Succeeded"):
        return Tone.FAINT
    if row.status in ("Terminating", "Pending", "ContainerCreating", "PodInitializing") or (
        row.status.startswith("Init:") and row.status[5:6].isdigit()
    ):
        return Tone.WARNING
    return Tone.PLAIN if row.is_ready else Tone.BAD


def _node_tone(row: Any) -> Tone:
    if not row.is_ready:
        return Tone.BAD
    return Tone.WARNING if row.proxy_problem or "," in row.status else Tone.PLAIN


def _metrics_tone(row: Any) -> Tone:
    if row.problem:
        return Tone.WARNING
    return Tone.BAD if getattr(row, "failures", None) or getattr(row, "errors", None) else Tone.PLAIN


def _namespace_tone(row: NamespaceRow) -> Tone:
    return Tone.BAD if row.broken else Tone.WARNING if row.unready else Tone.PLAIN


def _plain(title: str, name: str, letter: str = "", **options: Any) -> Column:
    return Column(title, lambda row, now: getattr(row, name), lambda row: getattr(row, name), letter, **options)


def _joined(title: str, name: str, letter: str = "", **options: Any) -> Column:
    """A column of several texts."""
    return Column(
        title, lambda row, now: ",".join(getattr(row, name)) or "-", lambda row: getattr(row, name), letter, **options
    )


def _count(title: str, name: str, letter: str = "", **options: Any) -> Column:
    return Column(
        title,
        lambda row, now: str(getattr(row, name)),
        lambda row: getattr(row, name),
        letter,
        right=True,
        is_descending=True,
        **{"least": 4, **options},
    )


def _rate(title: str, name: str, letter: str = "", **options: Any) -> Column:
    return Column(
        title,
        lambda row, now: rate_text(getattr(row, name)),
        lambda row: _number(getattr(row, name)),
        letter,
        right=True,
        is_descending=True,
        **options,
    )


def _seconds(title: str, name: str, letter: str = "", **options: Any) -> Column:
    return Column(
        title,
        lambda row, now: seconds_text(getattr(row, name)),
        lambda row: _number(getattr(row, name)),
        letter,
        right=True,
        is_descending=True,
        **options,
    )


def _ready() -> Column:
    return Column(
        "READY",
        lambda row, now: f"{row.ready}/{row.total}",
        lambda row: (row.ready - row.total, row.ready),
        "R",
        right=True,
        least=5,
    )


def _age(title: str = "AGE", name: str = "created", letter: str = "A", **options: Any) -> Column:
    return Column(
        title,
        lambda row, now: _age_text(getattr(row, name) or 0.0, now),
        lambda row: -(getattr(row, name) or 0.0),
        letter,
        right=True,
        is_age=True,
        **{"least": 4, **options},
    )


_NAMESPACE = Column("NAMESPACE", lambda row, now: row.namespace, lambda row: (row.namespace, row.key), "P", least=8)

SERVICES = View(
    "services",
    "Services",
    ("svc", "service", "services"),
    Table.SERVICES,
    (
        _NAMESPACE,
        _plain("NAME", "name", "N", least=12),
        _plain("TYPE", "type", "T", rank=5, least=9),
        _joined("CLUSTER-IP", "cluster_ips", "I", rank=3, least=10),
        _joined("EXTERNAL-IP", "external", "E", rank=7, least=10),
        _joined("PORT(S)", "ports", rank=6, least=8),
        _ready(),
        _plain("PROBLEM", "problem", "O", least=7, is_descending=True),
        _age(rank=2),
    ),
    service_tone,
    is_namespaced=True,
    kind="Service",
    help="enter pods  x doctor  t trace",
)
PODS = View(
    "pods",
    "Pods",
    ("po", "pod", "pods"),
    Table.PODS,
    (
        _NAMESPACE,
        _plain("NAME", "name", "N", least=16),
        _ready(),
        _plain("STATUS", "status", "S", least=9),
        _count("RESTARTS", "restarts", "T", rank=3),
        _plain("IP", "ip", "I", rank=4, least=10),
        _plain("NODE", "node", "O", rank=5),
        _age(rank=2),
    ),
    pod_tone,
    is_namespaced=True,
    kind="Pod",
    help="enter log  t trace",
)
NODES = View(
    "nodes",
    "Nodes",
    ("no", "node", "nodes"),
    Table.NODES,
    (
        _plain("NAME", "name", "N", least=10),
        _plain("STATUS", "status", "S", least=8),
        _plain("PROXY", "proxy", "X", least=8),
        _count("PODS", "pods", "P"),
        _plain("IP", "ip", "I", rank=2, least=10),
        _plain("ZONE", "zone", "Z", rank=6),
        _plain("VERSION", "version", "V", rank=5),
        _age(rank=3),
        _plain("PROBLEM", "proxy_problem", "O", rank=4, least=16, is_descending=True),
    ),
    _node_tone,
    kind="Node",
    help="enter pods",
)
EVENTS = View(
    "events",
    "Events",
    ("ev", "event", "events"),
    Table.EVENTS,
    (
        _age("LAST", "last", "A"),
        _plain("NAMESPACE", "namespace", "P", rank=4),
        _plain("TYPE", "type", "T", rank=2),
        _plain("REASON", "reason", "R", least=10),
        _plain("OBJECT", "object", "O", least=12),
        _count("COUNT", "count", "C", rank=3),
        _plain("MESSAGE", "message", "M", least=16),
    ),
    lambda row: Tone.WARNING if row.type == "Warning" else Tone.PLAIN,
    is_namespaced=True,
    kind="Event",
)
SYNCS = View(
    "syncs",
    "Syncs of the service proxies",
    ("sync", "syncs", "proxy", "proxies"),
    Table.SYNCS,
    (
        _plain("NODE", "key", "N", least=10),
        _rate("SYNCS/S", "rate", "R"),
        _seconds("P50", "p50", "M"),
        _seconds("P99", "p99", "L"),
        _seconds("PROGRAMMED P50", "programmed_p50", rank=3),
        _seconds("PROGRAMMED P99", "programmed_p99", "D", rank=2),
        _age("LAST", "last", "A"),
        _plain("PROBLEM", "problem", "O", least=10, is_descending=True),
    ),
    _metrics_tone,
    help="programmed: from an endpoint's change to its rule",
)
DNS = View(
    "dns",
    "DNS servers",
    ("dns",),
    Table.DNS,
    (
        _plain("POD", "key", "N", least=14),
        _plain("NODE", "node", "O", rank=3),
        _rate("QUERIES/S", "rate", "R"),
        _rate("NXDOMAIN/S", "unknown_names", "X", rank=2),
        _rate("FAILURES/S", "failures", "F"),
        _seconds("P50", "p50", "M"),
        _seconds("P99", "p99", "L"),
        _plain("PROBLEM", "problem", "B", least=10, is_descending=True),
    ),
    _metrics_tone,
    kind="Pod",
)
API = View(
    "api",
    "API server",
    ("api", "apiserver"),
    Table.API,
    (
        _plain("VERB", "key", "N"),
        _rate("REQUESTS/S", "rate", "R"),
        _rate("ERRORS/S", "errors", "E"),
        _seconds("P50", "p50", "M"),
        _seconds("P99", "p99", "L"),
        Column(
            "IN FLIGHT",
            lambda row, now: "-" if row.in_flight is None else f"{row.in_flight:.0f}",
            lambda row: _number(row.in_flight),
            right=True,
            rank=2,
        ),
        _plain("PROBLEM", "problem", "O", least=10, is_descending=True),
    ),
    _metrics_tone,
    sort=1,
    help="latencies are without watches",
)
NAMESPACES = View(
    "namespaces",
    "Namespaces",
    ("ns", "namespace", "namespaces"),
    None,
    (
        _plain("NAME", "key", "N", least=12),
        _count("SERVICES", "services", "S"),
        _count("WITH PROBLEM", "broken", "O"),
        _count("PODS", "pods", "P"),
        _count("NOT READY", "unready", "R"),
    ),
    _namespace_tone,
    help="enter Services",
)

VIEWS: tuple[View, ...] = (SERVICES, PODS, NODES, EVENTS, DNS, API, SYNCS, NAMESPACES)
BY_ALIAS: Mapping[str, View] = {alias: view for view in VIEWS for alias in view.aliases}


class Key(NamedTuple):
    """A row of the help."""

    key: str
    text: str


KEYS = (
    Key(":svc :po :no :ev", "Services, pods, nodes, Events; `:po NAMESPACE` those of one namespace"),
    Key(":dns :api :syncs", "rates and latencies of DNS servers, API server, service proxies"),
    Key(":ns", "namespaces; `:ns NAME` chooses one"),
    Key("0, 1 to 9", "all namespaces, or one of those in the first line"),
    Key("/", "filter by a text or a regular expression; !TEXT: rows without it"),
    Key("enter", "drill down: a Service's pods, a node's pods, a pod's log"),
    Key("esc", "clear the filter, or go back"),
    Key("d, y", "describe, YAML"),
    Key("l", "log of a pod; in it: c next container, p previous run"),
    Key("x, t", "doctor, trace"),
    Key("w", "in a text: wrap long lines, or not"),
    Key("shift+letter", "sort by a column; once more: reverse. The letters:"),
    Key("j k g G, arrows", "move; ctrl-f, ctrl-b: by pages"),
    Key("?", "this help"),
    Key("q, ctrl-c, :q", "quit"),
)
