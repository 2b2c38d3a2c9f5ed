"""Documents of aggregated APIs whose servers answer anything."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bridgehead.apiserver.handlers.external import ExternalApi
from bridgehead.apiserver.proxying.aggregation.api_service_status import RemoteApi
from bridgehead.apiserver.proxying.aggregation.fetching import Fetcher
from bridgehead.apiserver.proxying.aggregation.server_documents import fetch_documents
from bridgehead.apiserver.proxying.targets import Target

API = RemoteApi("v1.a.example.com", "a.example.com", "v1", "default", "a", 443, b"", False, 100, 10, True)
KNOWN = ExternalApi("a.example.com", "v1", [{"resource": "things"}], True, (100, 10))


class FixedAnswers:
    """The answers of a server by path; 404 for others."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self._answers = answers

    async def get(self, _api: Any, _target: Target, path: str, **_: Any) -> tuple[int, bytes]:
        return (200, self._answers[path]) if path in self._answers else (404, b"")


@pytest.mark.parametrize("path", ["/apis", "/apis/a.example.com/v1"])
@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"\xff\xfe", b"[1]", b'{"a":' * 100_000, b'{"resources":[7],"items":[7]}']
)
async def test_unreadable_discovery_leaves_what_was_known(path: str, body: bytes) -> None:
    fetcher = cast("Fetcher", FixedAnswers({path: body}))
    found = await fetch_documents(API, cast("Target", None), fetcher, KNOWN)
    assert (found.resources, found.is_current) == (KNOWN.resources, False)


@pytest.mark.parametrize("path", ["/openapi/v3", "/openapi/v2"])
@pytest.mark.parametrize("body", [b"<html>", b'{"paths":[]}', b'{"a":' * 100_000])
async def test_unreadable_openapi_leaves_discovery(path: str, body: bytes) -> None:
    resources = b'{"resources":[{"name":"things","namespaced":true,"kind":"Thing","verbs":["get"]}]}'
    fetcher = cast("Fetcher", FixedAnswers({"/apis/a.example.com/v1": resources, path: body}))
    found = await fetch_documents(API, cast("Target", None), fetcher, None)
    assert [one["resource"] for one in found.resources] == ["things"]
    assert (found.is_current, found.paths, found.definitions) == (True, {}, {})
