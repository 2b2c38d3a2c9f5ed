"""Kubeconfigs: that of the lab's user, of which a part is the user's own, and those of its parts. Pure."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

_LISTS = ("clusters", "users", "contexts")


class _Named(msgspec.Struct):
    """One of a list; what else it has stays as it is."""

    name: str


class _Context(_Named):
    context: dict[str, Any]


class _Kubeconfig(msgspec.Struct):
    # kubectl writes an empty list as null.
    contexts: list[_Context] | None = None
    clusters: list[_Named] | None = None
    users: list[_Named] | None = None


def make_kubeconfig(server: str, context: str, ca: bytes, credentials: tuple[bytes, bytes]) -> dict[str, Any]:
    """`credentials` are a certificate and its key; all are PEM."""
    certificate, key = credentials
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": context, "cluster": {"server": server, "certificate-authority-data": b64encode(ca).decode()}}
        ],
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
    """`made`, with what the user has put into the file `before` since it was made the last time.

    That is the namespace of the lab's context (`kubectl config set-context --current --namespace`) and whatever has
    another name. The current context becomes the lab's: that is what `up` is for. A file that makes no sense is left.
    """
    try:
        msgspec.yaml.decode(before, type=_Kubeconfig)
    except (UnicodeDecodeError, msgspec.MsgspecError):
        return made
    document = msgspec.yaml.decode(before)
    (mine,) = made["contexts"]
    kept = dict(made)
    for key in _LISTS:
        kept[key] = made[key] + [entry for entry in document.get(key) or () if entry["name"] != mine["name"]]
    for entry in document.get("contexts") or ():
        if entry["name"] == mine["name"] and entry["context"].get("namespace"):
            context = mine["context"] | {"namespace": entry["context"]["namespace"]}
            kept["contexts"] = [mine | {"context": context}, *kept["contexts"][1:]]
    return kept
