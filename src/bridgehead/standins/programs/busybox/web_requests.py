"""Options, URLs, requests and lines of output of BusyBox's wget.

Pure: no I/O, no clock, no randomness. Source: BusyBox' networking/wget.c and libbb/progress.c.
"""

from __future__ import annotations

import base64
import itertools
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from .options import BadOption, parse_number, parse_options

DEFAULT_TIMEOUT: Final = 900  # seconds
_LETTERS: Final = "cqSO:o:P:Y:U:T:t:"
_NAMES: Final = {
    "continue": "c",
    "quiet": "q",
    "server-response": "S",
    "output-document=": "O",
    "output-file=": "o",
    "directory-prefix=": "P",
    "proxy=": "Y",
    "user-agent=": "U",
    "timeout=": "T",
    "tries=": "t",
    "header=": "header",
    "post-data=": "post-data",
    "post-file=": "post-file",
    "spider": "spider",
    "no-check-certificate": "no-check",
    **dict.fromkeys(("passive-ftp", "no-cache", "no-verbose", "no-clobber", "no-host-directories", "no-parent"), "n"),
}
_PORTS: Final = {"http": 80, "https": 443}
# Headers of a user that replace those of the program.
_OWN_HEADERS: Final = ("host", "user-agent", "content-type", "authorization")
_MOST_DIGITS: Final = 19  # of a number with 63 bits
_HEX_DIGITS: Final = "0123456789abcdefABCDEF"
_BAR_WIDTH: Final = 48  # columns of a progress line besides its bar


class BadUrl(Exception):
    """The message is BusyBox's."""


class Malformed(Exception):
    """A response is not what it should be; the message is BusyBox's."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The command line. `output`: a file, "-" for standard output, "" for a name from the URL. `timeout` in seconds."""

    urls: tuple[str, ...]
    output: str = ""
    log: str = ""
    directory: str = ""
    user_agent: str = "Wget"
    timeout: int = DEFAULT_TIMEOUT
    headers: tuple[str, ...] = ()
    post_data: str | None = None
    post_file: str = ""
    is_quiet: bool = False
    is_spider: bool = False
    shows_response: bool = False
    checks_certificates: bool = True


