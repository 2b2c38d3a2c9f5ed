"""Access to the pages of the balancer's processes."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.balancer.page_access import PageAccess
from bridgehead.client.access_reviews import AccessReviews
from bridgehead.client.errors import Unreachable
from bridgehead.pages import Request

READER, OTHER, BROKEN = "reader", "other", "broken"


class Api:
    """Answers TokenReviews and SubjectAccessReviews."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def request(self, method: str, path: str, *, json: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(json["spec"])
        if json["kind"] == "TokenReview":
            token = json["spec"]["token"]
            if token == BROKEN:
                raise Unreachable("no answer")
            known = token in (READER, OTHER)
            return {"status": {"authenticated": known, "user": {"username": token} if known else {}}}
        return {"status": {"allowed": json["spec"]["user"] == READER}}


def request(path: str, *, peer: str = "10.244.1.7", is_secure: bool = True, token: str = "") -> Request:
    return Request("GET", path, peer, is_secure, f"Bearer {token}" if token else "")


async def answer(asked: Request, api: Api | None = None, secure_port: int = 9120) -> tuple[int, str]:
    access = PageAccess(AccessReviews(api or Api()), lambda: {"10.0.0.1"}, secure_port)  # type: ignore[arg-type]
    page = await access(asked)
    return (200, "") if page is None else (page.status, page.body.decode().strip())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request("/healthz", is_secure=False), (200, "")),
        (request("/readyz", is_secure=False), (200, "")),
        (request("/started", is_secure=False), (200, "")),
        (request("/metrics", peer="127.0.0.1", is_secure=False), (200, "")),
        (request("/metrics", peer="::1", is_secure=False), (200, "")),
        (request("/status", peer="10.0.0.1", is_secure=False), (200, "")),  # the API server's proxy of pods
        (request("/metrics", peer="10.0.0.1", is_secure=False), (403, "/metrics needs TLS and a token, at port 9120")),
        (request("/status", is_secure=False), (403, "/status needs TLS and a token, at port 9120")),
        (request("/metrics", is_secure=False, token=READER), (403, "/metrics needs TLS and a token, at port 9120")),
        (request("/metrics", peer=""), (401, "Unauthorized")),
        (request("/metrics"), (401, "Unauthorized")),
        (request("/metrics", token="unknown"), (401, "Unauthorized")),
        (request("/metrics", token=OTHER), (403, "Authorization denied for user other")),
        (request("/metrics", token=BROKEN), (500, "Authentication failed")),
        (request("/metrics", token=READER), (200, "")),
        (request("/status", token=READER), (200, "")),
        (request("/other", token=READER), (200, "")),  # where 404 is the answer
    ],
)
async def test_clients_get_what_the_api_server_grants_them(asked: Request, expected: tuple[int, str]) -> None:
    assert await answer(asked) == expected


async def test_the_answer_names_a_missing_port_with_tls() -> None:
    expected = (403, "/metrics needs TLS and a token, (no port with TLS is configured)")
    assert await answer(request("/metrics", is_secure=False), secure_port=0) == expected


async def test_a_token_in_plain_text_is_not_looked_at() -> None:
    api = Api()
    await answer(request("/metrics", is_secure=False, token=READER), api)
    assert api.asked == []


async def test_the_api_server_is_asked_about_the_path_and_once() -> None:
    api = Api()
    access = PageAccess(AccessReviews(api))  # type: ignore[arg-type]
    for _ in range(2):
        assert await access(request("/metrics", token=READER)) is None
    assert api.asked == [
        {"token": READER},
        {
            "user": READER,
            "uid": "",
            "groups": [],
            "extra": {},
            "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
        },
    ]
