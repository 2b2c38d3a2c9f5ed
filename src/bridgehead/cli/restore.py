"""Replace a stopped cluster's objects by those of a backup, FILE, which `bridgehead backup` has written.

The replaced store is kept beside the new one, with the suffix `.old`. A running cluster is refused. Revisions continue
above all earlier ones, so clients that still watch list again. A lab on etcd gets new members, which are filled before
they replace those that it has.

With --etcd-servers, the objects are written to etcd, below an --etcd-prefix that has no keys yet. API servers refuse to
start there until all objects are written. Clients of the former store have to be restarted if its revision is above
etcd's.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.lab import state_directories
from bridgehead.lab.errors import AlreadyRunning
from bridgehead.lab.plan import LabConfig, LabFiles

from .backup_options import (
    CopyRows,
    Progress,
    describe,
    encryption_of,
    lab_unless,
    reporting_store_errors,
    store_of,
)
from .etcd_options import etcd_options, event_seconds, event_ttl_row, media_type_row, storage_versions_row
from .lab_options import DEFAULT_NAME, options_of
from .options import REQUIRED, argument

if TYPE_CHECKING:
    from bridgehead.apiserver.stores import EtcdOptions


@dataclass(frozen=True, kw_only=True)
class Options(CopyRows):
    file: Path = argument(REQUIRED, "Backup to read.", metavar="FILE")
    storage_media_type: str = media_type_row()
    storage_versions: str = storage_versions_row()
    event_ttl: str = event_ttl_row()


def command(options: Options) -> None:
    with reporting_store_errors():
        etcd = etcd_options(
            options,
            options.store,
            media_type=options.storage_media_type,
            storage_versions=options.storage_versions,
        )
        if etcd is not None:
            _restore_etcd(options, etcd)
            return
        files = lab_unless(options.store, options.name, options.state_dir)
        config = state_directories.read_config(files) if files else None
        if files and config and config.store == "etcd":
            _restore_lab_on_etcd(options, files, config)
        else:
            _restore_file(options, files)


def _restore_file(options: Options, files: LabFiles | None) -> None:
    from bridgehead.storage.backups import restore

    target = store_of(files, options.store)
    if files:
        _check_stopped(options, files)
    copied = restore(options.file, target, Progress("restore"))
    kept = f" The former store is {copied.kept}." if copied.kept else ""
    sys.stdout.write(f"Restored {target}: {describe(copied)}.{kept}\n")


def _check_stopped(options: Options, files: LabFiles) -> None:
    if state_directories.is_running(files):
        stop = f"`bridgehead down{options_of(options.name, options.state_dir)}`"
        lab = state_directories.find_name(files, options.name or DEFAULT_NAME)
        raise AlreadyRunning(f"the lab {lab!r} is running: stop it first with {stop}")


def _restore_lab_on_etcd(options: Options, files: LabFiles, config: LabConfig) -> None:
    """Fill new members of etcd, which then are the lab's."""
    from bridgehead.lab import preflight

    from .lab_restoration import restore_lab

    _check_stopped(options, files)
    encryption, ttl = encryption_of(options), event_seconds(options.event_ttl)
    preflight.extend_path()
    preflight.choose_store(config.store, config.api_servers, config)  # whether it can run here
    lock = state_directories.lock(files)
    try:
        done = restore_lab(config, files, options.file, ttl, encryption)
    finally:
        os.close(lock)
    sys.stdout.write(f"{done}\n")


def _restore_etcd(options: Options, etcd: EtcdOptions) -> None:
    from bridgehead.apiserver.stores import restore_etcd

    ttl = event_seconds(options.event_ttl)
    restored = restore_etcd(etcd, encryption_of(options), options.file, Progress("restore"), ttl)
    wait = ""
    if restored.former_revision > restored.copied.revision:
        wait = (
            f" The revision of the backup is {restored.former_revision}: restart clients that watch the former store,"
            " which would wait for it."
        )
    sys.stdout.write(f"Restored {etcd.prefix} in etcd: {describe(restored.copied)}.{wait}\n")
