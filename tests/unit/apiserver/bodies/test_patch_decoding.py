"""Problems of patches themselves."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.bodies.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from bridgehead.apiserver.bodies.patch_decoding import decode_patch
from bridgehead.apiserver.errors import ApiStatus

OPERATIONS = (
    b'[{"op": "add", "path": "/a", "value": {"b": 1, "b": 2}, "foo": "bar"}, {"op": "add", "path": "/a", "path": "/b"}]'
)


@pytest.mark.parametrize(
    ("media", "body", "problems"),
    [
        (
            JSON_PATCH,
            OPERATIONS,
            [
                'json patch duplicate field "[0].value.b"',
                'json patch unknown field "[0].foo"',
                'json patch duplicate field "[1].path"',
            ],
        ),
        (JSON_PATCH, b'[{"op": "add", "path": "/a", "value": {"c": 1}}]', []),
        (MERGE_PATCH, b'{"a": {"b": 1, "b": 2}, "op": 1}', ['duplicate field "a.b"']),
        (STRATEGIC_MERGE_PATCH, b'{"a": 1, "a": 2}', ['duplicate field "a"']),
    ],
)
def test_duplicate_and_unknown_fields_are_found(media, body, problems):
    assert decode_patch(media, body, is_checked=True)[1] == problems
    assert decode_patch(media, body, is_checked=False)[1] == []


@pytest.mark.parametrize(
    ("media", "body", "message"),
    [
        (
            JSON_PATCH,
            b"{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            JSON_PATCH,
            b"[1]",
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        (
            JSON_PATCH,
            b'[{"op": 1}]',
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (
            MERGE_PATCH,
            b"[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            STRATEGIC_MERGE_PATCH,
            b"7",
            "json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
    ],
)
def test_patches_of_another_form_are_refused(media, body, message):
    with pytest.raises(ApiStatus) as refused:
        decode_patch(media, body, is_checked=True)
    assert (refused.value.code, refused.value.message) == (400, message)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(body):
    with pytest.raises(ApiStatus, match="error decoding patch: "):
        decode_patch(JSON_PATCH, body, is_checked=True)
