"""Documents rendered in pieces equal documents rendered at once."""

from __future__ import annotations

import msgspec
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.collection import json_document, yaml_document
from bridgehead.apiserver.http.piecewise import PIECE_BYTES, PiecewiseBody, in_pieces

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["kind", "metadata", "spec", "a b"]), VALUES, max_size=3)


@given(OBJECTS, st.lists(OBJECTS, max_size=4))
def test_a_json_list_in_pieces_equals_the_whole(head, items):
    head = {"kind": "List", **head}
    encoded = [msgspec.json.encode(item) for item in items]
    whole = msgspec.json.encode({**head, "items": items})
    assert b"".join(json_document(head, "items", encoded)) == whole
    assert b"".join(json_document(head, "items", encoded, indented=True)) == msgspec.json.format(whole, indent=2)


@given(OBJECTS, st.lists(OBJECTS, max_size=4))
def test_a_yaml_list_in_pieces_equals_the_whole(head, items):
    encoded = [msgspec.json.encode(item) for item in items]
    whole = yaml.safe_dump({**head, "items": items}, default_flow_style=False, allow_unicode=True).encode()
    assert b"".join(yaml_document(head, "items", encoded)) == whole


@given(st.lists(st.integers(0, 3 * PIECE_BYTES), max_size=8))
def test_pieces_join_to_the_same_bytes(sizes):
    parts = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    pieces = list(in_pieces(parts))
    assert b"".join(pieces) == b"".join(parts)
    assert all(0 < len(piece) <= PIECE_BYTES for piece in pieces)


async def test_slow_pieces_are_made_in_a_thread_and_arrive_in_order():
    parts = [b"%d," % number * 20_000 for number in range(9)]
    for is_slow in (False, True):
        assert b"".join([piece async for piece in PiecewiseBody(parts, is_slow=is_slow)]) == b"".join(parts)