class Url(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is with its port, as in the URL; `path` is without the first slash."""

    scheme: str
    host: str
    path: str
    user: str = ""

    @property
    def port(self) -> int:
        """The port for a host without one."""
        return _PORTS[self.scheme]

    @property
    def file_name(self) -> str:
        return self.path.rpartition("/")[2] or "index.html"


def parse_arguments(argv: Sequence[str]) -> Options:
    """Raises `BadOption` ("" if only the usage is printed) and `BadNumber`."""
    # -nv, -nc, -nH and -np have no effect.
    parsed = parse_options([word for word in argv if not word.startswith("-n")], _LETTERS, _NAMES)
    if not parsed.operands:
        raise BadOption("")
    last = dict(parsed.options)
    return Options(
        urls=tuple(parsed.operands),
        output=last.get("O", ""),
        log=last.get("o", ""),
        directory=last.get("P", ""),
        user_agent=last.get("U", "Wget"),
        timeout=parse_number(last.get("T", str(DEFAULT_TIMEOUT)), 0, 0x7FFFFFFF),
        headers=tuple(value for letter, value in parsed.options if letter == "header"),
        post_data=last.get("post-data"),
        post_file=last.get("post-file", ""),
        is_quiet="q" in last,
        is_spider="spider" in last,
        shows_response="S" in last,
        checks_certificates="no-check" not in last,
    )


def parse_url(text: str, user: str = "") -> Url:
    """`user` is that of the URL that redirected here. Raises `BadUrl`."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
    if scheme not in _PORTS:
        raise BadUrl(f"not an http or ftp url: {text}")
    end = min((rest.find(each) for each in "/?#" if each in rest), default=len(rest))
    host, path = rest[:end], rest[end + 1 :]
    if "@" in host:
        user, _, host = host.rpartition("@")
        user = urllib.parse.unquote(user)
    return Url(scheme=scheme, host=host, path=path, user=user)


def format_request(url: Url, options: Options, body: bytes | None) -> bytes:
    """`body` is None for GET."""
    given = {header.partition(":")[0].strip().lower() for header in options.headers}
    headers = {"Host": url.host, "User-Agent": options.user_agent, "Connection": "close"}
    if url.user:
        headers["Authorization"] = "Basic " + base64.b64encode(url.user.encode("utf-8", "surrogateescape")).decode()
    lines = [
        f"{'GET' if body is None else 'POST'} /{url.path} HTTP/1.1",
        *_format_headers(headers, given),
        *options.headers,
    ]
    if body is not None:
        lines += _format_headers({"Content-Type": "application/x-www-form-urlencoded"}, given)
        lines.append(f"Content-Length: {len(body)}")
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("utf-8", "surrogateescape") + (body or b"")


def _format_headers(headers: Mapping[str, str], given: set[str]) -> list[str]:
    return [
        f"{name}: {value}"
        for name, value in headers.items()
        if not (name.lower() in _OWN_HEADERS and name.lower() in given)
    ]


def sanitize_line(line: bytes) -> str:
    """A line of a response up to its first control character; tabs become spaces."""
    line = line.replace(b"\t", b" ")
    end = next((index for index, byte in enumerate(line) if byte < 0x20), len(line))
    return line[:end].decode("utf-8", "surrogateescape")


def parse_status(line: str) -> int:
    """The status code of a response's first line, 0 for none."""
    code = line.partition(" ")[2].lstrip(" ")[:3]
    return int(code) if code.isascii() and code.isdigit() else 0


def parse_field(line: str) -> tuple[str, str]:
    """A header field: its name in lower case, and its value. Raises `Malformed`."""
    name, colon, value = line.partition(":")
    if not colon or not name.replace("-", "").replace(".", "").replace("_", "").isalnum():
        raise Malformed(f"bad header line: {line}")
    return name.lower(), value.strip(" ")


def parse_length(fields: Mapping[str, str]) -> int | None:
    """The length of a body, None if it is not given. Raises `Malformed`, also for an encoding besides chunks."""
    encoding = fields.get("transfer-encoding", "chunked").lower()
    if encoding != "chunked":
        raise Malformed(f"transfer encoding '{encoding}' is not supported")
    length = fields.get("content-length")
    if length is not None and not (length.isascii() and length.isdigit() and len(length) < _MOST_DIGITS):
        raise Malformed(f"content-length {length} is garbage")
    return None if length is None else int(length)


def parse_chunk_length(line: str) -> int:
    """The length of a chunk; as in BusyBox, a line without digits is that of the last chunk. Raises `Malformed`."""
    digits = "".join(itertools.takewhile(_HEX_DIGITS.__contains__, line))
    if len(digits) >= _MOST_DIGITS - 3:
        raise Malformed(f"bad chunk length '{line}'")
    return int(digits or "0", 16)


def format_progress(name: str, size: int, columns: int) -> str:
    """The line for a file that has been read, without its end. `size` in bytes."""
    bar = "*" * max(columns - _BAR_WIDTH, 0)
    shown = f" 100% |{bar}|" if bar else ""
    return f"{name[:20]:20}{shown} {format_size(size)}  0:00:00 ETA"


def format_size(size: int) -> str:
    """Five characters, with a unit from 100000 on."""
    if size <= 99999:
        return f"{size:5}"
    tenths, unit = size * 10, 0
    while unit == 0 or tenths >= 100000:
        tenths //= 1024
        unit += 1
    number = f"{tenths // 10:4}" if tenths >= 1000 else f"{tenths // 10:2}.{tenths % 10}"
    return number + " kMGTPEZY"[unit]
