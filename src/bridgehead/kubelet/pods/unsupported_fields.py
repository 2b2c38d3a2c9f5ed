"""Rejections of pods because of fields that this node does not support, and warnings about fields without effect.

Pure: no I/O, no clock, no randomness. Called by `pod_admission` and `pod_sandbox`. Source: kubelet's admission handlers
(`sysctl.patternAllowlist`, `lifecycle.appArmorAdmitHandler`) and `rejectPod`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.kubelet.runtimes.runtime import POD_IDS
from bridgehead.objects.core import AppArmorProfile, Pod, Volume

# Sysctls that a pod may set: namespaced, and without influence on other pods. As in Kubernetes 1.36.
SAFE_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    )
)
_APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def admission_refusal(pod: Pod, *, has_app_armor: bool, has_user_namespaces: bool = True) -> tuple[str, str] | None:
    """Return (reason, message) for a pod that the node rejects; None for a pod that it admits.

    `has_app_armor`: the node's kernel enforces AppArmor. `has_user_namespaces`: the node has ids for users of pods.
    """
    if pod.spec.os is not None and pod.spec.os.name != "linux":
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    for name in pod_sysctls(pod):
        if refusal := _sysctl_refusal(name, pod):
            return "SysctlForbidden", f"forbidden sysctl: {refusal}"
    if any(True for _ in _enforced_app_armor_profiles(pod)):
        cause = "the container runtime applies no profiles" if has_app_armor else "AppArmor is not enabled on the host"
        return "AppArmor", f"Cannot enforce AppArmor: {cause}"
    if not pod.spec.host_users and (cause := _users_refusal(pod, has_user_namespaces)):
        return "UserNamespacesNotSupported", f"Cannot run the pod with hostUsers: false: {cause}"
    return None


def _users_refusal(pod: Pod, has_user_namespaces: bool) -> str:
    if not has_user_namespaces:
        return (
            f"the lab has no {POD_IDS} users for it beside its own {POD_IDS}; a lab of root has them, and one of an"
            " ordinary user with newuidmap (Debian: apt-get install uidmap) and that many in /etc/subuid and"
            " /etc/subgid"
        )
    foreign = (volume.name for volume in pod.spec.volumes if _is_foreign(volume))
    if (name := next(foreign, None)) is not None:
        return (
            f'the files of the volume "{name}" would belong to other users, because only the machine\'s root, and not a'
            " lab, may mount them with mapped ids"
        )
    return ""


def _is_foreign(volume: Volume) -> bool:
    """Whether a volume has files that are not the pod's alone."""
    return volume.host_path is not None or volume.persistent_volume_claim is not None or volume.ephemeral is not None


def pod_sysctls(pod: Pod) -> dict[str, str]:
    """Return the pod's sysctls, with dots in their names."""
    context = pod.spec.security_context
    return {} if context is None else {_with_dots(sysctl.name): sysctl.value for sysctl in context.sysctls}


def _with_dots(name: str) -> str:
    """Return a sysctl's name with dots. If its first separator is a slash, dots and slashes are swapped:
    `net/ipv4/conf/eth0.1/x` is `net.ipv4.conf.eth0/1.x` (sysctl.d(5))."""
    first = next((character for character in name if character in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))


def _sysctl_refusal(name: str, pod: Pod) -> str:
    if name not in SAFE_SYSCTLS:
        return f'"{name}" not allowlisted'
    if name.startswith("net.") and pod.spec.host_network:
        return f'"{name}" not allowed with host net enabled'
    if name.startswith("kernel.") and pod.spec.host_ipc:
        return f'"{name}" not allowed with host ipc enabled'
    return ""


def _enforced_app_armor_profiles(pod: Pod) -> Iterator[str]:
    of_pod = pod.spec.security_context.app_armor_profile if pod.spec.security_context is not None else None
    for container in pod.spec.init_containers + pod.spec.containers:
        own = container.security_context.app_armor_profile if container.security_context is not None else None
        profile = own or of_pod or AppArmorProfile(type=_annotated_app_armor(pod, container.name))
        if profile.type not in ("", "Unconfined"):
            yield profile.type


def _annotated_app_armor(pod: Pod, container: str) -> str:
    """Return the profile type of the annotation that preceded the field."""
    value = pod.metadata.annotations.get(_APP_ARMOR_ANNOTATION + container, "")
    return "Unconfined" if value == "unconfined" else value


def unsupported_fields(pod: Pod) -> list[tuple[str, str]]:
    """Return (reason, message) of an Event for each field of an admitted pod that has no effect on this node."""
    events = []
    if _has_selinux_options(pod):
        message = "seLinuxOptions have no effect, as on a node without SELinux: the container runtime sets no labels"
        events.append(("SELinuxNotSupported", message))
    return events


def has_host_ports(pod: Pod) -> bool:
    """Whether ports of the node lead to ports of the pod. The service proxy maps them."""
    containers = pod.spec.init_containers + pod.spec.containers
    return not pod.spec.host_network and any(port.host_port for container in containers for port in container.ports)


def _has_selinux_options(pod: Pod) -> bool:
    if pod.spec.security_context is not None and pod.spec.security_context.se_linux_options is not None:
        return True
    contexts = [container.security_context for container in pod.spec.init_containers + pod.spec.containers]
    return any(context is not None and context.se_linux_options is not None for context in contexts)
