"""Parsing and validation of an EncryptionConfiguration.

Pure: no I/O, no clock, no randomness.
Source: apiserver/pkg/apis/apiserver/validation/validation_encryption.go.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

_API_VERSION, _KIND = "apiserver.config.k8s.io/v1", "EncryptionConfiguration"
_KEY_BYTES = {"aesgcm": (16, 24, 32), "aescbc": (16, 24, 32), "secretbox": (32,)}
_NOT_STORED = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")


class InvalidConfiguration(ValueError):
    """A configuration that is refused; the text is one line and shows no key."""


class _Key(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    secret: str = ""


class _Keys(msgspec.Struct, forbid_unknown_fields=True):
    keys: list[_Key] = []


class _Provider(msgspec.Struct, forbid_unknown_fields=True):
    aesgcm: _Keys | None = None
    aescbc: _Keys | None = None
    secretbox: _Keys | None = None
    identity: dict[str, Any] | None = None
    kms: dict[str, Any] | None = None

    def given(self) -> list[str]:
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]


class _Resources(msgspec.Struct, forbid_unknown_fields=True):
    resources: list[str] = []
    providers: list[_Provider] = []


class _Configuration(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    resources: list[_Resources] = []


@dataclass(frozen=True, slots=True)
class CipherKey:
    """One key of a provider: `provider` is aesgcm, aescbc, secretbox, or identity, which has no name and no secret."""

    provider: str
    name: str = ""
    secret: bytes = b""


@dataclass(frozen=True, slots=True)
class Rule:
    """Resources and their keys, in the order of the file. `resources` are (group, resource); "*" is any."""

    resources: tuple[tuple[str, str], ...]
    keys: tuple[CipherKey, ...]


def parse_configuration(document: Any) -> tuple[Rule, ...]:
    """Return the rules of a decoded file. Raises `InvalidConfiguration`."""
    try:
        given = msgspec.convert(document, _Configuration)
    except msgspec.ValidationError as error:
        raise InvalidConfiguration(f"not an {_KIND}: {error}") from error
    if (given.api_version, given.kind) != (_API_VERSION, _KIND):
        raise InvalidConfiguration(
            f"must be of kind {_KIND} and apiVersion {_API_VERSION}, "
            f"not {json.dumps(given.kind)} and {json.dumps(given.api_version)}"
        )
    problems = list(_problems(given))
    if problems:
        raise InvalidConfiguration(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return tuple(
        Rule(tuple(map(_parsed, entry.resources)), tuple(_keys_of(entry.providers))) for entry in given.resources
    )


def _keys_of(providers: Sequence[_Provider]) -> Iterator[CipherKey]:
    for provider in providers:
        (name,) = provider.given()
        if name == "identity":
            yield CipherKey(name)
            continue
        for key in getattr(provider, name).keys:
            yield CipherKey(name, key.name, base64.b64decode(key.secret))


def _parsed(resource: str) -> tuple[str, str]:
    """Return (group, resource) of `deployments.apps`."""
    name, _, group = resource.partition(".")
    return group, name


def _problems(given: _Configuration) -> Iterator[str]:
    if not given.resources:
        yield "resources: Required value: at least one resources is required"
    for index, entry in enumerate(given.resources):
        path = f"resources[{index}].resources"
        if not entry.resources:
            yield f"{path}: Required value: at least one {path} is required"
        yield from _overlaps(path, entry.resources)
        for number, resource in enumerate(entry.resources):
            if why := _why_not(resource):
                yield _invalid(f"{path}[{number}]", resource, why)
        path = f"resources[{index}].providers"
        if not entry.providers:
            yield f"{path}: Required value: at least one {path} is required"
        for number, provider in enumerate(entry.providers):
            yield from _provider_problems(f"{path}[{number}]", provider)


def _overlaps(path: str, resources: list[str]) -> Iterator[str]:
    parsed = [_parsed(resource) for resource in resources]
    if len(set(parsed)) < len(parsed):
        yield _invalid(path, resources, "the same resource cannot be specified multiple times")
    distinct = set(parsed)
    if any(
        one != other and (one == ("*", "*") or (one[0] == other[0] and one[1] == "*"))
        for one in distinct
        for other in distinct
    ):
        why = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed"
        yield _invalid(path, resources, f"{why} as they will be masked")


def _why_not(resource: str) -> str:
    """Return why a resource can't be encrypted, or ""."""
    group, name = _parsed(resource)
    if resource != resource.lower():
        return "resource name should not contain capital letters"
    if resource == "*":
        return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
    if resource in _NOT_STORED:
        return "resources which do not have REST API/s cannot be encrypted"
    if group == "events.k8s.io":
        return (
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. "
            "Use 'events' instead in the config file"
        )
    if group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if group == "*" and name != "*":
        return "encrypting the same resource across groups is not supported"
    return ""


def _provider_problems(path: str, provider: _Provider) -> Iterator[str]:
    given = provider.given()
    if not given:
        why = "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
        yield _invalid(path, {}, why)
    elif len(given) > 1:
        why = "more than one provider specified in a single element, should split into different list elements"
        yield _invalid(path, given, why)
    elif given[0] == "kms":
        yield f"{path}.kms: Forbidden: this server has no KMS client; use aesgcm, aescbc or secretbox"
    elif given[0] != "identity":
        yield from _key_problems(f"{path}.{given[0]}.keys", getattr(provider, given[0]).keys, _KEY_BYTES[given[0]])


def _key_problems(path: str, keys: Sequence[_Key], sizes: tuple[int, ...]) -> Iterator[str]:
    if not keys:
        yield f"{path}: Required value: at least one keys is required"
    for index, key in enumerate(keys):
        if not key.name:
            yield f"{path}[{index}].name: Required value: name is a mandatory field for a key"
        where = f"{path}[{index}].secret"
        if not key.secret:
            yield f"{where}: Required value: secret is a mandatory field for a key"
            continue
        try:
            size = len(base64.b64decode(key.secret, validate=True))
        except (binascii.Error, ValueError):
            yield _invalid(where, "REDACTED", "secrets must be base64 encoded")
            continue
        if size not in sizes:
            wanted = " ".join(map(str, sizes))
            why = f"secret is not of the expected length, got {size}, expected one of [{wanted}]"
            yield _invalid(where, "REDACTED", why)


def _invalid(path: str, value: Any, why: str) -> str:
    return f"{path}: Invalid value: {json.dumps(value, separators=(',', ':'))}: {why}"
