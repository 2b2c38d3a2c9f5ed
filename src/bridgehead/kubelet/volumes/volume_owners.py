"""The user and the group that own a pod's volumes, by its security contexts and its user namespace.

Pure: no I/O, no clock, no randomness. Source: kubelet's `FsUserFrom`.
"""

from __future__ import annotations

from bridgehead.objects.core import Container, Pod, PodSecurityContext, SecurityContext

_NO_CONTEXT = SecurityContext()
_NO_POD_CONTEXT = PodSecurityContext()


def run_as_user(pod: Pod, container: Container) -> int | None:
    """Return the user that the container's security context names, or else its pod's; None without one."""
    own, of_pod = container.security_context or _NO_CONTEXT, pod.spec.security_context or _NO_POD_CONTEXT
    return of_pod.run_as_user if own.run_as_user is None else own.run_as_user


def volume_user(pod: Pod) -> int | None:
    """Return the user that all containers of the pod run as, which can own private files; None if the security contexts
    name no user, or several."""
    users = {run_as_user(pod, container) for container in pod.spec.init_containers + pod.spec.containers}
    return users.pop() if len(users) == 1 else None


def volume_group(pod: Pod) -> int | None:
    """Return the group that owns the pod's volumes: fsGroup."""
    return pod.spec.security_context.fs_group if pod.spec.security_context is not None else None


def volume_owner(pod: Pod, id_base: int) -> tuple[int | None, int | None]:
    """Return the node's ids of the user and of the fsGroup of a volume's directories.

    Without an fsGroup, None, they belong to the user's own group, which has its number; without a user, None, to the
    kubelet. `id_base` is the node's id of the pod's root; 0: the pod has the node's users.
    """
    group = volume_group(pod)
    return id_base or None, None if group is None else id_base + group
