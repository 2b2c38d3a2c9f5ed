"""Warnings about volumes: types that no longer work, and files at the same path.

Called by `pod_warnings`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `warningsForPodSpecAndMeta`,
`warningsForOverlappingVirtualPaths`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.claim_validation import warn_of_claim_spec

_DEPRECATED = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
# Kubernetes spells this one differently in its warning.
_SHOWN = {"storageos": "storageOS"}
# type of a volume -> what it is called, and the field with the name of its source
_KEYED = {"configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName"), "downwardAPI": ("DownwardAPI", "")}
_PROJECTED = {"configMap": "ConfigMap", "secret": "Secret", "downwardAPI": "DownwardAPI"}

# More than an answer shows.
_MAX_OVERLAPS = 300

# A path without its trailing slashes, and how a warning shows it.
File = tuple[str, str]


def warn_of_volumes(path: str, volumes: Sequence[JsonObject]) -> list[str]:
    warnings = []
    for index, volume in enumerate(volumes):
        item = f"{path}[{index}]"
        warnings += [f"{item}.{_SHOWN.get(kind, kind)}: {_DEPRECATED[kind]}" for kind in volume if kind in _DEPRECATED]
        if "ephemeral" in volume:
            template = volume["ephemeral"].get("volumeClaimTemplate", {})
            warnings += warn_of_claim_spec(f"{item}.ephemeral.volumeClaimTemplate.spec", template.get("spec", {}))
    for volume in volumes:
        warnings += _warn_of_files(volume)
    return warnings


def _warn_of_files(volume: JsonObject) -> list[str]:
    """Warn of files that hide others of the same volume."""
    name = volume.get("name", "")
    for kind, (title, key) in _KEYED.items():
        if items := volume.get(kind, {}).get("items"):
            source = f'{title} "{volume[kind].get(key, "")}"' if key else title
            return _overlaps(f'volume "{name}" ({source})', _files(items, ""))
    projected = volume.get("projected")
    if projected is None:
        return []
    files: list[File] = []
    warnings = []
    for source in projected.get("sources", ()):
        if not source:
            warnings.append(f'volume "{name}" (Projected) has no sources provided')
        files += _projected_files(source)
    return [*warnings, *_overlaps(f'volume "{name}" (Projected)', files)]


def _projected_files(source: JsonObject) -> list[File]:
    for kind, title in _PROJECTED.items():
        if items := source.get(kind, {}).get("items"):
            own = title if kind == "downwardAPI" else f'{title} "{source[kind].get("name", "")}"'
            return _files(items, f" ({own})")
    if "serviceAccountToken" in source:
        return _files([source["serviceAccountToken"]], " (ServiceAccountToken)")
    return []


def _files(items: Sequence[JsonObject], source: str) -> list[File]:
    paths = [item.get("path", "").rstrip("/") for item in items]
    return [(path, f'"{path}"{source}') for path in paths]


def _overlaps(title: str, files: Sequence[File]) -> list[str]:
    # Sorted like this, the files below a path follow it at once.
    by_path = sorted((f"{path}/", index) for index, (path, _) in enumerate(files) if path)
    pairs: list[tuple[int, int]] = []
    above: list[tuple[str, int]] = []
    for path, index in by_path:
        while above and not path.startswith(above[-1][0]):
            above.pop()
        pairs += [(max(index, other), min(index, other)) for _, other in above[:_MAX_OVERLAPS]]
        if len(pairs) >= _MAX_OVERLAPS:
            break
        above.append((path, index))
    return [f"{title}: overlapping paths: {files[index][1]} with {files[other][1]}" for index, other in sorted(pairs)]
