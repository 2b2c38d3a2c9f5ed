"""The puller's configuration, read with the rights of the user who starts the lab: Docker's credentials, and for each
registry a hosts.toml."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from bridgehead.images.registry import hosts
from bridgehead.images.registry.credentials import BadCredentials, Credential, parse_docker_config
from bridgehead.images.registry.hosts import BadHosts, Endpoint

log = logging.getLogger(__name__)

_HOSTS_FILE = "hosts.toml"
_DEFAULT = "_default"


class PullerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts` are endpoints by registry; `credentials` those of the user's own Docker configuration, by its keys."""

    is_offline: bool = False
    hosts: dict[str, tuple[Endpoint, ...]] = {}
    credentials: dict[str, Credential] = {}


def read_config(registries: Path, *, is_offline: bool) -> PullerConfig:
    """Read `registries`/REGISTRY/hosts.toml and ~/.docker/config.json. Unusable files are logged and left out."""
    return PullerConfig(is_offline=is_offline, hosts=_read_hosts(registries), credentials=_read_credentials())


def _read_credentials() -> dict[str, Credential]:
    directory = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    path = Path(directory) / "config.json"
    try:
        return parse_docker_config(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, BadCredentials) as error:
        log.warning("the credentials in %s cannot be used: %s", path, error)
        return {}


def _read_hosts(directory: Path) -> dict[str, tuple[Endpoint, ...]]:
    found = {}
    for path in sorted(directory.glob(f"*/{_HOSTS_FILE}")):
        registry = path.parent.name
        try:
            text = path.read_text("utf-8")
            certificates = {name: (path.parent / name).read_text("utf-8") for name in hosts.named_certificates(text)}
            endpoints = hosts.parse_hosts(text, registry, certificates)
        except (OSError, UnicodeDecodeError, BadHosts) as error:
            log.warning("%s is not used: %s", path, error)
            continue
        # The default's mirrors have no server of their own: it is that of each image's registry.
        found[registry] = endpoints[:-1] if registry == _DEFAULT else endpoints
    return found
