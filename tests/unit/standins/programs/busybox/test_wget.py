"""wget of BusyBox: its options, URLs, requests, and what it reads of responses."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.standins.programs.busybox.options import BadNumber, BadOption
from bridgehead.standins.programs.busybox.web_requests import (
    BadUrl,
    Malformed,
    Options,
    Url,
    format_progress,
    format_request,
    format_size,
    parse_arguments,
    parse_chunk_length,
    parse_field,
    parse_length,
    parse_status,
    parse_url,
    sanitize_line,
)


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        (["-O", "-", "-q", "web"], Options(urls=("web",), output="-", is_quiet=True)),
        (["web", "-qO-"], Options(urls=("web",), output="-", is_quiet=True)),
        (
            ["--spider", "-S", "-T", "2", "a", "b"],
            Options(urls=("a", "b"), is_spider=True, shows_response=True, timeout=2),
        ),
        (["--timeout=1", "-c", "-nv", "-t3", "a"], Options(urls=("a",), timeout=1)),
        (["--header", "A: b", "--header=C: d", "a"], Options(urls=("a",), headers=("A: b", "C: d"))),
        (
            ["--post-data=x", "-P", "d", "-o", "l", "-U", "u", "a"],
            Options(urls=("a",), post_data="x", directory="d", log="l", user_agent="u"),
        ),
        (
            ["--no-check-certificate", "--post-file", "f", "a"],
            Options(urls=("a",), checks_certificates=False, post_file="f"),
        ),
    ],
)
def test_arguments(argv: list[str], options: Options) -> None:
    assert parse_arguments(argv) == options


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], ""),
        (["-Z", "a"], "invalid option -- 'Z'"),
        (["-O"], "option requires an argument -- 'O'"),
        (["--nosuch", "a"], "unrecognized option '--nosuch'"),
        (["--header"], "option '--header' requires an argument"),
    ],
)
def test_other_arguments_are_refused(argv: list[str], message: str) -> None:
    with pytest.raises(BadOption) as caught:
        parse_arguments(argv)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "invalid number 'x'"),
        ("9" * 11, f"invalid number '{'9' * 11}'"),
        ("2147483648", "number 2147483648 is not in 0..2147483647 range"),
    ],
)
def test_other_numbers_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadNumber) as caught:
        parse_arguments(["-T", text, "a"])
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "url", "file"),
    [
        ("web", Url(scheme="http", host="web", path=""), "index.html"),
        ("http://web:80/", Url(scheme="http", host="web:80", path=""), "index.html"),
        ("https://web/a/b?c=d", Url(scheme="https", host="web", path="a/b?c=d"), "b?c=d"),
        ("http://web?a=b", Url(scheme="http", host="web", path="a=b"), "a=b"),
        ("http://u:%20@web/x", Url(scheme="http", host="web", path="x", user="u: "), "x"),
        ("http://[::1]:8/x#y", Url(scheme="http", host="[::1]:8", path="x#y"), "x#y"),
    ],
)
def test_urls(text: str, url: Url, file: str) -> None:
    assert parse_url(text) == url
    assert url.file_name == file
    assert url.port == {"http": 80, "https": 443}[url.scheme]


def test_another_scheme_is_refused() -> None:
    with pytest.raises(BadUrl, match="not an http or ftp url: gopher://x"):
        parse_url("gopher://x")


def test_requests() -> None:
    url = parse_url("web:8080/a")
    own = "Host: web:8080\r\nUser-Agent: Wget\r\nConnection: close\r\n"
    assert format_request(url, Options(urls=()), None).decode() == f"GET /a HTTP/1.1\r\n{own}\r\n"
    posted = f"POST /a HTTP/1.1\r\n{own}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b"
    assert format_request(url, Options(urls=()), b"a=b").decode() == posted
    given = Options(urls=(), headers=("host: h", "User-Agent: u", "Content-Type: t", "X: y"))
    expected = "Connection: close\r\nhost: h\r\nUser-Agent: u\r\nContent-Type: t\r\nX: y\r\nContent-Length: 0\r\n\r\n"
    assert format_request(url, given, b"").decode() == f"POST /a HTTP/1.1\r\n{expected}"
    known = msgspec.structs.replace(url, user="user:pa ss")
    assert b"\r\nAuthorization: Basic dXNlcjpwYSBzcw==\r\n" in format_request(known, Options(urls=()), None)


@pytest.mark.parametrize(("line", "text"), [(b"a\tb\r\n", "a b"), (b"a\x1b[31mb", "a"), (b"\xff", "\udcff"), (b"", "")])
def test_lines_end_at_control_characters(line: bytes, text: str) -> None:
    assert sanitize_line(line) == text


@pytest.mark.parametrize(
    ("line", "status"), [("HTTP/1.1 200 OK", 200), ("HTTP/1.0  404", 404), ("HTTP/1.1 OK", 0), ("", 0)]
)
def test_status(line: str, status: int) -> None:
    assert parse_status(line) == status


def test_fields() -> None:
    assert parse_field("X-A_b.c:  d e ") == ("x-a_b.c", "d e")
    for line in ("none", "a b: c", ": c"):
        with pytest.raises(Malformed, match="bad header line: "):
            parse_field(line)


def test_lengths() -> None:
    assert parse_length({}) is None
    assert parse_length({"transfer-encoding": "Chunked", "content-length": "12"}) == 12
    for fields, message in (
        ({"transfer-encoding": "gzip"}, "transfer encoding 'gzip' is not supported"),
        ({"content-length": "-1"}, "content-length -1 is garbage"),
        ({"content-length": "9" * 19}, f"content-length {'9' * 19} is garbage"),
    ):
        with pytest.raises(Malformed) as caught:
            parse_length(fields)
        assert str(caught.value) == message


def test_lengths_of_chunks() -> None:
    assert [parse_chunk_length(line) for line in ("1f", "A;x=y", "xyz", "")] == [31, 10, 0, 0]
    with pytest.raises(Malformed, match="bad chunk length 'ffffffffffffffff'"):
        parse_chunk_length("f" * 16)


def test_progress() -> None:
    assert format_progress("index.html", 6, 52) == "index.html           100% |****|     6  0:00:00 ETA"
    assert format_progress("a" * 30, 300_000, 40) == f"{'a' * 20}  292k  0:00:00 ETA"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "    0"), (99_999, "99999"), (100_000, "97.6k"), (10**7, "9765k"), (10**8, "95.3M"), (10**10, "9536M")],
)
def test_sizes(size: int, text: str) -> None:
    assert format_size(size) == text
