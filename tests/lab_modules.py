"""All modules of a lab's parts. The import of this module loads them, so that labs can be forks of a process
(`forks.py`)."""

from __future__ import annotations

import importlib

from bridgehead import cli

_PARTS = ("apiserver", "controllers", "kubelet", "runtime", "proxy", "dns", "balancer", "speaker")
_LOADED_LATE = (
    "bridgehead.apiserver.serve",
    "bridgehead.lab.certificates",
    "bridgehead.lab.launch",
    "bridgehead.lab.readiness",
    "bridgehead.storage.sqlite",
)

cli.preload([(part,) for part in _PARTS])
for _module in _LOADED_LATE:
    importlib.import_module(_module)
