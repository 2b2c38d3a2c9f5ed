"""The servers that have the images of a registry: mirrors, plain and unverified connections, as in containerd's
hosts.toml.

Pure: no I/O, no clock, no randomness. Source: containerd, docs/hosts.md.
"""

from __future__ import annotations

import tomllib
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

_DEFAULT_SERVERS: Final = {"docker.io": "https://registry-1.docker.io"}
PULL: Final = "pull"
RESOLVE: Final = "resolve"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One server that has the images of a registry. `url` is the base of its API, as `https://mirror.example/v2`.

    `capabilities`: "resolve" (tags to digests), "pull" (content by digest). `ca` are certificates in PEM form, "" for
    the system's. `clients` are this side's own certificates, each with its key, in PEM form.
    """

    url: str
    capabilities: frozenset[str] = frozenset({PULL, RESOLVE})
    skip_verify: bool = False
    ca: str = ""
    clients: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()


class BadHosts(ValueError):
    """The file is not a hosts.toml."""


def is_loopback(host: str) -> bool:
    """Whether a host (without port) is this machine itself. No name but `localhost` is resolved for that."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def describe_offline(host: str) -> str:
    """Return the reason why a lab that is offline does not ask a registry."""
    return f"the lab is offline: it asks no registry but those on this machine, and not {host}"


def default_endpoint(registry: str) -> Endpoint:
    """Return the registry itself. Plain HTTP is for this machine's loopback only, as in containerd."""
    server = _DEFAULT_SERVERS.get(registry)
    if server is None:
        host = urlsplit(f"//{registry}").hostname or registry
        scheme = "http" if is_loopback(host) and not registry.endswith(":443") else "https"
        server = f"{scheme}://{registry}"
    return Endpoint(url=f"{server}/v2")


def is_mirror(endpoint: Endpoint, registry: str) -> bool:
    """Whether an endpoint is another server than the registry itself."""
    return urlsplit(endpoint.url).netloc not in (registry, urlsplit(_DEFAULT_SERVERS.get(registry, "")).netloc)


def parse_hosts(text: str, registry: str, read: dict[str, str]) -> tuple[Endpoint, ...]:
    """Parse a hosts.toml for a registry: its mirrors in their order, then the server itself.

    `read` has the contents of the files that it may name, by their names. Raises `BadHosts`.
    """
    try:
        document = tomllib.loads(text)
        hosts = [_endpoint(url, settings, read) for url, settings in document.get("host", {}).items()]
        server = document.get("server")
        if server:
            own = {key: value for key, value in document.items() if key not in ("server", "host")}
            last = _endpoint(str(server), own, read)
        else:
            last = default_endpoint(registry)
    except (tomllib.TOMLDecodeError, AttributeError, TypeError) as error:
        raise BadHosts(str(error)) from error
    return (*hosts, last)


def named_files(text: str) -> list[str]:
    """Return the names of the files with certificates and keys in a hosts.toml. Raises `BadHosts`."""
    try:
        document = tomllib.loads(text)
        tables = (document, *document.get("host", {}).values())
        return [name for table in tables for name in (*_names(table.get("ca")), *sum(_clients(table), ()))]
    except (tomllib.TOMLDecodeError, AttributeError) as error:
        raise BadHosts(str(error)) from error


def _endpoint(url: str, settings: dict[str, Any], read: dict[str, str]) -> Endpoint:
    parts = urlsplit(url if "://" in url else f"https://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadHosts(f"{url!r} is not the URL of a host")
    path = parts.path.rstrip("/")
    if not (settings.get("override_path") or path.endswith("/v2")):
        path += "/v2"
    headers = [
        (str(name), str(value))
        for name, values in settings.get("header", {}).items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return Endpoint(
        url=f"{parts.scheme}://{parts.netloc}{path}",
        capabilities=frozenset(settings.get("capabilities") or (PULL, RESOLVE)),
        skip_verify=bool(settings.get("skip_verify")),
        ca="\n".join(read[name] for name in _names(settings.get("ca")) if name in read),
        clients=tuple("\n".join(read[name] for name in names if name in read) for names in _clients(settings)),
        headers=tuple(headers),
    )


def _clients(settings: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the files of each client certificate: one that has the key too, or two."""
    value = settings.get("client")
    entries = value if isinstance(value, list) else _names(value)
    return [tuple(name for name in _names(entry) if name) for entry in entries]


def _names(value: object) -> list[str]:
    if value is None:
        return []
    return [str(name) for name in value] if isinstance(value, list) else [str(value)]
