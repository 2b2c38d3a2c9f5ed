"""Manifests that tests apply: objects of texts, files and values, in an order in which they can be applied.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from bridgehead.yaml_loader import UnusableYaml, load_all

Json = dict[str, Any]

_FIRST: Final = ("Namespace", "CustomResourceDefinition")  # others need them


class UnusableManifest(ValueError):
    """A manifest that cannot be applied. The text is the reason, in one line."""


class Identity(NamedTuple):
    """The fields by which an object is applied. `group` is "" for the core group, `namespace` "" where none is set."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str


def parse_text(text: str | bytes) -> list[Json]:
    """Return the objects of YAML or JSON, with those of lists. Raises `UnusableManifest`."""
    try:
        documents = load_all(text)
    except UnusableYaml as error:
        raise UnusableManifest(str(error)) from None
    return flatten(document for document in documents if document is not None)


def flatten(documents: Iterable[object]) -> list[Json]:
    """Return the objects, with those of lists in the place of the lists. Raises `UnusableManifest`."""
    found: list[Json] = []
    for document in documents:
        if not isinstance(document, Mapping):
            raise UnusableManifest(f"an object has fields; this is {str(document)[:60]!r}")
        if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
            found += flatten(document["items"])
        else:
            found.append(dict(document))
    return found


def order(objects: Iterable[Json]) -> list[Json]:
    """Return the objects in an order in which each finds what it needs; otherwise as they were."""
    return sorted(objects, key=lambda each: _FIRST.index(each["kind"]) if each.get("kind") in _FIRST else len(_FIRST))


def identify(manifest: Json) -> Identity:
    """Return the identity of an object. Raises `UnusableManifest` if it has none."""
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    kind, api_version = manifest.get("kind"), manifest.get("apiVersion")
    if not (kind and api_version and isinstance(kind, str) and isinstance(api_version, str)):
        raise UnusableManifest(f"an object needs apiVersion and kind: {str(manifest)[:60]}")
    if not (name and isinstance(name, str)):
        raise UnusableManifest(f"a {kind} without metadata.name cannot be applied")
    assert isinstance(metadata, Mapping)  # noqa: S101 - it has a name
    group, _, version = api_version.rpartition("/")
    return Identity(group, version, kind, metadata.get("namespace") or "", name)
