"""Passwords of BGP sessions in Secrets, and the reasons why there is none."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from bridgehead.balancer.speaker.passwords import read_password
from bridgehead.client.errors import Unreachable, error_from_status
from bridgehead.objects.core import Secret

BASIC_AUTH = "kubernetes.io/basic-auth"


class Client:
    """An API client that has one Secret, or fails."""

    def __init__(self, answer: Secret | Exception) -> None:
        self._answer = answer

    async def get(self, *_: Any) -> Secret:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def secret(password: bytes, type_: str = BASIC_AUTH, key: str = "password") -> Secret:
    return Secret(type=type_, data={key: base64.b64encode(password).decode()})


def status(code: int, reason: str) -> Exception:
    return error_from_status(code, {"kind": "Status", "reason": reason, "message": reason, "code": code})


async def test_a_password() -> None:
    client: Any = Client(secret("pä".encode()))
    assert await read_password(client, "metallb-system", "router") == "pä"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(404, "NotFound"), "Secret metallb-system/router with the password does not exist"),
        (
            status(403, "Forbidden"),
            "this speaker may not read Secret metallb-system/router with the password: its Role is gone; upgrade the"
            " chart's release (a lab: down and up)",
        ),
        (Unreachable("no answer"), "cannot read Secret metallb-system/router with the password: no answer"),
        (
            secret(b"x", type_="Opaque"),
            f"Secret metallb-system/router with the password is of type Opaque, not {BASIC_AUTH}",
        ),
        (secret(b"x", key="other"), 'Secret metallb-system/router has no key "password"'),
        (secret(b"\xff"), 'Secret metallb-system/router: its key "password" is no text'),
    ],
)
async def test_reasons_why_there_is_no_password(answer: Any, reason: str) -> None:
    client: Any = Client(answer)
    with pytest.raises(LookupError) as raised:
        await read_password(client, "metallb-system", "router")
    assert str(raised.value) == reason
