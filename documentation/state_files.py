"""docs/reference/state-directory.md: files of a lab's state directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bridgehead.lab.plan import LabFiles

from .tables import code, made_by, table

# A path, by the property of LabFiles that returns it, and its content. Names in capitals stand for any.
MEANINGS: Mapping[str, tuple[str, str]] = {
    "lock": ("lock", "Lock that the lab's first process holds while it lives: a lab runs exactly as long."),
    "gateway_lock": (
        "gateway.lock",
        "Lock that the lab's gateway holds while it runs, with `--host-routes` or `--outside`.",
    ),
    "config": ("lab.json", "The lab's configuration, so that the next `up` gives the same cluster."),
    "running": ("running.json", "While it runs: its port, its first process and the time of its start."),
    "parts": ("run/parts.json", "While it runs: status of its parts, as `bridgehead status` shows it."),
    "store": ("store/cluster.db", "The objects, in SQLite. `bridgehead backup` copies them, also while the lab runs."),
    "etcd_data": ("store/MEMBER/", "With `--store etcd`: the data of a member of etcd."),
    "pki": ("pki/", "Certificates and keys: the authorities, the administrator's, those of the parts and nodes."),
    "part_kubeconfig": ("pki/PART.kubeconfig", "Kubeconfig of a part or a node."),
    "kubeconfig": ("kubeconfig", "Kubeconfig of the user, for this machine's loopback."),
    "inside_kubeconfig": ("kubeconfig.inside", "The same for commands inside the lab, as `bridgehead exec` sets it."),
    "images": ("images/NAME/rootfs/", "Root file systems that the user gives as images ([Images](../images.md))."),
    "content": (
        "content/",
        "Pulled and loaded images: blobs, unpacked layers, and the socket of the process that pulls.",
    ),
    "registries": ("registries/REGISTRY/hosts.toml", "The user's configuration of registries, as containerd reads it."),
    "log": ("logs/PART.log", "Log of a part (`bridgehead logs PART`); `init` is that of the first process."),
    "node": ("nodes/NODE/", "Directory of a node's kubelet: volumes and logs of its pods."),
    "manifests": ("nodes/NODE/manifests/", "Manifests of the node's static pods: a file that is put there runs."),
    "node_root": ("roots/NODE/", "Root file system of a node, in which the paths of hostPath volumes are."),
}
# Properties that are no files of their own: sets of others.
SETS = {"etcd_access", "written_inside", "read_inside"}

_INTRODUCTION = """\
A lab keeps everything in one directory: `~/.local/state/bridgehead/NAME` (or `$XDG_STATE_HOME/bridgehead/NAME`), or
that of `--state-dir`: STATE below. It is closed to other users. `bridgehead down` keeps it, and the next `up` continues
with it; `down --delete` deletes it, and a lab whose directory is deleted ends. A directory with other files in it is
refused.

"""
_END = """
Beside the labs, `.blobs/` has what all labs of the user have downloaded, once for all of them.
"""


def properties() -> set[str]:
    """Return what LabFiles has a path of."""
    return {name for name in vars(LabFiles) if not name.startswith("_")} - {"root"}


def check() -> None:
    """Raise ValueError when a path of the table is not the code's."""
    files = LabFiles(Path("/"))
    for name, (path, _) in MEANINGS.items():
        value = getattr(files, name)
        if isinstance(value, Path) and not f"/{path}/".startswith(f"{value}/"):
            raise ValueError(f"{name}: {value}, not {path}")


def render_page() -> str:
    """Return the page."""
    check()
    rows = ((code(f"STATE/{path}"), text) for path, text in sorted(MEANINGS.values()))
    return "# State directory\n\n" + made_by("state_files") + _INTRODUCTION + table(("file", "content"), rows) + _END
