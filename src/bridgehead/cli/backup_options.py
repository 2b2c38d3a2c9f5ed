"""Parts of the commands `backup` and `restore`: their options, the choice of the store, progress, errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bridgehead.lab import state_directories
from bridgehead.lab.enter import enter_network, network_path
from bridgehead.lab.plan import LabConfig, LabFiles, plan_servers

from .etcd_options import EtcdRows
from .groups import OPTIONS
from .lab_options import find_lab, name_row, reporting_errors, state_dir_row
from .options import option

if TYPE_CHECKING:
    from bridgehead.apiserver.stores import EtcdOptions
    from bridgehead.storage.backups import Copied
    from bridgehead.storage.sealing import Encryption


@dataclass(frozen=True, kw_only=True)
class CopyRows(EtcdRows):
    """The options of both commands."""

    name: str | None = name_row()
    state_dir: Path | None = state_dir_row()
    store: str = option("", OPTIONS, "Store of an API server, sqlite:///PATH or PATH, instead of a lab's.")
    encryption_provider_config: Path | None = option(
        None, OPTIONS, "EncryptionConfiguration of the API servers, for a store on etcd with encrypted objects."
    )


def lab_unless(store: str, name: str | None, state_dir: Path | None) -> LabFiles | None:
    """Return the files of the lab that the options choose, None when a store is given instead."""
    return None if store else find_lab(name, state_dir)


def store_of(files: LabFiles | None, store: str) -> Path:
    """Return the path of a lab's store on SQLite, or of the given one. Raises `LabError` when there is no such lab."""
    from bridgehead.storage import store_path

    if files is None:
        return Path(store_path(store) or store)
    config = state_directories.read_config(files)
    if config is None:
        raise state_directories.no_such_lab(files)
    return files.store


def enter_etcd_of(files: LabFiles | None) -> EtcdOptions | None:
    """Enter the network of a running lab on etcd, and return the access to its etcd; None for any other store.

    The process must have one thread only. Raises `LabError`, OSError.
    """
    config = state_directories.read_config(files) if files else None
    if files is None or config is None or config.store != "etcd":
        return None
    lab = state_directories.read_running(files)
    enter_network(lab, network_path(lab, None))
    return etcd_of(lab.config, files)


def etcd_of(config: LabConfig, files: LabFiles) -> EtcdOptions:
    """Return the access to a lab's etcd from its network."""
    from bridgehead.apiserver.stores import EtcdOptions

    access = files.etcd_access
    return EtcdOptions(
        servers=tuple(server.etcd_url for server in plan_servers(config)),
        ca_file=access.authority,
        cert_file=access.certificate,
        key_file=access.key,
    )


def encryption_of(rows: CopyRows) -> Encryption | None:
    """Return the encryption of the objects in etcd. Raises OSError, ValueError."""
    if rows.encryption_provider_config is None:
        return None
    from bridgehead.storage.encryption import read_encryption

    return read_encryption(rows.encryption_provider_config)


@contextmanager
def reporting_store_errors() -> Iterator[None]:
    """Print an error of the lab, of the store or of an option's value as one line, and exit with code 1."""
    from bridgehead.storage import StorageError

    with reporting_errors():
        try:
            yield
        except (StorageError, ValueError) as error:
            sys.stderr.write(f"bridgehead: {error}\n")
            raise typer.Exit(1) from error


class Progress:
    """A line on standard error that counts up, if standard error is a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_shown = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self._is_shown:
            end = "\n" if done >= total else ""
            sys.stderr.write(f"\r{self._what}: {100 * done // max(total, 1)} %{end}")
            sys.stderr.flush()


def describe(copied: Copied) -> str:
    return f"{copied.objects:,} objects, revision {copied.revision}, {copied.size_bytes / 2**20:.1f} MiB"
