"""The meaning of errors of TLS handshakes."""

from __future__ import annotations

import ssl

import pytest

from bridgehead.tls_failures import is_plain_answer


@pytest.mark.parametrize(
    ("text", "is_http"),
    [
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:992)", True),
        ("[SSL] record layer failure (_ssl.c:1033)", True),
        ("[SSL: TLSV1_ALERT_INTERNAL_ERROR] tlsv1 alert internal error (_ssl.c:992)", False),
    ],
)
def test_an_answer_without_tls_is_known_by_the_text_of_the_error(text: str, is_http: bool) -> None:
    assert is_plain_answer(ssl.SSLError(1, text)) is is_http
