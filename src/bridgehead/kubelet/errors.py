"""What can go wrong in the kubelet.

    KubeletError
    ├── VolumeNotReady        a volume can't be set up yet; the pod waits (event FailedMount)
    ├── ConfigNotReady        an environment variable or a mount can't be resolved yet (CreateContainerConfigError)
    ├── SandboxRefused        the pod asks for namespaces that the runtime cannot make (FailedCreatePodSandBox)
    ├── SecurityRefused       the security context forbids to run the container (CreateContainerConfigError)
    ├── AddressesExhausted    the node's pod range has no free address (FailedCreatePodSandBox)
    ├── NotServed             a log or exec request that can't be answered; carries the HTTP status
    └── StartupFailed         the kubelet can't run at all; one line for the operator

What the runtime refuses is `runtimes.runtime.RuntimeFailure` and `ImageUnavailable`; what the API server refuses is
in `client.errors`.
"""

from __future__ import annotations


class KubeletError(Exception):
    """Base of the kubelet's own errors; the message is one line."""


class VolumeNotReady(KubeletError):
    """`volume` can't be set up; the message is the reason."""

    def __init__(self, volume: str, message: str) -> None:
        super().__init__(message)
        self.volume = volume


class ConfigNotReady(KubeletError):
    """A ConfigMap, Secret or field that a container's environment or mounts need is not there."""


class SandboxRefused(KubeletError):
    """The pod asks for namespaces that the runtime cannot make."""


class SecurityRefused(KubeletError):
    """The container would not run as its security context demands."""


class AddressesExhausted(KubeletError):
    """No address is left in the node's pod range."""


class NotServed(KubeletError):
    """A request to the kubelet's server that has no answer; `status` is the HTTP status to give."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class StartupFailed(KubeletError):
    """Something that the kubelet needs from the machine or its options is missing."""
