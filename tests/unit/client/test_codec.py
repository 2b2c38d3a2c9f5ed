import json
from typing import Any

import pytest

from bridgehead.client.codec import codec_of
from bridgehead.client.discovery import metadata_kind
from bridgehead.client.errors import (
    AlreadyExists,
    ApiError,
    BadAnswer,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    error_from_status,
)
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import ENDPOINT_SLICES, PODS, REPLICA_SETS
from bridgehead.objects.meta import ObjectMeta


def status(code: int, reason: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "m"}


@pytest.mark.parametrize(
    ("code", "reason", "type"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (422, "Invalid", Invalid),
        (403, "Forbidden", Forbidden),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ApiError),
    ],
)
def test_an_error_status_raises_its_error(code, reason, type):
    error = error_from_status(code, status(code, reason))
    assert error.__class__ is type
    assert (error.status, error.reason, str(error)) == (code, reason, "m")


@pytest.mark.parametrize("body", ["<html>Bad Gateway</html>", None, [], {"kind": "Pod"}])
def test_an_error_response_without_a_status_raises_an_error(body):
    assert error_from_status(404, body).__class__ is NotFound


def test_objects_are_encoded_with_their_kind():
    body = codec_of(REPLICA_SETS).encode({"metadata": {"name": "a"}})
    assert json.loads(body) == {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "a"}}
    pod = Pod(metadata=ObjectMeta(name="a"))
    assert json.loads(codec_of(PODS).encode(pod)) == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    assert json.loads(codec_of(PODS).encode(Pod())) == {"apiVersion": "v1", "kind": "Pod"}


def test_nulls_of_go_servers_are_decoded_as_empty():
    codec = codec_of(ENDPOINT_SLICES)
    found = codec.decode_object(b'{"metadata":{"name":"a","labels":null},"endpoints":null,"ports":null}')
    assert (found.metadata.name, found.metadata.labels, found.endpoints) == ("a", {}, ())
    assert codec.decode_list(b'{"metadata":{"resourceVersion":"7"},"items":null}').items == []


def test_a_list_of_which_one_object_has_nulls_and_one_is_unreadable(caplog):
    body = b"""{"metadata":{"resourceVersion":"7","continue":null},"items":[
        {"metadata":{"name":"a"},"endpoints":[{"addresses":["10.0.0.1"]}]},
        {"metadata":{"name":"b"},"endpoints":null},{"metadata":{"name":"c"},"endpoints":1},"d"]}"""
    found = codec_of(ENDPOINT_SLICES).decode_list(body)
    assert [(one.metadata.name, len(one.endpoints)) for one in found.items] == [("a", 1), ("b", 0)]
    assert found.resource_version == "7"
    assert ["endpointslices c is left out" in caplog.messages[0], len(caplog.messages)] == [True, 2]


def test_lists_are_decoded_with_their_metadata():
    found = codec_of(PODS).decode_list(
        b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"next"},"items":[{"metadata":{"name":"a"}}]}'
    )
    assert ([p.metadata.name for p in found.items], found.resource_version) == (["a"], "7")
    assert found.metadata.continue_ == "next"


def test_watch_events_are_decoded():
    codec = codec_of(PODS)
    event = codec.decode_event(b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}')
    assert (event.type, event.object.metadata.name) == ("ADDED", "a")
    mark = codec.decode_event(b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}}')
    assert (mark.type, mark.object.metadata.resource_version) == ("BOOKMARK", "9")
    for kind in (PODS, metadata_kind("example.com", "v1", "widgets", "Widget", True)):
        with pytest.raises(Gone):
            codec_of(kind).decode_event(json.dumps({"type": "ERROR", "object": status(410, "Expired")}).encode())


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"metadata":5}', b"\xff"])
def test_unreadable_responses_raise_bad_answer(body):
    codec = codec_of(PODS)
    for decode in (codec.decode_object, codec.decode_list, codec.decode_event):
        with pytest.raises(BadAnswer):
            decode(body)


def test_one_invalid_object_does_not_hide_the_others(caplog):
    codec = codec_of(PODS)
    found = codec.decode_list(
        b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"odd"},"spec":5},{"metadata":{"name":"a"}}]}'
    )
    assert [p.metadata.name for p in found.items] == ["a"]
    assert found.resource_version == "7"
    odd = b'{"type":"%s","object":{"metadata":{"name":"odd","resourceVersion":"8"},"spec":5}}'
    seen = [codec.decode_event(odd % change) for change in (b"ADDED", b"MODIFIED", b"DELETED")]
    assert [event.type for event in seen] == ["BOOKMARK", "BOOKMARK", "DELETED"]
    assert {event.object.metadata.resource_version for event in seen} == {"8"}
    assert len(caplog.records) == 4


def test_types_for_metadata_are_created_once():
    one = metadata_kind("example.com", "v1", "widgets", "Widget", True)
    assert one is metadata_kind("example.com", "v1", "widgets", "Widget", True)
    assert (one.name, one.api_version) == ("Widget", "example.com/v1")
    found = codec_of(one).decode_object(b'{"metadata":{"name":"w"},"spec":{"size":3}}')
    assert found.metadata.name == "w"
