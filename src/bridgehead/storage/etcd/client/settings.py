"""Settings of the etcd client, and its endpoints.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from .errors import EtcdError

DEFAULT_PORT = 2379


class EtcdSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints and credentials of an etcd. `endpoints` are URLs, all http or all https."""

    endpoints: tuple[str, ...]
    ca_file: Path | None = None  # None: the system's authorities
    cert_file: Path | None = None  # of the client, with key_file
    key_file: Path | None = None
    user: str = ""
    password: str = ""
    timeout: float = 7.0  # seconds for one request at one member; etcd itself gives one up after 5 s and two elections


class Endpoint(msgspec.Struct, frozen=True):
    """A member's address: `url` as errors name it, `target` as gRPC wants it."""

    url: str
    target: str
    is_tls: bool


def parse_endpoints(settings: EtcdSettings) -> list[Endpoint]:
    """Return the endpoints of the settings, each once. Raises EtcdError for settings that cannot be used."""
    endpoints = [_parse_endpoint(url) for url in dict.fromkeys(settings.endpoints)]
    if not endpoints:
        raise EtcdError("etcd has no endpoint; give at least one URL, such as http://127.0.0.1:2379")
    if len({endpoint.is_tls for endpoint in endpoints}) > 1:
        raise EtcdError("the endpoints of etcd must be all http:// or all https://")
    if bool(settings.cert_file) != bool(settings.key_file):
        raise EtcdError("a client certificate for etcd needs both its certificate file and its key file")
    if not endpoints[0].is_tls and (settings.ca_file or settings.cert_file):
        raise EtcdError(f"{endpoints[0].url} is plain HTTP, for which certificates are of no use; give a https:// URL")
    if settings.password and not settings.user:
        raise EtcdError("a password for etcd needs a user")
    return endpoints


def _parse_endpoint(url: str) -> Endpoint:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme not in ("http", "https") or parts.path not in ("", "/") or parts.query:
        raise EtcdError(f"{url!r} is no endpoint of etcd; give a URL such as https://10.0.0.1:2379")
    if parts.username is not None:
        raise EtcdError(f"the endpoint {host}:{port} of etcd contains a user; set user and password beside it")
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Endpoint(f"{parts.scheme}://{target}", target, parts.scheme == "https")
