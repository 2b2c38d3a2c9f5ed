"""The API's definitions: Kubernetes' JSON schemas, which the build writes beside this module (hatch_build.py).

The server reads them lazily from a mapping of the file; documents of the whole API and tests load all of them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from bridgehead.apiserver.resource import JsonObject

VERSION = "v1.36.0-local"  # the build takes the definitions of this version
DEFINITIONS = Path(__file__).with_name("definitions.json")
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_KINDS = "x-kubernetes-group-version-kind"

# Fields of alpha features, whose gates are off: what they contain is not stored.
ALPHA_FIELDS = {
    "io.k8s.api.core.v1.NodeAllocatableResourceClaimStatus": ("resources",),
    "io.k8s.api.resource.v1.Device": ("nodeAllocatableResourceMappings",),
}


def load_definitions() -> dict[str, JsonObject]:
    """Return definitions by name (`io.k8s.api.core.v1.Service`), with references as `#/$defs/<name>`."""
    definitions: dict[str, JsonObject] = msgspec.json.decode(DEFINITIONS.read_bytes())["$defs"]
    for name, fields in ALPHA_FIELDS.items():
        _drop_fields(definitions[name], fields)
    return definitions


def _drop_fields(definition: JsonObject, fields: Iterable[str]) -> None:
    for field in fields:
        definition["properties"].pop(field, None)


class _DefinitionsFile(msgspec.Struct):
    definitions: dict[str, msgspec.Raw] = msgspec.field(name="$defs")


@cache
def _mapped_definitions() -> mmap.mmap:
    with DEFINITIONS.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@cache
def _encoded_definitions() -> dict[str, msgspec.Raw]:
    """Return the definitions' text, which stays in the file: as bytes of this process it would need 1.7 MiB."""
    mapped = _mapped_definitions()
    definitions = msgspec.json.decode(mapped, type=_DefinitionsFile).definitions
    mapped.madvise(mmap.MADV_DONTNEED)  # pages that are read again come from the system's cache
    return definitions


class _Kinds(msgspec.Struct):
    """A definition's kinds; decoding skips all else."""

    kinds: list[dict[str, str]] = msgspec.field(name=_KINDS, default_factory=list)


class LazyDefinitions(Mapping[str, JsonObject]):
    """The definitions of `load_definitions`, each decoded when it is read: most are never used, and all need 10 MiB."""

    def __init__(self) -> None:
        self._encoded = _encoded_definitions()

    def __getitem__(self, name: str) -> JsonObject:
        definition: JsonObject = msgspec.json.decode(self._encoded[name])
        _drop_fields(definition, ALPHA_FIELDS.get(name, ()))
        return definition

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)


def definitions_by_kind(definitions: Mapping[str, JsonObject]) -> Mapping[tuple[str, str, str], str]:
    """Return the names of definitions by group, version and kind."""
    if isinstance(definitions, LazyDefinitions):
        return _encoded_by_kind()
    return _by_kind((name, definition.get(_KINDS, [])) for name, definition in definitions.items())


@cache
def _encoded_by_kind() -> Mapping[tuple[str, str, str], str]:
    encoded = _encoded_definitions().items()
    kinds = _by_kind((name, msgspec.json.decode(text, type=_Kinds).kinds) for name, text in encoded)
    _mapped_definitions().madvise(mmap.MADV_DONTNEED)
    return kinds


def _by_kind(kinds: Iterable[tuple[str, list[dict[str, str]]]]) -> Mapping[tuple[str, str, str], str]:
    return {(gvk["group"], gvk["version"], gvk["kind"]): name for name, its in kinds for gvk in its}
