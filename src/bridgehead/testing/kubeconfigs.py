"""Kubeconfigs of tests: that of the cluster, with the test's namespace as the one of the current context.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

_CLUSTER_FILES: Final = ("certificate-authority",)
_USER_FILES: Final = ("client-certificate", "client-key", "tokenFile")


class UnusableKubeconfig(ValueError):
    """A kubeconfig without what a namespace needs. The text is the reason, in one line."""


def for_namespace(kubeconfig: Any, directory: Path, context: str | None, namespace: str) -> dict[str, Any]:
    """Return a copy for another directory whose current context has this namespace.

    `directory` is the kubeconfig's own, to which its paths are relative. `context`: None for its current one. Raises
    `UnusableKubeconfig`.
    """
    if not isinstance(kubeconfig, dict):
        raise UnusableKubeconfig("it is not a kubeconfig")
    wanted = context or kubeconfig.get("current-context")
    contexts = [_context(entry, wanted, namespace) for entry in kubeconfig.get("contexts") or ()]
    if not any(entry.get("name") == wanted for entry in contexts):
        raise UnusableKubeconfig(f"it has no context {wanted!r}" if wanted else "it has no current context")
    return {
        **kubeconfig,
        "current-context": wanted,
        "contexts": contexts,
        "clusters": [_resolved(entry, "cluster", _CLUSTER_FILES, directory) for entry in kubeconfig["clusters"] or ()],
        "users": [_user(entry, directory) for entry in kubeconfig.get("users") or ()],
    }


def _context(entry: dict[str, Any], wanted: object, namespace: str) -> dict[str, Any]:
    if entry.get("name") != wanted:
        return entry
    return {**entry, "context": {**entry["context"], "namespace": namespace}}


def _user(entry: dict[str, Any], directory: Path) -> dict[str, Any]:
    resolved = _resolved(entry, "user", _USER_FILES, directory)
    plugin = resolved.get("user", {}).get("exec")
    if not plugin or "/" not in plugin.get("command", ""):
        return resolved  # a command without a slash is found in PATH
    plugin = {**plugin, "command": str(directory / plugin["command"])}
    return {**resolved, "user": {**resolved["user"], "exec": plugin}}


def _resolved(entry: dict[str, Any], field: str, files: tuple[str, ...], directory: Path) -> dict[str, Any]:
    inner = entry.get(field) or {}
    paths = {name: str(directory / inner[name]) for name in files if inner.get(name)}
    return {**entry, field: {**inner, **paths}}
