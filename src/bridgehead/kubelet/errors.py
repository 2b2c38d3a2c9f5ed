"""The kubelet's errors.

    KubeletError
    ├── VolumeNotReady        a volume can't be set up yet
    ├── VolumesNotReady       some of a pod's volumes can't be set up yet; the pod waits (an event FailedMount for each)
    ├── ConfigNotReady        an environment variable or a mount can't be resolved yet (CreateContainerConfigError)
    ├── ArgumentListTooLong   the arguments and variables are longer than execve takes (a run that failed: StartError)
    ├── SecurityRefused       the security context forbids to run the container (CreateContainerConfigError)
    ├── AddressesExhausted    the node's pod range has no free address (FailedCreatePodSandBox)
    ├── NotServed             a request for logs or exec that can't be answered; carries the HTTP status
    └── StartupFailed         the kubelet can't run; one line for the operator

Errors of the runtime are `RuntimeFailure` and `ImageUnavailable` in `runtimes.runtime`; errors of the API server are in
`client.errors`.
"""

from __future__ import annotations

from collections.abc import Sequence


class KubeletError(Exception):
    """Base of the kubelet's own errors; the message is one line."""


class VolumeNotReady(KubeletError):
    """The volume named `volume` can't be set up yet; the message is the reason. `step` is the one that failed, as
    Kubernetes' Events name it."""

    def __init__(self, volume: str, message: str, step: str = "MountVolume.SetUp") -> None:
        super().__init__(message)
        self.volume = volume
        self.step = step


class VolumesNotReady(KubeletError):
    """Some of a pod's volumes can't be set up yet; `failures` has an error for each of them."""

    def __init__(self, failures: Sequence[VolumeNotReady]) -> None:
        super().__init__("; ".join(map(str, failures)))
        self.failures = failures


class ConfigNotReady(KubeletError):
    """A ConfigMap, Secret or field that a container's environment or mounts refer to is missing."""


class ArgumentListTooLong(KubeletError):
    """A command, its arguments and its environment are longer than execve(2) takes."""


class SecurityRefused(KubeletError):
    """The container would not run as its security context demands."""


class AddressesExhausted(KubeletError):
    """The node's pod range has no free address."""


class NotServed(KubeletError):
    """A request to the kubelet's server is refused with the HTTP status `status`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StartupFailed(KubeletError):
    """A file or option that the kubelet needs to start is missing or unusable."""
