"""The servers that have the images of a registry: mirrors, plain and unverified connections, as in containerd's
hosts.toml.

Pure: no I/O, no clock, no randomness. Source: containerd, docs/hosts.md.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec

DEFAULT: Final = "_default"  # the directory for registries without one of their own
_DEFAULT_SERVERS: Final = {"docker.io": "https://registry-1.docker.io"}
PULL: Final = "pull"
RESOLVE: Final = "resolve"
_CAPABILITIES: Final = frozenset({PULL, RESOLVE, "push", "referrers"})


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One server that has the images of a registry. `url` is the base of its API, as `https://mirror.example/v2`; ""
    is the registry itself.

    `capabilities`: "resolve" (tags to digests), "pull" (content by digest). `ca` are certificates in PEM form, "" for
    the system's. `clients` are this side's own certificates, each with its key, in PEM form. `may_be_plain`: a server
    that does not speak TLS is asked by HTTP.
    """

    url: str
    capabilities: frozenset[str] = frozenset({PULL, RESOLVE})
    skip_verify: bool = False
    ca: str = ""
    clients: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    may_be_plain: bool = False


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
    """Return the registry itself.

    As in containerd, the certificate of one on this machine's loopback is not verified, and only there plain HTTP will
    do: on port 80 at once, on other ports but 443 if the server does not speak TLS.
    """
    url = f"{_DEFAULT_SERVERS.get(registry, f'https://{registry}')}/v2"
    if not is_loopback(_host(url)):
        return Endpoint(url=url)
    port = registry.rpartition(":")[2]
    if port == "80":
        return Endpoint(url=f"http://{registry}/v2")
    return Endpoint(url=url, skip_verify=True, may_be_plain=port.isdecimal() and port != "443")


def endpoints_for(registry: str, configured: Mapping[str, Sequence[Endpoint]]) -> tuple[Endpoint, ...]:
    """Return the servers to try for a registry, in their order. `configured`: those of each directory, by its name."""
    own = default_endpoint(registry)
    host, _, port = registry.rpartition(":")
    names = (f"{host}_{port}_", registry, DEFAULT)  # without the colon, which some file systems refuse
    found = next((configured[name] for name in names if name in configured), (own,))
    return tuple(each if each.url else _completed(each, own) for each in found)


def token_server(realm: str, endpoint: Endpoint) -> Endpoint:
    """Return the token server at the URL `realm`, which an endpoint names; the endpoint's headers are not for it.

    An endpoint that is not verified has a token server that is not verified either, as in containerd, but not an
    endpoint on loopback that names a server elsewhere.
    """
    is_elsewhere = is_loopback(_host(endpoint.url)) and not is_loopback(_host(realm))
    skip_verify = endpoint.skip_verify and not is_elsewhere
    return Endpoint(url=realm, skip_verify=skip_verify, ca=endpoint.ca, clients=endpoint.clients)


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _completed(endpoint: Endpoint, own: Endpoint) -> Endpoint:
    """Return the settings of a file that names no server, with the registry itself as the server."""
    return msgspec.structs.replace(
        endpoint, url=own.url, skip_verify=endpoint.skip_verify or own.skip_verify, may_be_plain=own.may_be_plain
    )


def is_mirror(endpoint: Endpoint, registry: str) -> bool:
    """Whether an endpoint is another server than the registry itself."""
    return urlsplit(endpoint.url).netloc not in (registry, urlsplit(_DEFAULT_SERVERS.get(registry, "")).netloc)


class _Settings(msgspec.Struct, frozen=True):
    """The settings of one host. `client`: certificates, each with its key in the same file or in a second one."""

    capabilities: tuple[str, ...] = ()
    skip_verify: bool = False
    override_path: bool = False
    ca: str | tuple[str, ...] = ()
    client: str | tuple[str | tuple[str, ...], ...] = ()
    header: dict[str, str | tuple[str, ...]] = {}


class _HostsFile(_Settings, frozen=True):
    server: str = ""
    host: dict[str, _Settings] = {}


def parse_hosts(text: str, read: dict[str, str]) -> tuple[Endpoint, ...]:
    """Parse a hosts.toml: its mirrors in their order, then the server itself, "" if the file names none.

    `read` has the contents of the files that it may name, by their names. Raises `BadHosts`.
    """
    file = _parse(text)
    hosts = [_endpoint(url, settings, read) for url, settings in file.host.items()]
    return (*hosts, _endpoint(file.server, file, read))


def hosts_of_certificates(files: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Return the registry itself, with certificates as Docker has them in `certs.d`: NAME.crt of authorities, NAME.cert
    with NAME.key of this side. `files`: their contents, by their names. Returns () without such files.
    """
    authorities = [files[name] for name in sorted(files) if name.endswith(".crt")]
    own = [(name, f"{name.removesuffix('.cert')}.key") for name in sorted(files) if name.endswith(".cert")]
    clients = tuple(f"{files[name]}\n{files[key]}" for name, key in own if key in files)
    return (Endpoint(url="", ca="\n".join(authorities), clients=clients),) if authorities or clients else ()


def named_files(text: str) -> list[str]:
    """Return the names of the files with certificates and keys in a hosts.toml. Raises `BadHosts`."""
    file = _parse(text)
    tables = (file, *file.host.values())
    return [name for table in tables for name in (*_several(table.ca), *sum(_clients(table), ()))]


def _parse(text: str) -> _HostsFile:
    try:
        return msgspec.convert(tomllib.loads(text), _HostsFile)
    except (tomllib.TOMLDecodeError, RecursionError, msgspec.ValidationError) as error:
        raise BadHosts(str(error)) from error


def _endpoint(url: str, settings: _Settings, read: dict[str, str]) -> Endpoint:
    capabilities = frozenset(each.lower() for each in settings.capabilities)
    if unknown := capabilities - _CAPABILITIES:
        raise BadHosts(f"unknown capability {min(unknown)!r}")
    return Endpoint(
        url=_base(url, settings) if url else "",
        capabilities=capabilities & {PULL, RESOLVE} if url and capabilities else frozenset({PULL, RESOLVE}),
        skip_verify=settings.skip_verify,
        ca="\n".join(read[name] for name in _several(settings.ca) if name in read),
        clients=tuple("\n".join(read[name] for name in names if name in read) for names in _clients(settings)),
        # Names get one spelling, because aiohttp sends only the last of those that differ only in case.
        headers=tuple((name.title(), value) for name, values in settings.header.items() for value in _several(values)),
    )


def _base(url: str, settings: _Settings) -> str:
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        is_host = parts.scheme in ("http", "https") and parts.hostname
    except ValueError:  # half of the brackets of an IPv6 address
        is_host = None
    if not is_host:
        raise BadHosts(f"{url!r} is not the URL of a host")
    path = parts.path.rstrip("/")
    if not (settings.override_path or path.endswith("/v2")):
        path += "/v2"
    # As in containerd without user and password, which credentials have: messages show the URL.
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


def _clients(settings: _Settings) -> list[tuple[str, ...]]:
    """Return the files of each client certificate: one that has the key too, or two."""
    entries = (settings.client,) if isinstance(settings.client, str) else settings.client
    return [names for entry in entries if (names := tuple(filter(None, _several(entry))))]


def _several(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value
