"""The lines around a page, as pieces with styles: the head, the title, the status and the prompt.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from bridgehead.insight.findings import printable
from bridgehead.insight.live.rows import NodeRow, PodRow, Row, ServiceRow
from bridgehead.insight.live.updates import Status, Table

from .line import BAD, BOLD, CURSOR, DIM, KEY, PLAIN, WARNING, Piece
from .listing import Listing
from .prompt import Mode, Prompt
from .tables import Tone, pod_tone


def head_pieces(cluster: str, tables: Mapping[Table, Mapping[str, Row]]) -> list[Piece]:
    """Return the first line: the cluster's name, and its numbers of objects."""
    services = cast(Iterable[ServiceRow], tables[Table.SERVICES].values())
    broken = sum(1 for row in services if row.problem)
    pods = cast(Iterable[PodRow], tables[Table.PODS].values())
    unready = sum(1 for row in pods if not row.is_ready and pod_tone(row) is Tone.BAD)
    nodes = cast(Iterable[NodeRow], tables[Table.NODES].values())
    ready = sum(1 for row in nodes if row.is_ready)
    count = len(tables[Table.NODES])
    return [
        (f" {printable(cluster, 40)} ", BOLD),
        (f" {len(tables[Table.SERVICES])} Services", PLAIN),
        (f" ({broken} with a problem)" if broken else "", BAD),
        (f"  {len(tables[Table.PODS])} pods", PLAIN),
        (f" ({unready} not ready)" if unready else "", BAD),
        (f"  {ready}/{count} nodes ready", BAD if ready < count else PLAIN),
    ]


def text_title_pieces(title: str, filter: str) -> list[Piece]:
    return [(f" {title}", BOLD), (f" /{filter}" if filter else "", KEY)]


def table_title_pieces(listing: Listing, about: str, namespace: str, numbered: Sequence[str]) -> list[Piece]:
    """Return the title of a table. `about`: of a drill-down. `numbered`: namespaces that have a digit, from 1."""
    is_of_namespace = listing.view.is_namespaced
    where = about or ((namespace or "all namespaces") if is_of_namespace else "")
    count = str(len(listing.keys)) if not listing.filter else f"{len(listing.keys)} of {listing.total}"
    pieces = [(f" {listing.view.title}", BOLD), (f" {printable(where, 60)}" if where else "", PLAIN)]
    pieces += [(f" [{count}]", PLAIN), (f" /{printable(listing.filter, 40)}" if listing.filter else "", KEY)]
    if is_of_namespace and not about:
        pieces.append(("   ", PLAIN))
        for number, name in enumerate(["all", *numbered]):
            pieces += [(f"{number}", KEY), (f" {printable(name, 24)}  ", BOLD if name == (namespace or "all") else DIM)]
    return pieces


def status_pieces(status: Status, message: str, listing: Listing | None) -> list[Piece]:
    """Return the last line: a message, else the state of the connection, else keys. `listing`: None for a text."""
    if message:
        return [(f" {message}", WARNING)]
    if status.problem:
        return [(f" no answer from the API server, trying again: {status.problem}", BAD)]
    if not status.is_synced:
        return [(f" reading from {printable(status.server, 60)} ...", DIM)]
    if status.unseen:
        others = ", ".join(each.what for each in status.unseen[1:])
        return [(f" cannot see {status.unseen[0]}", WARNING), (f"; nor {others}" if others else "", WARNING)]
    if listing is None:
        return [(" esc back  / filter  w wrap  ? help", DIM)]
    return [(f" ? help  : command  / filter  d describe  y yaml  {listing.view.help}", DIM)]


def prompt_pieces(prompt: Prompt) -> list[Piece]:
    hint = ""
    if not prompt.text:
        hint = (
            "  svc, po, no, ev, dns, api, syncs, ns, q"
            if prompt.mode is Mode.COMMAND
            else "  a text or a regular expression; !TEXT: rows without it"
        )
    return [(f" {prompt.mode.value}", KEY), (prompt.text, PLAIN), (prompt.completion, DIM), (" ", CURSOR), (hint, DIM)]
