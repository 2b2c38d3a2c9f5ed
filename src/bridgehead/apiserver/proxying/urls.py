"""URLs of proxied requests: the path behind the proxy, and links that lead back through the proxy.

Pure: no I/O, no clock, no randomness. Source: Kubernetes apimachinery `pkg/util/proxy` and Go's `net/url`.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit, urlunsplit

# The characters that Go leaves unescaped in a path.
_PATH_SAFE = "-_.~$&+,/:;=@"
# All that a query may contain, also what is escaped already. The rest are bytes that some clients do not escape.
_QUERY_SAFE = "".join(chr(code) for code in range(0x21, 0x7F))
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def join_path(*parts: str) -> str:
    """Join and clean paths as Go's path.Join does: no "..", no double slash, no slash at the end; "" for nothing."""
    joined = "/".join(part for part in parts if part)
    if not joined:
        return ""
    cleaned = posixpath.normpath(joined)
    return cleaned[1:] if cleaned.startswith("//") else cleaned


@dataclass(frozen=True, slots=True)
class ProxyPath:
    """The paths of a proxied request: `prefix` leads to the proxy and `path` to the page behind it, both unescaped."""

    prefix: str
    path: str

    @property
    def forwarded_uri(self) -> str:
        """The header X-Forwarded-Uri: the whole path as the client requested it."""
        joined = _CONTROL.sub(lambda match: quote(match.group()), join_path(self.prefix, self.path))
        return joined + "/" if self.path.endswith("/") and not joined.endswith("/") else joined

    def with_slash(self, query: bytes) -> str:
        """Return the URL with a slash at its end for a request without one."""
        return ProxyPath("", f"{self.prefix}/").escaped(query)

    def escaped(self, query: bytes) -> str:
        """Return the target of the request line for the server behind the proxy, in ASCII."""
        path = quote(self.path or "/", safe=_PATH_SAFE)
        return f"{path}?{quote(query, safe=_QUERY_SAFE)}" if query else path


def split_path(path: str, rest: str) -> ProxyPath:
    """Split a request's path. `rest` is what follows the subresource `proxy`, without slashes at its ends.

    `path` "" in the result means that a request ends in `/proxy`, without a slash.
    """
    location = join_path("/", rest) if rest or path.endswith("/") else ""
    suffix = location
    if path.endswith("/") and not location.endswith("/"):
        suffix = location + "/"
    return ProxyPath(path.removesuffix(suffix), suffix)


@dataclass(frozen=True, slots=True)
class Links:
    """The rule for links in an answer.

    Links to the page's own server get `prefix`. They are paths without a host, URLs with the host `target` (host:port
    behind the proxy) or `host` (the request's Host header).
    """

    prefix: str
    target: str
    host: str

    def rewrite(self, url: str) -> str:
        """Return the URL that leads through the proxy; `url` itself if it is relative or of another host."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return url
        if parts.netloc not in ("", self.target, self.host) or not parts.path.startswith("/"):
            return url
        scheme, netloc = (parts.scheme, parts.netloc) if parts.netloc == self.host else ("", "")
        path = parts.path
        if not unquote(path).startswith(self.prefix):
            path = join_path(quote(self.prefix, safe=_PATH_SAFE), path)
            if parts.path.endswith("/") and not path.endswith("/"):
                path += "/"
        elif (scheme, netloc) == (parts.scheme, parts.netloc):
            return url
        return urlunsplit((scheme, netloc, path, parts.query, parts.fragment))
