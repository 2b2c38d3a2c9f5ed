"""Credential plugins of kubeconfigs (`exec`): what a plugin is given, and what its answer means.

Such a plugin is a program, for example one that asks a cloud provider for a token. `plugin_process` runs it.
Pure: no I/O, no clock, no randomness.
Source: Kubernetes "client-go credential plugins", API group client.authentication.k8s.io.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridgehead.objects.times import parse_time

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
NEVER, IF_AVAILABLE, ALWAYS = "Never", "IfAvailable", "Always"
_MODES = (NEVER, IF_AVAILABLE, ALWAYS)
_ENVIRONMENT = "KUBERNETES_EXEC_INFO"
# The extension of a kubeconfig's cluster whose content plugins get.
_EXTENSION = f"{_GROUP}/exec"


@dataclass(frozen=True)
class ExecPlugin:
    """A plugin as a kubeconfig describes it. `cluster` describes the cluster, None: the plugin does not get it."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mode: str = IF_AVAILABLE
    hint: str = ""
    cluster: Mapping[str, Any] | None = None

    def variables(self, *, is_interactive: bool) -> dict[str, str]:
        """Return the environment variables that the plugin gets beside those of this process."""
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        given = {"kind": "ExecCredential", "apiVersion": self.api_version, "spec": spec}
        return {**self.environment, _ENVIRONMENT: msgspec.json.encode(given).decode()}


@dataclass(frozen=True)
class PluginAnswer:
    """Credentials from a plugin. `certificate` and `key` are PEM; `expires` is in seconds since the epoch."""

    token: str | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    expires: float | None = None


def parse_exec_plugin(
    entry: Mapping[str, Any], cluster: Mapping[str, Any], ca: bytes | None, directory: str
) -> ExecPlugin:
    """Parse the field `exec` of a kubeconfig's user. Raises ValueError.

    `cluster` is the kubeconfig's entry of the cluster, `ca` its CA. A command with a slash is relative to `directory`.
    """
    version, command = entry.get("apiVersion"), entry.get("command")
    if version not in _VERSIONS:
        raise ValueError(f"apiVersion {version!r} is not one of {', '.join(_VERSIONS)}")
    if not isinstance(command, str) or not command:
        raise ValueError("no command")
    mode = entry.get("interactiveMode")
    if mode is None and version != _VERSIONS[0]:
        mode = IF_AVAILABLE
    if mode not in _MODES:
        raise ValueError(f"interactiveMode {mode!r} is not one of {', '.join(_MODES)}")
    variables = entry.get("env") or []
    try:
        environment = {str(one["name"]): str(one.get("value", "")) for one in variables}
    except (TypeError, KeyError, AttributeError):
        raise ValueError("env is not a list of names and values") from None
    args = entry.get("args") or []
    if not isinstance(args, list):
        raise ValueError("args is not a list")
    return ExecPlugin(
        api_version=version,
        command=f"{directory}/{command}" if "/" in command and not command.startswith("/") else command,
        args=tuple(map(str, args)),
        environment=environment,
        mode=mode,
        hint=str(entry.get("installHint") or "").strip(),
        cluster=_describe(cluster, ca) if entry.get("provideClusterInfo") else None,
    )


def _describe(cluster: Mapping[str, Any], ca: bytes | None) -> dict[str, Any]:
    """Return what a plugin gets of the cluster's entry. Raises ValueError."""
    names = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
    shown = {name: cluster[name] for name in names if cluster.get(name)}
    if ca is not None:
        shown["certificate-authority-data"] = base64.b64encode(ca).decode()
    extensions = cluster.get("extensions") or []
    if not isinstance(extensions, list):
        raise ValueError("the cluster's extensions are not a list")
    for extension in extensions:
        if isinstance(extension, dict) and extension.get("name") == _EXTENSION:
            shown["config"] = extension.get("extension")
    return shown


def parse_answer(plugin: ExecPlugin, output: bytes) -> PluginAnswer:
    """Parse what a plugin has printed. Raises ValueError."""
    try:
        answer = msgspec.json.decode(output, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"its output is not an ExecCredential: {error}") from None
    version = answer.get("apiVersion")
    if version != plugin.api_version:
        raise ValueError(f"it is configured to use API version {plugin.api_version}, and returned version {version}")
    status = answer.get("status")
    if not isinstance(status, dict):
        raise ValueError("it didn't return a status field")
    token, certificate, key = (status.get(n) or "" for n in ("token", "clientCertificateData", "clientKeyData"))
    if not all(isinstance(text, str) for text in (token, certificate, key)):
        raise ValueError("its token, certificate or key is not a text")
    if bool(certificate) != bool(key):
        raise ValueError("it returned only certificate or key, not both")
    if not token and not certificate:
        raise ValueError("it didn't return a token or cert/key pair")
    if not (token.isascii() and token.isprintable()):
        raise ValueError("its token has characters that no header may have")
    expires = status.get("expirationTimestamp")
    try:
        until = None if expires is None else parse_time(expires)
    except (ValueError, TypeError):
        raise ValueError(f"its expirationTimestamp {expires!r} is not a time") from None
    return PluginAnswer(token or None, certificate.encode() or None, key.encode() or None, until)
