"""Restoration of a stopped lab's objects from a backup, into the store that its configuration names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.lab import preflight
from bridgehead.lab.etcd_members import run_new_members, set_members_aside
from bridgehead.lab.plan import LabConfig, LabFiles
from bridgehead.storage.backups import check_copy, restore, set_aside

from .backup_options import Progress, describe, etcd_of

if TYPE_CHECKING:
    from bridgehead.storage.sealing import Encryption


def restore_lab(
    config: LabConfig, files: LabFiles, backup: Path, event_seconds: float, encryption: Encryption | None = None
) -> str:
    """Replace the objects of a lab; return a sentence for the user.

    The caller holds the lab's lock and has one thread only; it is in another network afterwards. The lab's directories
    and certificates are there. `encryption` and `event_seconds` are for a lab on etcd. Raises `LabError`,
    `StorageError`, OSError.
    """
    check_copy(backup)
    if config.store == "etcd":
        preflight.check_space(files.root, config.api_servers)
        with run_new_members(config, files) as members:
            from bridgehead.apiserver.stores import restore_etcd

            restored = restore_etcd(etcd_of(config, files), encryption, backup, Progress("restore"), event_seconds)
            former = members.keep()
        copied = restored.copied
        kept = [*former, *filter(None, [set_aside(files.store)])]
    else:
        copied = restore(backup, files.store, Progress("restore"))
        kept = [*filter(None, [copied.kept]), *set_members_aside(files)]
    former_store = f" The former store is {', '.join(map(str, kept))}." if kept else ""
    return f"Restored the lab {config.name!r}: {describe(copied)}.{former_store}"
