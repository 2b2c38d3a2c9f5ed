"""Heads of HTTP answers, compared with what Go's net/http and net/textproto give."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from bridgehead.go_http import canonical_name, reason_phrase, render_head, rewrite_head


def test_reason_phrases():
    of_python = {status.value: status.phrase for status in HTTPStatus if status != 418}
    of_go = {code: reason_phrase(code) for code in of_python}
    different = {code: phrase for code, phrase in of_go.items() if phrase != of_python[code]}
    # Versions of Python differ in these.
    assert different.items() <= {
        (413, "Request Entity Too Large"),
        (414, "Request URI Too Long"),
        (416, "Requested Range Not Satisfiable"),
        (422, "Unprocessable Entity"),
    }
    assert reason_phrase(418) == "I'm a teapot"
    assert reason_phrase(422) == "Unprocessable Entity"
    assert reason_phrase(599) == "status code 599"


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        (b"audit-id", b"Audit-Id"),
        (b"x-kubernetes-pf-flowschema-uid", b"X-Kubernetes-Pf-Flowschema-Uid"),
        (b"www-authenticate", b"Www-Authenticate"),
        (b"etag", b"Etag"),
        (b"x-a_b", b"X-A_b"),
        (b"a b", b"a b"),
        (b"X-UPPER-case", b"X-Upper-Case"),
        (b"1x-2y", b"1x-2y"),
        (b"-a--b", b"-A--B"),
        (b"x.y-z", b"X.y-Z"),
        (b"a:b", b"a:b"),
    ],
)
def test_names_of_headers(name, canonical):
    assert canonical_name(name) == canonical


def test_heads():
    headers = [
        (b"content-length", b"2"),
        (b"warning", b"1"),
        (b"date", b"now"),
        (b"audit-id", b"x"),
        (b"warning", b"0"),
    ]
    expected = (
        b"HTTP/1.1 422 Unprocessable Entity\r\nAudit-Id: x\r\nWarning: 1\r\nWarning: 0\r\nDate: now\r\n"
        b"Content-Length: 2\r\n\r\n"
    )
    assert render_head(422, headers) == expected
    written = b"HTTP/1.1 422 Unprocessable Content\r\n" + b"".join(b"%b: %b\r\n" % header for header in headers)
    assert rewrite_head(written + b"\r\n") == expected
    assert rewrite_head(b"HTTP/1.1 204 \r\n\r\n") == b"HTTP/1.1 204 No Content\r\n\r\n"
    assert rewrite_head(b"nonsense\r\n\r\n") == b"nonsense\r\n\r\n"
    assert rewrite_head(b"HTTP/1.1 200 OK\r\nx-empty: \r\n\r\n") == b"HTTP/1.1 200 OK\r\nX-Empty: \r\n\r\n"
