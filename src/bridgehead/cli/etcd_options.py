"""Options of a store on etcd, under kube-apiserver's names, and their check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridgehead.media_types import JSON, PROTOBUF
from bridgehead.objects.times import parse_duration

from .groups import ETCD, STORAGE
from .options import option

if TYPE_CHECKING:
    from bridgehead.apiserver.stores import EtcdOptions

# Names in URLs, without those that mean a directory.
_PREFIX = re.compile(r"/?[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?")


@dataclass(frozen=True, kw_only=True)
class EtcdRows:
    """The options of each command that opens a store on etcd."""

    etcd_servers: list[str] = option(
        (), ETCD, "URLs of etcd's members, separated by commas, in place of --store: https://HOST:2379."
    )
    etcd_prefix: str = option("/registry", ETCD, "Prefix of the objects' keys in etcd.")
    etcd_cafile: Path | None = option(None, ETCD, "CA of etcd's certificates (PEM).")
    etcd_certfile: Path | None = option(None, ETCD, "Client certificate for etcd (PEM).")
    etcd_keyfile: Path | None = option(None, ETCD, "Private key of the client certificate for etcd (PEM).")
    etcd_username: str = option("", ETCD, "User in etcd, if it authenticates users by passwords.")
    etcd_password_file: Path | None = option(None, ETCD, "File with the password of --etcd-username.")


def media_type_row() -> Any:
    return option(
        JSON,
        ETCD,
        "Form of built-in objects in etcd: application/json, or application/vnd.kubernetes.protobuf.",
    )


def storage_versions_row() -> Any:
    return option(
        "1.36", ETCD, "Release whose API versions objects have in etcd: 1.36, or 1.20 for a kube-apiserver of 1.20."
    )


def event_ttl_row() -> Any:
    return option("1h", STORAGE, "Time for which Events are kept, as a duration.")


def etcd_options(
    rows: EtcdRows,
    store: str,
    *,
    compaction_seconds: float = 0.0,
    media_type: str = JSON,
    storage_versions: str = "1.36",
) -> EtcdOptions | None:
    """Return the options of etcd, None if `store` names another store. Raises ValueError with a line for the user."""
    servers = tuple(name.strip() for text in rows.etcd_servers for name in text.split(",") if name.strip())
    _check_one_of("--storage-media-type", media_type, (JSON, PROTOBUF))
    _check_one_of("--storage-versions", storage_versions, ("1.36", "1.20"))
    if not _PREFIX.fullmatch(rows.etcd_prefix):
        raise ValueError(
            f"--etcd-prefix {rows.etcd_prefix!r} is no prefix: use letters, digits and -_. between slashes, as in"
            " /registry"
        )
    if not servers:
        if rows.etcd_servers:
            raise ValueError("--etcd-servers names no server: give a URL such as https://10.0.0.1:2379")
        return None
    if store:
        raise ValueError("--store and --etcd-servers exclude each other: name one store")
    from bridgehead.apiserver.stores import EtcdOptions

    return EtcdOptions(
        servers=servers,
        prefix=rows.etcd_prefix,
        ca_file=rows.etcd_cafile,
        cert_file=rows.etcd_certfile,
        key_file=rows.etcd_keyfile,
        user=rows.etcd_username,
        password=rows.etcd_password_file.read_text().strip() if rows.etcd_password_file else "",
        compaction_seconds=compaction_seconds,
        media_type=media_type,
        storage_versions=storage_versions,
    )


def _check_one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} {value!r} is not one of {', '.join(allowed)}")


def compaction_seconds(duration: str) -> float:
    """Return the value of --etcd-compaction-interval; 0: never. Raises ValueError."""
    seconds = _seconds("--etcd-compaction-interval", duration)
    if 0 < seconds < 1:
        raise ValueError(f"--etcd-compaction-interval {duration} is too short: use at least 1s, or 0 for never")
    return seconds


def event_seconds(duration: str) -> float:
    """Return the value of --event-ttl. Raises ValueError."""
    seconds = _seconds("--event-ttl", duration)
    if seconds < 1:
        raise ValueError(f"--event-ttl {duration} is too short: use at least 1s")
    return seconds


def _seconds(name: str, duration: str) -> float:
    try:
        return parse_duration(duration)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
