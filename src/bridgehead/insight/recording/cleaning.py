"""Removal of what may be a secret, and of what nobody needs, from an object before it is recorded.

Values of environment variables, commands, arguments and HTTP headers of probes are left out, because passwords are
often there; references to Secrets stay, as references. Secrets themselves are never read.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_LEFT_OUT = frozenset(("managedFields", "command", "args", "httpHeaders", "lastState", "nodeInfo", "images"))
_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"  # has a copy of everything that is left out
_CONTAINERS = frozenset(("containers", "initContainers", "ephemeralContainers"))


def cleaned(obj: Json) -> Json:
    """Return a copy of an object without these fields."""
    result: Json = _cleaned(obj)
    metadata = result.get("metadata")
    if isinstance(metadata, dict):
        _drop_annotation(metadata)
    return result


def _cleaned(value: Any, key: str = "") -> Any:
    if isinstance(value, list):
        return [_cleaned(each, key) for each in value]
    if not isinstance(value, dict):
        return value
    if key in ("data", "labels", "annotations", "matchLabels"):
        result = {name: each for name, each in value.items() if name != _ANNOTATION}
    else:
        result = {name: _cleaned(each, name) for name, each in value.items() if name not in _LEFT_OUT}
    if key in _CONTAINERS and isinstance(result.get("env"), list):
        result["env"] = [
            {name: each for name, each in variable.items() if name != "value"}
            for variable in result["env"]
            if isinstance(variable, dict)
        ]
    return result


def _drop_annotation(metadata: Json) -> None:
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and not annotations:
        del metadata["annotations"]
