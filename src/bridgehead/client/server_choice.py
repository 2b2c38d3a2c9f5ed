"""The API servers of one client: which one it uses, and which one next.

All of them serve the same objects. A client stays at a server as long as that answers. Clients begin at different
servers, each always at the same one: the order is a hash of the client and the server (rendezvous hashing), so that a
server that is added or removed moves the fewest clients.

Pure: no I/O, no clock, no randomness. Times are in seconds, on the caller's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import urlsplit

MOST_SERVERS = 16
# Of a cluster in a kubeconfig, with the URLs of its servers: `{"servers": ["https://HOST:PORT", ...]}`.
SERVERS_EXTENSION = "bridgehead.io/servers"
# A server that has failed is not preferred to others for this long.
FAILED_SECONDS = 10.0


class ServerChoice:
    """The choice among `servers`, URLs, of the client that `client` names."""

    def __init__(self, servers: Sequence[str], client: str) -> None:
        self.servers = tuple(sorted(servers, key=lambda server: sha256(f"{client} {server}".encode()).digest()))
        self.current = self.servers[0]
        self._failed_at: dict[str, float] = {}

    def has_other(self, now: float) -> bool:
        """Whether there is another server than the current one that has not failed lately."""
        return any(server != self.current and not self._has_failed(server, now) for server in self.servers)

    def on_failure(self, server: str, now: float, *, timed_out: bool = False) -> bool:
        """Record that a server did not answer. Return whether there is another one that has not failed lately.

        The server that has not failed for the longest time becomes the current one, if `server` was. A client stays at
        its server if a request only `timed_out`: the server may need longer for this request alone.
        """
        if timed_out or len(self.servers) == 1:
            return False
        self._failed_at[server] = now
        if server == self.current:
            self.current = min(self.servers, key=lambda one: self._failed_at.get(one, float("-inf")))
        return not self._has_failed(self.current, now)

    def on_answer(self, server: str) -> None:
        """Record that a server answers."""
        self._failed_at.pop(server, None)

    def use(self, server: str) -> None:
        """Make a server that answers the current one."""
        self.on_answer(server)
        self.current = server

    def _has_failed(self, server: str, now: float) -> bool:
        return now - self._failed_at.get(server, float("-inf")) < FAILED_SECONDS


def parse_servers(urls: Sequence[object]) -> tuple[str, ...]:
    """Return the URLs of equal API servers, each once and without a trailing slash. Raises ValueError."""
    found: dict[str, None] = {}
    for url in urls:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or not _host(url):
            raise ValueError(f"server {url!r} is not an http or https URL")
        found[url.rstrip("/")] = None
    if len(found) > MOST_SERVERS:
        raise ValueError(f"{len(found)} servers are more than {MOST_SERVERS}")
    if len({url.partition(":")[0] for url in found}) > 1:  # credentials are for https only
        raise ValueError("all servers must be http, or all https")
    return tuple(found)


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.port != 0 else None
    except ValueError:
        return None
