"""The `Status` that ends a session of exec."""

from __future__ import annotations

import pytest

from bridgehead.client.errors import ApiError, BadAnswer, Forbidden
from bridgehead.client.pod_exec import parse_exit_code

FAILED = b"""{"status": "Failure", "reason": "NonZeroExitCode", "message": "command terminated",
 "details": {"causes": [{"reason": "Other", "message": "1"}, {"reason": "ExitCode", "message": "7"}]}}"""
NO_PROGRAM = b'{"status": "Failure", "reason": "InternalError", "message": "executable file not found", "code": 500}'
NO_CODE = b'{"status": "Failure", "message": "no"}'
FORBIDDEN = b'{"status": "Failure", "reason": "Forbidden", "message": "no", "code": 403}'


def test_exit_codes() -> None:
    assert parse_exit_code(b'{"metadata": {}, "status": "Success"}') == 0
    assert parse_exit_code(FAILED) == 7


@pytest.mark.parametrize(
    ("document", "kind", "code"), [(NO_PROGRAM, ApiError, 500), (NO_CODE, ApiError, 500), (FORBIDDEN, Forbidden, 403)]
)
def test_a_program_that_was_not_started(document: bytes, kind: type[ApiError], code: int) -> None:
    with pytest.raises(kind) as caught:
        parse_exit_code(document)
    assert caught.value.status == code


@pytest.mark.parametrize("document", [b"", b"[]", b'{"status": 1}', b"\xff"])
def test_other_documents(document: bytes) -> None:
    with pytest.raises(BadAnswer):
        parse_exit_code(document)
