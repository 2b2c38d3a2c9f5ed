"""Credentials for registries, from Docker's configuration files.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Pull an Image from a Private Registry" and
`k8s.io/kubernetes/pkg/credentialprovider`: the keys of `auths` are matched by parts of the host name, which may have
wildcards, and by a prefix of the path; the most specific key comes first.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from bridgehead.images.references import Reference
from bridgehead.images.untrusted_json import InvalidJson, decode

_TOKEN_USER: Final = "<token>"  # a helper's secret is then an identity token
_DOCKER_HUB: Final = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """`identity_token` is a refresh token for the token server, `registry_token` a bearer token for the registry."""

    username: str = ""
    password: str = ""
    identity_token: str = ""
    registry_token: str = ""


def fingerprint(credential: Credential) -> str:
    """Return a hash by which a credential can be recognized."""
    return hashlib.sha256(msgspec.json.encode(credential)).hexdigest()


class _Entry(msgspec.Struct, frozen=True):
    username: str = ""
    password: str = ""
    auth: str = ""
    identity_token: str = msgspec.field(name="identitytoken", default="")
    registry_token: str = msgspec.field(name="registrytoken", default="")


class _ConfigFile(msgspec.Struct, frozen=True):
    auths: dict[str, _Entry] | None = None


class Helpers(msgspec.Struct, frozen=True):
    """The credential helpers of a Docker configuration: the one for all registries, and those for single ones."""

    store: str = msgspec.field(name="credsStore", default="")
    by_registry: dict[str, str] = msgspec.field(name="credHelpers", default_factory=dict)

    def find(self, registry: str) -> str:
        """Return the name of the helper for a registry, "" for none."""
        keys = (helper_key(registry), registry)
        return next((self.by_registry[key] for key in keys if key in self.by_registry), self.store)


class _UserConfigFile(Helpers, frozen=True):
    auths: dict[str, _Entry] | None = None


class _HelperAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    username: str = ""
    secret: str = ""


class BadCredentials(ValueError):
    """The text is not a Docker configuration."""


Keyring = Mapping[str, Credential]


def parse_docker_config(text: bytes, *, is_legacy: bool = False) -> dict[str, Credential]:
    """Parse `.dockerconfigjson`, or with `is_legacy` `.dockercfg`; by the keys of `auths`.

    Raises `BadCredentials`.
    """
    try:
        return _credentials(decode(text, dict[str, _Entry]) if is_legacy else decode(text, _ConfigFile).auths)
    except InvalidJson as error:
        raise BadCredentials(str(error)) from error


def parse_user_config(text: bytes) -> tuple[dict[str, Credential], Helpers]:
    """Parse the credentials, by the keys of `auths`, and the helpers in ~/.docker/config.json.

    Raises `BadCredentials`.
    """
    try:
        file = decode(text, _UserConfigFile)
    except InvalidJson as error:
        raise BadCredentials(str(error)) from error
    return _credentials(file.auths), file


def helper_key(registry: str) -> str:
    """Return the name under which Docker's helpers have the credentials for a registry."""
    return "https://index.docker.io/v1/" if registry in _DOCKER_HUB else registry


def parse_helper_answer(text: bytes) -> Credential:
    """Parse what `docker-credential-HELPER get` prints. Raises `BadCredentials`."""
    try:
        answer = decode(text, _HelperAnswer)
    except InvalidJson as error:
        raise BadCredentials(str(error)) from error
    if answer.username == _TOKEN_USER:
        return Credential(identity_token=answer.secret)
    return Credential(username=answer.username, password=answer.secret)


def _credentials(auths: Mapping[str, _Entry] | None) -> dict[str, Credential]:
    """Raises `BadCredentials`."""
    try:
        # With a helper, Docker writes entries that are empty.
        return {key: _credential(entry) for key, entry in (auths or {}).items() if entry != _Entry()}
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadCredentials(str(error)) from error


def _credential(entry: _Entry) -> Credential:
    username, password = entry.username, entry.password
    if entry.auth:
        padding = "" if entry.auth.rstrip().endswith("=") else "=="  # may be missing, as in kubelets
        decoded = base64.b64decode(entry.auth + padding).decode().rstrip("\0")
        username, colon, password = decoded.partition(":")
        if not colon:
            raise BadCredentials("unable to parse auth field, must be formatted as base64(username:password)")
    return Credential(
        username=username,
        password=password,
        identity_token=entry.identity_token,
        registry_token=entry.registry_token,
    )


def find_credentials(keyrings: Iterable[Keyring], reference: Reference) -> list[Credential]:
    """Return the credentials for an image, those of earlier keyrings first, in each the most specific key first."""
    found = []
    for keyring in keyrings:
        keys = sorted(keyring, key=_split_key, reverse=True)
        found += [keyring[key] for key in keys if _matches(_split_key(key), reference)]
    return list(dict.fromkeys(found))


def _split_key(key: str) -> tuple[str, str]:
    """The host with its port, and the path, of a key as `https://index.docker.io/v1/` or `*.example.com:5000/team`."""
    host, _, path = key.partition("://")[2].partition("/") if "://" in key else key.partition("/")
    version, _, rest = path.strip("/").partition("/")
    path = rest if version in ("v1", "v2") else path.strip("/")  # a URL of the registry's API
    return ("docker.io" if host in _DOCKER_HUB else host), path


def _matches(key: tuple[str, str], reference: Reference) -> bool:
    (pattern, _, pattern_port), (host, _, port) = key[0].partition(":"), reference.registry.partition(":")
    parts, wanted = pattern.split("."), host.split(".")
    if pattern_port != port or len(parts) != len(wanted):
        return False
    if not all(fnmatchcase(part, glob) for part, glob in zip(wanted, parts, strict=True)):
        return False
    return not key[1] or f"{reference.path}/".startswith(f"{key[1]}/")
