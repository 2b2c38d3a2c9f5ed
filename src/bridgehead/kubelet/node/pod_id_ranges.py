"""Users of the pods with `hostUsers: false`: each has a range of the node's ids for itself, as long as its directory is
there.

Source: kubelet's `pkg/kubelet/userns`, which keeps the same file `userns` in the directory of a pod.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes.runtime import POD_IDS
from bridgehead.objects.core import Pod

_FILE: Final = "userns"


class _Mapping(msgspec.Struct, frozen=True, rename="camel"):
    host_id: int
    container_id: int = 0
    length: int = POD_IDS


class _Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    uid_mappings: tuple[_Mapping, ...]
    gid_mappings: tuple[_Mapping, ...]


class PodUsers:
    """The ranges of one node. `pods` is the directory of the pods' directories; `ranges`: how many there are."""

    def __init__(self, pods: Path, ranges: int) -> None:
        self._pods = pods
        self._ranges = ranges

    @property
    def are_supported(self) -> bool:
        return self._ranges > 0

    def id_base(self, pod: Pod) -> int:
        """Return the node's id of the pod's root, which the pod has had since `claim`; 0 if it is the node's root."""
        return 0 if pod.spec.host_users else self._read(self._pods / pod.metadata.uid)

    def claim(self, pod: Pod) -> bool:
        """Give a pod its range, and return whether it has one; False if none is free. Raises OSError."""
        if pod.spec.host_users or self.id_base(pod):
            return True
        taken = {self._read(directory) for directory in self._pods.iterdir()}
        bases = (POD_IDS * (number + 1) for number in range(self._ranges))
        base = next((each for each in bases if each not in taken), None)
        if base is None:
            return False
        directory = self._pods / pod.metadata.uid
        directory.mkdir(parents=True, exist_ok=True)
        record = _Record(uid_mappings=(_Mapping(base),), gid_mappings=(_Mapping(base),))
        new = directory / f".{_FILE}.new"
        new.write_bytes(msgspec.json.encode(record))
        new.rename(directory / _FILE)
        return True

    @staticmethod
    def _read(directory: Path) -> int:
        with contextlib.suppress(OSError, msgspec.MsgspecError, IndexError):
            return msgspec.json.decode((directory / _FILE).read_bytes(), type=_Record).uid_mappings[0].host_id
        return 0
