"""The finding of a check, and helpers of the checks.

Pure: no I/O, no clock, no randomness. Source: Kubernetes pod-security-admission/policy/helpers.go, visitor.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bridgehead.apiserver.resource import JsonObject


class Violation(NamedTuple):
    """`reason` is short and the same for all pods; `detail` names containers, volumes and values."""

    reason: str
    detail: str


# Gets the metadata and the spec of a pod or of a template.
Check = Callable[[JsonObject, JsonObject], Violation | None]


def containers_of(spec: JsonObject) -> Iterator[JsonObject]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind, ())


def security_of(owner: JsonObject, *path: str) -> Any:
    """Return a value in the security context of a pod's spec or of a container, None if it is not set."""
    value: Any = owner.get("securityContext", {})
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def names_of(containers: Iterable[JsonObject]) -> list[str]:
    return [str(container.get("name", "")) for container in containers]


def quoted(values: Iterable[str]) -> str:
    """Render `"a", "b"`."""
    return ", ".join(f'"{value}"' for value in values)


def listed(noun: str, names: Sequence[str]) -> str:
    """Render `container "a"` or `containers "a", "b"`."""
    return f"{plural(noun, names)} {quoted(names)}"


def plural(noun: str, values: Sequence[Any]) -> str:
    return noun if len(values) == 1 else f"{noun}s"


def setters(spec: JsonObject, bad: Callable[[JsonObject], bool]) -> str:
    """List the holders of a bad security context, as `pod and containers "a", "b"`; "" without any."""
    found = ["pod"] if bad(spec) else []
    names = names_of(container for container in containers_of(spec) if bad(container))
    if names:
        found.append(listed("container", names))
    return " and ".join(found)
