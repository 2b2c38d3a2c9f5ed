"""The first process of the PID namespace that all containers of a pod share (`shareProcessNamespace`).

Owned by `runtime_service`. As with containerd, it is a container of the image `pause`, without a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bridgehead.kubelet.runtimes.runtime import ContainerSpec, Image, Limits, Security

from . import coroutines
from .launcher import Launcher
from .sandboxes import Sandbox
from .tasks import Task

PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10"
_OOM_SCORE_ADJ: Final = -998


class PauseProcess:
    """Starts when the first container needs it. `task` is the process that runs or starts."""

    def __init__(self, launcher: Launcher, sandbox: Sandbox, find_image: Callable[[str], Image]) -> None:
        self._launcher = launcher
        self._find_image = find_image
        self._sandbox = sandbox
        self.task: Task | None = None

    async def find(self) -> Task:
        """Return the process once it runs; start it if there is none. Raises as `Launcher.launch`."""
        task = self.task or self._launch()
        await task.started
        return task

    def _launch(self) -> Task:
        spec = ContainerSpec(
            pod_uid=self._sandbox.spec.pod_uid,
            name="",
            attempt=0,
            image=self._find_image(PAUSE_IMAGE),
            security=Security(drop_capabilities=("ALL",), no_new_privileges=True, read_only_root=True),
            limits=Limits(oom_score_adj=_OOM_SCORE_ADJ),
        )
        task = self.task = self._launcher.launch(spec, self._sandbox)
        coroutines.start(self._release(task))
        return task

    async def _release(self, task: Task) -> None:
        await task.ended
        self.task = None
        self._launcher.release(task)
