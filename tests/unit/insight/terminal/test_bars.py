"""The lines around a page."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.insight.findings import Unseen
from bridgehead.insight.live.updates import Status, Table, Update
from bridgehead.insight.terminal.bars import (
    head_pieces,
    prompt_pieces,
    status_pieces,
    table_title_pieces,
    text_title_pieces,
)
from bridgehead.insight.terminal.line import Piece
from bridgehead.insight.terminal.listing import Listing, Store
from bridgehead.insight.terminal.prompt import Mode, Prompt
from bridgehead.insight.terminal.tables import NODES, SERVICES

SYNCED = Status(server="https://server", is_synced=True)


def text(pieces: list[Piece]) -> str:
    return "".join(each for each, _ in pieces)


def test_head() -> None:
    store = Store()
    store.apply(Update(at=0.0, is_snapshot=True, rows=dict.fromkeys(Table, ())))
    assert text(head_pieces("lab\x1b", store.tables)) == " lab?  0 Services  0 pods  0/0 nodes ready"


def test_titles() -> None:
    listing = Listing(SERVICES)
    assert text(table_title_pieces(listing, "", "", ["a", "b"])) == " Services all namespaces [0]   0 all  1 a  2 b  "
    assert text(table_title_pieces(listing, "of service x", "", ["a"])) == " Services of service x [0]"
    listing.set_filter("we")
    assert text(table_title_pieces(listing, "", "b", [])) == " Services b [0 of 0] /we   0 all  "
    assert text(table_title_pieces(Listing(NODES), "", "b", ["b"])) == " Nodes [0]"
    assert text(text_title_pieces("log", "x")) == " log /x"


@pytest.mark.parametrize(
    ("changes", "message", "shown"),
    [
        ({}, "", " ? help  : command"),
        ({}, "a message", " a message"),
        ({"is_synced": False}, "", " reading from https://server ..."),
        ({"problem": "reset"}, "", " no answer from the API server, trying again: reset"),
        ({"unseen": (Unseen("pods", "no right"), Unseen("nodes", "x"))}, "", " cannot see pods: no right; nor nodes"),
    ],
)
def test_status(changes: dict[str, object], message: str, shown: str) -> None:
    status = msgspec.structs.replace(SYNCED, **changes)
    assert text(status_pieces(status, message, Listing(SERVICES))).startswith(shown)


def test_prompt() -> None:
    assert text(prompt_pieces(Prompt(Mode.COMMAND, "sv", ["svc"]))) == " :svc "
    assert "regular expression" in text(prompt_pieces(Prompt(Mode.FILTER)))
