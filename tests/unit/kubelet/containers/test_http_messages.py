"""Messages of probes and hooks. The expected texts are those of Go's net/http and Kubernetes' pkg/probe/http."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.containers.go_urls import parse_url
from bridgehead.kubelet.containers.http_messages import (
    Head,
    canonical_name,
    headers_of_action,
    headers_of_redirect,
    parse_head,
    render_request,
)
from bridgehead.objects.core import HTTPHeader

CLOSE = (("Connection", "close"),)


def rendered(*given: tuple[str, str], url: str = "http://10.0.0.1:80/x", host: str = "", extra=CLOSE) -> list[str]:
    headers = headers_of_action([HTTPHeader(name=name, value=value) for name, value in given], "kube-probe/1.36")
    parsed = parse_url(url)
    request = render_request(parsed, host or headers.get("Host", [""])[0] or parsed.host, headers, extra)
    assert request.endswith(b"\r\n\r\n")
    return request.decode("latin-1").split("\r\n")[:-2]


DEFAULT = ["GET /x HTTP/1.1", "Host: 10.0.0.1:80", "User-Agent: kube-probe/1.36", "Accept: */*", "Connection: close"]


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        ((), {}),
        ((("Host", "web.example"),), {1: "Host: web.example"}),
        ((("host", "a"), ("HOST", "b")), {1: "Host: a"}),
        ((("Host", ""),), {}),
        ((("user-agent", "own"), ("User-Agent", "other")), {2: "User-Agent: own"}),
        ((("User-Agent", ""),), {2: None}),
        ((("accept", "text/plain"),), {3: "Accept: text/plain"}),
        ((("Accept", ""),), {3: None}),
        ((("Content-Length", "7"), ("transfer-encoding", "chunked"), ("Trailer", "x")), {}),
        ((("z-tag", " 1 "), ("x-TAG", "2"), ("Z-Tag", "3")), {4: "X-Tag: 2\nZ-Tag: 1\nZ-Tag: 3\nConnection: close"}),
        ((("X", "é"),), {4: "X: \xc3\xa9\nConnection: close"}),
    ],
)
def test_a_request_has_the_headers_of_a_kubelets(given: tuple[tuple[str, str], ...], changes: dict[int, str]) -> None:
    wanted = [changes.get(index, line) for index, line in enumerate(DEFAULT)]

    assert rendered(*given) == "\n".join(line for line in wanted if line is not None).split("\n")


def test_the_zone_of_an_address_is_not_sent() -> None:
    assert rendered(url="http://[fe80::1]:80/", host="[fe80::1%eth0]:80")[1] == "Host: [fe80::1]:80"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("X-Tag", "a\r\nX-More: b"), 'net/http: invalid header field value for "X-Tag"'),
        (("X Tag", "a"), 'net/http: invalid header field name "X Tag"'),
        (("Host", "a b"), "http: invalid Host header"),
        (("Host", "a/b"), "http: invalid Host header"),
    ],
)
def test_headers_that_would_not_arrive_as_they_are_are_refused(given: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rendered(given)


@pytest.mark.parametrize(("name", "canonical"), [("x-tag", "X-Tag"), ("ETAG", "Etag"), ("a b", "a b"), ("", "")])
def test_names_are_canonical(name: str, canonical: str) -> None:
    assert canonical_name(name) == canonical


def test_a_redirect_has_a_referer_unless_it_leaves_https() -> None:
    old, headers = parse_url("https://web/x"), {"Accept": ["*/*"]}

    assert headers_of_redirect(headers, old, parse_url("https://web/y")) == {"Referer": ["https://web/x"], **headers}
    assert headers_of_redirect(headers, old, parse_url("http://web/y")) == headers
    own = {"Referer": ["own"]}
    assert headers_of_redirect(own, old, parse_url("https://web/y")) == own


@pytest.mark.parametrize(
    ("head", "length", "is_chunked"),
    [
        (["HTTP/1.1 200 OK", "Content-Length: 5"], 5, False),
        (["HTTP/1.0 200"], None, False),
        (["HTTP/1.1 200 OK", "content-length: -5"], None, False),
        (["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Content-Length: 5"], None, True),
        (["HTTP/1.1 204 No Content"], 0, False),
    ],
)
def test_the_length_of_a_body(head: list[str], length: int | None, is_chunked: bool) -> None:
    found = parse_head(f"{line}\r\n".encode() for line in head)

    assert (found.content_length, found.is_chunked) == (length, is_chunked)


def test_heads_are_parsed() -> None:
    assert parse_head([b"HTTP/1.1 302 Found\n", b"Location: /a\n", b"location:/b\n"]) == Head(
        302, {"location": ["/a", "/b"]}
    )
    broken = "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
    for line, shown in ((b"SSH-2.0-x\r\n", "SSH-2.0-x"), (b"HTTP/1.1 2000 x\n", "HTTP/1.1 2000 x"), (b"\x00\n", "x00")):
        with pytest.raises(ValueError, match=broken) as caught:
            parse_head([line])
        assert shown in str(caught.value)
