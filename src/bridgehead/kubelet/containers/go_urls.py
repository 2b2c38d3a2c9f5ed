"""URLs as Go's net/url parses and writes them, for the requests that `httpGet` asks for. `http_requests.py` uses it.

A kubelet sends the path and the query as the pod's author wrote them, unless they contain what a URL cannot contain:
nothing is normalized, and no escape is replaced by the character that it means.

Texts are "byte strings" here: strings whose characters are the bytes of UTF-8 text (`to_bytes_text`).

Pure: no I/O, no clock, no randomness. Source: Go 1.25, net/url/url.go; Kubernetes, pkg/probe/http/request.go.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_is_valid_escape = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*").fullmatch
_find_escapes = re.compile(r"%([0-9A-Fa-f]{2})")
# The characters that may be in an encoded path, and those that Go itself does not escape there.
_is_encoded_path = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@/\[\]%]*").fullmatch
_find_escaped = re.compile(r"[^A-Za-z0-9\-_.~$&+,/:;=@]")
_is_host = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"\x80-\xff]|%25|%[89A-Fa-f][0-9A-Fa-f])*").fullmatch
_find_control = re.compile(r"[\x00-\x1f\x7f]").search
_match_scheme = re.compile(r"([A-Za-z][A-Za-z0-9+\-.]*):(.*)", re.DOTALL).fullmatch


class Url(NamedTuple):
    """A URL. `path` is unescaped; `raw_path` is its escaped form where that is not the one that Go would choose.

    `host` includes the port, and brackets around an IPv6 address. `opaque`: what follows the scheme of a URL such as
    `mailto:x`, which has neither host nor path. `has_query`: there is a `?`, perhaps without a query.
    """

    scheme: str = ""
    host: str = ""
    path: str = ""
    raw_path: str = ""
    query: str = ""
    has_query: bool = False
    fragment: str = ""
    opaque: str = ""

    @property
    def escaped_path(self) -> str:
        if self.raw_path and _is_encoded_path(self.raw_path):
            return self.raw_path
        return "*" if self.path == "*" else _escape(self.path)

    @property
    def request_target(self) -> str:
        """Return what a request line names: path and query."""
        return (self.escaped_path or "/") + (f"?{self.query}" if self.has_query else "")

    @property
    def host_name(self) -> str:
        """Return the host without its port and brackets."""
        if bracketed := re.match(r"\[([^]]*)\]", self.host):
            return bracketed[1]
        return self.host.rpartition(":")[0] if ":" in self.host else self.host

    @property
    def port(self) -> int:
        """Return the port, or the scheme's. Raises ValueError."""
        text = self.host.rpartition(":")[2] if re.search(r":[^]:]*$", self.host) else ""
        port = int(text) if text else {"https": 443}.get(self.scheme, 80)
        if not 0 < port < 65536:
            raise ValueError(f"invalid port number: {port}")
        return port

    def __str__(self) -> str:
        scheme = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            hierarchy = self.opaque
        else:
            path = self.escaped_path
            slash = "/" if path and not path.startswith("/") and self.host else ""
            hierarchy = (f"//{self.host}" if self.host else "") + slash + path
        fragment = f"#{_escape(self.fragment)}" if self.fragment else ""
        return scheme + hierarchy + (f"?{self.query}" if self.has_query else "") + fragment


def to_bytes_text(text: str) -> str:
    """Return the byte string of a text."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def to_text(bytes_text: str) -> str:
    """Return the text of a byte string."""
    return bytes_text.encode("latin-1").decode("utf-8", "replace")


def parse_url(text: str) -> Url:
    """Parse a URL or a reference, such as a path. Raises ValueError with Go's text."""
    rest, _, fragment = text.partition("#")
    if not _is_valid_escape(fragment):
        raise ValueError("invalid URL escape")
    url = _parse_without_fragment(rest)
    return url._replace(fragment=_unescape(fragment))


def url_of_action(scheme: str, host: str, path: str) -> Url:
    """Return the URL of an action's path, at this host (with its port). An invalid path is escaped as a whole."""
    try:
        url = parse_url(path)
    except ValueError:
        url = Url(path=path)
    if url.opaque:  # its text has no host
        return url._replace(scheme=scheme)
    url = url._replace(scheme=scheme, host=host)
    if url.escaped_path and not url.escaped_path.startswith("/"):
        # The text has a slash between host and path, and a request is made of the text.
        raw = f"/{url.escaped_path}"
        url = url._replace(path=_unescape(raw), raw_path=_raw(raw))
    return url


def resolve(base: Url, reference: Url) -> Url:
    """Return the URL that a reference, such as that of a redirect, means at `base` (RFC 3986, 5.2)."""
    scheme = reference.scheme or base.scheme
    if reference.scheme or reference.host:
        return _with_path(reference._replace(scheme=scheme), _without_dots(reference.escaped_path))
    if reference.opaque:
        return reference._replace(scheme=scheme)
    found = reference._replace(scheme=scheme, host=base.host)
    path = reference.escaped_path
    if not path and not reference.has_query:
        found = found._replace(query=base.query, has_query=base.has_query)
    if not path:
        path = base.escaped_path
    elif not path.startswith("/"):
        path = base.escaped_path.rpartition("/")[0] + "/" + path
    return _with_path(found, _without_dots(path))


def _parse_without_fragment(text: str) -> Url:
    if _find_control(text):
        raise ValueError("net/url: invalid control character in URL")
    if text == "*":
        return Url(path="*")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _match_scheme(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", text)
    rest, mark, query = rest.partition("?")
    url = Url(scheme=scheme, query=query, has_query=bool(mark))
    if not rest.startswith("/"):
        if scheme:
            return url._replace(opaque=rest)
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, rest = rest[2:].partition("/")
        url, rest = url._replace(host=_host_of(authority)), slash + rest
    return _with_path(url, rest)


def _host_of(authority: str) -> str:
    """Return the host of an authority, without a user's name, which probes do not send."""
    host = authority.rpartition("@")[2]
    if not _is_host(host) or not re.fullmatch(r"(?:\[[^][]*\]|[^][:]*)(?::[0-9]*)?", host):
        raise ValueError("invalid host")
    return host


def _with_path(url: Url, escaped: str) -> Url:
    if not _is_valid_escape(escaped):
        raise ValueError("invalid URL escape")
    return url._replace(path=_unescape(escaped), raw_path=_raw(escaped))


def _raw(escaped: str) -> str:
    return "" if escaped == _escape(_unescape(escaped)) else escaped


def _escape(text: str) -> str:
    return _find_escaped.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _unescape(text: str) -> str:
    return _find_escapes.sub(lambda match: chr(int(match[1], 16)), text)


def _without_dots(path: str) -> str:
    """Return an absolute path without its segments `.` and `..`."""
    if not path:
        return ""
    segments: list[str] = []
    parts = path.removeprefix("/").split("/")
    for part in parts:
        if part == "..":
            del segments[-1:]
        elif part != ".":
            segments.append(part)
    if parts[-1] in (".", "..") and segments and segments[-1]:
        segments.append("")
    return "/" + "/".join(segments)
