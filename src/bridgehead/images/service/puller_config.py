"""The puller's configuration, read with the rights of the user who started the lab: Docker's credentials, also those of
its credential helpers, and for each registry a hosts.toml."""

from __future__ import annotations

import logging
import os
import re
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.images.registry import hosts_toml
from bridgehead.images.registry.docker_config import (
    BadCredentials,
    Credential,
    helper_key,
    parse_helper_answer,
    parse_user_config,
)
from bridgehead.images.registry.hosts_toml import BadHosts, Endpoint

log = logging.getLogger(__name__)

_HOSTS_FILE = "hosts.toml"
_CERTIFICATES: Final = frozenset({".crt", ".cert", ".key"})
_MAX_FILE: Final = 1 << 20  # bytes
_HELPER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_HELPER_SECONDS: Final = 30.0
_NOT_FOUND: Final = "credentials not found"  # of docker-credential-helpers, for a registry without a login


class PullerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts` are endpoints by the directory's name; `credentials` those of the user's own Docker configuration, by its
    keys."""

    hosts: dict[str, tuple[Endpoint, ...]] = {}
    credentials: dict[str, Credential] = {}


def read_config(registries: Path, wanted: Iterable[str]) -> PullerConfig:
    """Read `registries`/REGISTRY/hosts.toml, or certificates there, and ~/.docker/config.json.

    Unusable files are logged and left out.
    `wanted` are the registries for which Docker's credential helpers are asked, which can take a while.
    """
    return PullerConfig(hosts=_read_hosts(registries), credentials=_read_credentials(wanted))


def _read_credentials(wanted: Iterable[str]) -> dict[str, Credential]:
    directory = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    path = Path(directory) / "config.json"
    try:
        found, helpers = parse_user_config(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, BadCredentials) as error:
        log.warning("the credentials in %s cannot be used: %s", path, error)
        return {}
    for registry in wanted:
        credential = _ask_helper(helpers.find(registry), registry)
        if credential is not None:
            found[registry] = credential
    return found


def _ask_helper(helper: str, registry: str) -> Credential | None:
    """Return the credential that a credential helper has for a registry, None if there is none."""
    if not _HELPER_NAME.fullmatch(helper):
        return None
    program = f"docker-credential-{helper}"
    try:
        result = subprocess.run(
            [program, "get"],
            input=helper_key(registry).encode(),
            capture_output=True,
            timeout=_HELPER_SECONDS,
            check=False,
        )
        if result.returncode == 0:
            return parse_helper_answer(result.stdout)
        reason = (result.stdout or result.stderr).decode("utf-8", "replace").strip()[:200]
    except (OSError, subprocess.TimeoutExpired, BadCredentials) as error:
        reason = str(error)
    if _NOT_FOUND not in reason:
        log.warning("%s has no credentials for %s: %s", program, registry, reason)
    return None


def _read_own(path: Path) -> str:
    """Read a file of this user or of root. Raises `BadHosts` for one of another user and for what is no small file.

    The directory is in the lab's state, and the lab must not choose to which server the user's credentials go, nor keep
    this process waiting.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        found = os.fstat(file.fileno())
        if found.st_uid not in (0, os.geteuid()):
            raise BadHosts(f"{path.name} belongs to another user")
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_FILE:
            raise BadHosts(f"{path.name} is no file of at most {_MAX_FILE} bytes")
        return file.read(_MAX_FILE).decode("utf-8")


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a named pipe without a writer would block


def _read_hosts(registries: Path) -> dict[str, tuple[Endpoint, ...]]:
    found = {}
    for directory in sorted(registries.glob("*/")):
        try:
            endpoints = _read_directory(directory)
        except (OSError, UnicodeDecodeError, BadHosts) as error:
            log.warning("%s is not used: %s", directory, error)
        else:
            if endpoints:
                found[directory.name] = endpoints
    return found


def _read_directory(directory: Path) -> tuple[Endpoint, ...]:
    """Return the servers of one registry, () where nothing is configured. Raises OSError, ValueError."""
    try:
        text = _read_own(directory / _HOSTS_FILE)
    except FileNotFoundError:
        names = [path.name for path in directory.glob("*.*") if path.suffix in _CERTIFICATES]
        return hosts_toml.hosts_of_certificates({name: _read_own(directory / name) for name in names})
    return hosts_toml.parse_hosts(text, {name: _read_own(directory / name) for name in hosts_toml.named_files(text)})
