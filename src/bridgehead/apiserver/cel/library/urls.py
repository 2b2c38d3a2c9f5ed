"""URLs.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `apiserver/pkg/cel/library/urls.go`, Go `net/url`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote, unquote, unquote_plus, urlsplit

from bridgehead.apiserver.cel.costs import PARSING_WORK, traversal
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.types import opaque

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%25[^\]]*)?\]|[^\[\]:<>\"\\^`{|} ]*)(?::[0-9]*)?")


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str
    host: str
    path: str
    query: str
    text: str
    cel_type = opaque("kubernetes.URL")

    @property
    def cel_size(self) -> int:
        return len(self.text)


def parse_request_uri(text: str) -> Url:
    """Return an absolute URL or path that `url.ParseRequestURI` accepts, without its fragment.

    Raises ValueError with Go's message.
    """
    if not text:
        raise ValueError('parse "": empty url')
    fail = partial("parse {}: {}".format, f'"{text[:200]}"')
    if any(ord(one) < 0x20 or ord(one) == 0x7F for one in text):
        raise ValueError(fail("net/url: invalid control character in URL"))
    head, colon, _ = text.partition(":")
    if text[0] != "/" and not (colon and _SCHEME.fullmatch(head)):
        if text[0] == ":":
            raise ValueError(fail("missing protocol scheme"))
        raise ValueError(fail("invalid URI for request"))
    try:
        parts = urlsplit(text, allow_fragments=False)
    except ValueError:
        raise ValueError(fail("invalid URI for request")) from None
    rest = text[len(head) + 1 :] if text[0] != "/" else text
    whole = text.partition("#")[0]
    if not rest.startswith("/"):  # an opaque URL such as mailto:a, which has neither a host nor a path
        return Url(parts.scheme, "", "", whole.partition("?")[2], text)
    host = parts.netloc.rpartition("@")[2]
    if _HOST.fullmatch(host) is None:
        raise ValueError(fail('invalid character " " in host name' if " " in host else "invalid port after host"))
    wrong = _ESCAPE.search(parts.path)
    if wrong is not None:
        raise ValueError(fail(f'invalid URL escape "{parts.path[wrong.start() : wrong.start() + 3]}"'))
    parts = urlsplit(whole)
    return Url(parts.scheme, unquote(host), parts.path, parts.query, text)


def _url(text: str) -> Url:
    try:
        return parse_request_uri(text)
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> bool:
    try:
        parse_request_uri(text)
    except ValueError:
        return False
    return True


def _split_host(host: str) -> tuple[str, str]:
    match = re.fullmatch(r"(\[.*\]|[^:]*)(?::([0-9]*))?", host)
    return (host, "") if match is None else (match[1].removeprefix("[").removesuffix("]"), match[2] or "")


def _query(url: Url) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if pair and ";" not in pair:
            key, _, value = pair.partition("=")
            found.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return found


_URL = "kubernetes.URL"

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "url": (overload(f"(string) -> {_URL}", _url, traversal()),),
    "isURL": (overload("(string) -> bool", _is_url, traversal(is_estimated=False, work=PARSING_WORK)),),
    "getScheme": (overload(f"{_URL}.() -> string", lambda url: url.scheme),),
    "getHost": (overload(f"{_URL}.() -> string", lambda url: url.host),),
    "getHostname": (overload(f"{_URL}.() -> string", lambda url: _split_host(url.host)[0]),),
    "getPort": (overload(f"{_URL}.() -> string", lambda url: _split_host(url.host)[1]),),
    "getEscapedPath": (overload(f"{_URL}.() -> string", lambda url: quote(url.path, safe="%/:@!$&'()*+,;=~-._")),),
    "getQuery": (overload(f"{_URL}.() -> map(string, list(string))", _query),),
}
