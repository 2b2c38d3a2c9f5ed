"""Write a backup of a cluster's objects to FILE, also while the cluster runs.

The backup is of one moment, and is one file, whatever store it comes from. Only its owner may read the file, because it
contains Secrets. Objects that are encrypted in the store are encrypted in the backup; for a store on etcd, this takes
--encryption-provider-config. An older backup in FILE is replaced when the new one is complete.

`bridgehead restore FILE` reads it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .backup_options import (
    CopyRows,
    Progress,
    describe,
    encryption_of,
    enter_etcd_of,
    lab_unless,
    reporting_store_errors,
    store_of,
)
from .etcd_options import etcd_options
from .options import REQUIRED, argument

if TYPE_CHECKING:
    from bridgehead.storage.backups import Copied

# Objects that are named one by one.
_MOST_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class Options(CopyRows):
    file: Path = argument(REQUIRED, "File to write.", metavar="FILE")


def command(options: Options) -> None:
    with reporting_store_errors():
        left_out = _LeftOut()
        copied = _back_up(options, left_out)
        left_out.report_rest()
        sys.stdout.write(f"Wrote {options.file}: {describe(copied)}.\n")


def _back_up(options: Options, left_out: _LeftOut) -> Copied:
    etcd, progress = etcd_options(options, options.store), Progress("backup")
    files = None if etcd else lab_unless(options.store, options.name, options.state_dir)
    if etcd := etcd or enter_etcd_of(files):
        from bridgehead.apiserver.stores import back_up_etcd

        return back_up_etcd(etcd, encryption_of(options), options.file, progress, left_out)
    from bridgehead.storage.backups import back_up

    return back_up(store_of(files, options.store), options.file, progress)


class _LeftOut:
    """Reports objects that cannot be decoded, on standard error."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, key: str, reason: str) -> None:
        self._count += 1
        if self._count <= _MOST_NAMED:
            shown = "".join(one if one.isprintable() else "?" for one in key)
            sys.stderr.write(f"bridgehead: warning: {shown} cannot be decoded and is left out: {reason}\n")

    def report_rest(self) -> None:
        if self._count > _MOST_NAMED:
            sys.stderr.write(f"bridgehead: warning: {self._count - _MOST_NAMED} more are left out\n")
