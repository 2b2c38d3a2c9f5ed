"""Facts about this machine, as the Node's status shows them: capacity, `nodeInfo`, AppArmor."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from bridgehead import GIT_VERSION, __version__, architecture


def machine_capacity(root: Path, max_pods: int) -> dict[str, str]:
    """Return the resources of this machine.

    Each node of a lab reports all of them, since the nodes share the machine.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": f"{shutil.disk_usage(root).total // 1024}Ki",
        "pods": str(max_pods),
    }


def machine_info() -> dict[str, str]:
    """Return the Node's `nodeInfo`."""
    return {
        "architecture": architecture(),
        "bootID": _read_line("/proc/sys/kernel/random/boot_id"),
        "containerRuntimeVersion": f"bridgehead://{__version__}",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": GIT_VERSION,
        "machineID": _read_line("/etc/machine-id"),
        "operatingSystem": "linux",
        "osImage": _os_image(),
        "systemUUID": "",
    }


def kernel_has_app_armor() -> bool:
    """Whether the kernel enforces AppArmor."""
    return _read_line("/sys/module/apparmor/parameters/enabled") == "Y"


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _read_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
