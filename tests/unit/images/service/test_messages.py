"""The messages between the puller and its clients."""

from __future__ import annotations

import pytest

from bridgehead.images import errors
from bridgehead.images.errors import ImageError, PullFailed
from bridgehead.images.registry.docker_config import Credential
from bridgehead.images.service import messages


@pytest.mark.parametrize(
    "error", [errors.NotFound("x"), errors.Denied("x"), errors.Unreachable("x"), errors.BadImage("x"), PullFailed("x")]
)
def test_a_failure_crosses_the_pullers_socket(error: ImageError) -> None:
    answer = messages.decode_answer(messages.encode(messages.failure_of(error)))
    assert isinstance(answer, messages.Failed)
    again = messages.error_of(answer)
    assert (type(again), str(again)) == (type(error), "x")


def test_requests_and_answers_are_one_line() -> None:
    request = messages.PullRequest(image="nginx", credentials=(Credential(username="u", password="a\nb"),))
    assert messages.encode(request).count(b"\n") == 1
    assert messages.decode_request(messages.encode(request)) == request
    pulled = messages.Pulled(id="x", size=1, seconds=0.5, waiting_seconds=0.5)
    for answer in (messages.Started(), pulled):
        assert messages.decode_answer(messages.encode(answer)) == answer
