"""The effective security context of a container, from its own, its pod's and its image's user.

Pure: no I/O, no clock, no randomness. Called when a container is about to start. Source: kubelet's
`determineEffectiveSecurityContext`, `verifyRunAsNonRoot` and `getSeccompProfile`. A pod without a seccomp profile gets
RuntimeDefault (docs/decisions/0019-security-context.md).
"""

from __future__ import annotations

from pathlib import Path

from bridgehead.kubelet.errors import SecurityRefused
from bridgehead.kubelet.runtimes.runtime import Image, Seccomp, Security
from bridgehead.kubelet.volumes.volume_owners import run_as_user
from bridgehead.objects.core import (
    Capabilities,
    Container,
    Pod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
)

_NO_CONTEXT = SecurityContext()
_NO_POD_CONTEXT = PodSecurityContext()
_NO_CAPABILITIES = Capabilities()


def plan_security(pod: Pod, container: Container, image: Image, seccomp_root: Path) -> Security:
    """Return the effective security context. Localhost seccomp profiles are below `seccomp_root`.

    Raises `SecurityRefused`.
    """
    own, of_pod = container.security_context or _NO_CONTEXT, pod.spec.security_context or _NO_POD_CONTEXT
    _check_non_root(pod, container, image)
    capabilities = own.capabilities or _NO_CAPABILITIES
    user = run_as_user(pod, container)
    return Security(
        user=_image_uid(image) if user is None else user,
        group=of_pod.run_as_group if own.run_as_group is None else own.run_as_group,
        supplemental_groups=_supplemental_groups(of_pod),
        strict_groups=of_pod.supplemental_groups_policy == "Strict",
        privileged=own.privileged,
        add_capabilities=capabilities.add,
        drop_capabilities=capabilities.drop,
        no_new_privileges=own.allow_privilege_escalation is False,
        read_only_root=own.read_only_root_filesystem,
        unmasked_proc=own.proc_mount == "Unmasked",
        seccomp=_seccomp(own, of_pod.seccomp_profile, seccomp_root),
    )


def _image_uid(image: Image) -> int | None:
    """Return the uid in the image's `USER:GROUP`; None without a user, or for a name, which its /etc/passwd
    resolves."""
    name = _image_user(image)
    return int(name) if name.isascii() and name.isdigit() else None


def _image_user(image: Image) -> str:
    return image.user.partition(":")[0]


def _check_non_root(pod: Pod, container: Container, image: Image) -> None:
    own, of_pod = container.security_context or _NO_CONTEXT, pod.spec.security_context or _NO_POD_CONTEXT
    if not (of_pod.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root):
        return
    meta = pod.metadata
    where = f'(pod: "{meta.name}_{meta.namespace}({meta.uid})", container: {container.name})'
    user = run_as_user(pod, container)
    if user is not None:
        if user == 0:
            raise SecurityRefused(f"container's runAsUser breaks non-root policy {where}")
        return
    name = _image_user(image)
    uid = _image_uid(image) if name else 0
    if uid == 0:
        raise SecurityRefused(f"container has runAsNonRoot and image will run as root {where}")
    if uid is None:
        raise SecurityRefused(
            f"container has runAsNonRoot and image has non-numeric user ({name}), "
            f"cannot verify user is non-root {where}"
        )


def _supplemental_groups(context: PodSecurityContext) -> tuple[int, ...]:
    """Return the groups without duplicates; fsGroup, which owns the pod's volumes, is one of them."""
    owner = () if context.fs_group is None else (context.fs_group,)
    return tuple(dict.fromkeys((*owner, *context.supplemental_groups)))


def _seccomp(own: SecurityContext, of_pod: SeccompProfile | None, root: Path) -> Seccomp:
    if own.privileged:
        return Seccomp(kind="Unconfined")
    profile = own.seccomp_profile or of_pod
    if profile is None:
        return Seccomp(kind="RuntimeDefault")
    if profile.type == "Localhost":
        return Seccomp(kind="Localhost", path=str(root / profile.localhost_profile))
    return Seccomp(kind=profile.type)
