"""The first process of the PID namespace that all containers of a pod share (`shareProcessNamespace`).

Owned by `runtime_service`. As with containerd, it is a container of the image `pause`, without a name.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from bridgehead.kubelet.runtimes.runtime import ContainerSpec, Image, Limits, RuntimeFailure, Security
from bridgehead.kubelet.runtimes.service.launcher import Launcher
from bridgehead.kubelet.runtimes.service.sandboxes import Sandbox
from bridgehead.kubelet.runtimes.service.tasks import Task

PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10"
_OOM_SCORE_ADJ: Final = -998


class PauseProcess:
    """Starts when the first container needs it. `on_end` is called after each of its ends, also one while it starts."""

    def __init__(
        self, launcher: Launcher, sandbox: Sandbox, find_image: Callable[[str], Image], on_end: Callable[[], None]
    ) -> None:
        self._launcher = launcher
        self._find_image = find_image
        self._sandbox = sandbox
        self._on_end = on_end
        self._task: Task | None = None
        self._waiting: list[Callable[[Task | RuntimeFailure], None]] = []  # for its start

    @property
    def is_there(self) -> bool:
        """Whether it runs or starts."""
        return self._task is not None

    def find(self, on_done: Callable[[Task | RuntimeFailure], None]) -> None:
        """Call `on_done` with the process once it runs; start it if there is none. Raises as
        `Launcher.launch`."""
        if self._task is not None and self._task.is_started:
            on_done(self._task)
            return
        if self._task is None:
            self._task = self._launch()
        self._waiting.append(on_done)

    def kill(self) -> None:
        if self._task is not None:
            self._task.signal(signal.SIGKILL)

    def _launch(self) -> Task:
        spec = ContainerSpec(
            pod_uid=self._sandbox.spec.pod_uid,
            name="",
            attempt=0,
            image=self._find_image(PAUSE_IMAGE),
            security=Security(drop_capabilities=("ALL",), no_new_privileges=True, read_only_root=True),
            limits=Limits(oom_score_adj=_OOM_SCORE_ADJ),
        )

        def on_start(task: Task, failure: RuntimeFailure | None) -> None:
            if failure is not None:
                self._release(task)
            waiting, self._waiting = self._waiting, []
            for one in waiting:
                one(task if failure is None else failure)
            if failure is not None:
                self._on_end()

        def on_end(task: Task) -> None:
            self._release(task)
            self._on_end()

        return self._launcher.launch(spec, self._sandbox, on_start=on_start, on_end=on_end)

    def _release(self, task: Task) -> None:
        self._task = None
        self._launcher.release(task)
