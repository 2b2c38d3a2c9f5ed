"""Kubeconfigs of the lab's user, which the user can extend, and of the lab's parts.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from bridgehead.client.server_choice import SERVERS_EXTENSION
from bridgehead.yaml_loader import UnusableYaml, load

_LISTS = ("clusters", "users", "contexts")


class _Named(msgspec.Struct):
    """An entry of a kubeconfig's list; unknown fields stay."""

    name: str


class _Context(_Named):
    context: dict[str, Any]


class _Kubeconfig(msgspec.Struct):
    # kubectl writes an empty list as null.
    contexts: list[_Context] | None = None
    clusters: list[_Named] | None = None
    users: list[_Named] | None = None


def make_kubeconfig(
    server: str, context: str, ca: bytes, credentials: tuple[bytes, bytes], servers: Sequence[str] = ()
) -> dict[str, Any]:
    """Render a kubeconfig. `credentials` are a certificate and its key; all of them are PEM.

    `servers`: URLs of all API servers, if there are several. kubectl uses `server` only.
    """
    certificate, key = credentials
    cluster: dict[str, Any] = {"server": server, "certificate-authority-data": b64encode(ca).decode()}
    if servers:
        cluster["extensions"] = [{"name": SERVERS_EXTENSION, "extension": {"servers": list(servers)}}]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [
            {
                "name": context,
                "user": {
                    "client-certificate-data": b64encode(certificate).decode(),
                    "client-key-data": b64encode(key).decode(),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }


def keep_users_own(made: dict[str, Any], before: bytes) -> dict[str, Any]:
    """Return `made` with the changes that the user has made to the file `before` since it was last written.

    Kept are the namespace of the lab's context (`kubectl config set-context --current --namespace`) and all entries
    with other names. The current context becomes the lab's. A file that cannot be parsed is replaced.
    """
    try:
        document = load(before)
        msgspec.convert(document, _Kubeconfig)
    except (UnusableYaml, msgspec.ValidationError):
        return made
    (mine,) = made["contexts"]
    kept = dict(made)
    for key in _LISTS:
        kept[key] = made[key] + [entry for entry in document.get(key) or () if entry["name"] != mine["name"]]
    for entry in document.get("contexts") or ():
        if entry["name"] == mine["name"] and entry["context"].get("namespace"):
            context = mine["context"] | {"namespace": entry["context"]["namespace"]}
            kept["contexts"] = [mine | {"context": context}, *kept["contexts"][1:]]
    return kept
