"""Start one container: its image, environment, mounts and files, then the runtime, with Kubernetes' events.

Called by the pod worker. Source: kubelet's `startContainer` and `generateContainerConfig`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from bridgehead.objects.core import Container, Pod

from .environment import EnvironmentSources, container_environment, expand
from .errors import ConfigNotReady, SecurityRefused
from .fields import Addresses
from .hosts import hosts_file, kernel_host_name, pod_resolver, resolver_file
from .limits import plan_limits
from .logs import remove_logs
from .mounts import plan_mounts
from .parts import NodeParts
from .plan import Run
from .runtimes.runtime import ContainerInfo, ContainerSpec, Image, ImageUnavailable, Mount, RuntimeFailure
from .security import plan_security


class LaunchRefused(Exception):
    """The container does not run; `reason` is what its waiting state shows, the message why."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PodFacts(msgspec.Struct, frozen=True):
    """What is known of a pod whose sandbox is there. `volumes` is name -> path on the node."""

    pod_ips: tuple[str, ...]
    volumes: dict[str, str]


def run_of(info: ContainerInfo) -> Run:
    """A runtime's report as the plan and the status see it."""
    return Run(
        attempt=info.attempt,
        id=info.id,
        image=info.image.name,
        image_id=info.image.id,
        started_at=info.started_at,
        finished_at=None if info.state == "running" else info.finished_at or info.started_at,
        exit_code=info.exit_code or 0,
        signal=info.signal or 0,
        reason="OOMKilled" if info.is_oom_killed else "",
        message=info.message,
    )


async def launch(parts: NodeParts, pod: Pod, container: Container, attempt: int, facts: PodFacts) -> Run:
    """Start `container` for the `attempt`th time (from 0). Raises `LaunchRefused` when it has to wait.

    A program that can't be started counts as a run that failed at once (reason StartError).
    """
    image = await _find_image(parts, pod, container)
    try:
        spec = _container_spec(parts, pod, container, attempt, image, facts)
    except (ConfigNotReady, SecurityRefused) as error:
        parts.record(pod, "Warning", "Failed", f"Error: {error}", container)
        raise LaunchRefused("CreateContainerConfigError", str(error)) from error
    except OSError as error:
        parts.record(pod, "Warning", "Failed", f"Error: {error}", container)
        raise LaunchRefused("CreateContainerError", str(error)) from error
    try:
        info = await parts.runtime.start_container(spec)
    except RuntimeFailure as error:
        parts.record(pod, "Warning", "Failed", f"Error: {error}", container)
        now = time.time()
        return Run(
            attempt=attempt,
            image=container.image,
            image_id=image.id,
            started_at=now,
            finished_at=now,
            exit_code=128,
            reason="StartError",
            message=str(error),
        )
    parts.record(pod, "Normal", "Created", f"Created container: {container.name}", container)
    parts.record(pod, "Normal", "Started", f"Started container {container.name}", container)
    return run_of(info)


async def _find_image(parts: NodeParts, pod: Pod, container: Container) -> Image:
    try:
        image = await parts.runtime.find_image(container.image)
    except ImageUnavailable as error:
        message = f'Failed to pull image "{container.image}": {error}'
        parts.record(pod, "Warning", "Failed", message, container)
        parts.record(pod, "Warning", "Failed", "Error: ErrImagePull", container)
        raise LaunchRefused("ErrImagePull", str(error)) from error
    except RuntimeFailure as error:
        raise LaunchRefused("ImageInspectError", str(error)) from error
    if image.source == "stand-in":
        message = f'Container image "{container.image}" is played by a stand-in: {image.id}'
    else:
        message = f'Container image "{container.image}" already present on machine'
    parts.record(pod, "Normal", "Pulled", message, container)
    return image


def _container_spec(
    parts: NodeParts, pod: Pod, container: Container, attempt: int, image: Image, facts: PodFacts
) -> ContainerSpec:
    namespace = pod.metadata.namespace
    security = plan_security(pod, container, image, parts.settings.seccomp_root)
    env = container_environment(
        pod,
        container,
        EnvironmentSources(
            services=tuple(parts.services.items()),
            config_map=lambda name: parts.objects.config_map(namespace, name),
            secret=lambda name: parts.objects.secret(namespace, name),
            addresses=Addresses(facts.pod_ips, parts.settings.ips),
            allocatable=parts.allocatable,
        ),
    )
    log_path = parts.settings.log_path(pod, container.name, attempt)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    remove_logs(log_path.parent, attempt - 2)  # this run and the last one are kept
    return ContainerSpec(
        pod_uid=pod.metadata.uid,
        name=container.name,
        attempt=attempt,
        image=image,
        command=tuple(expand(word, env) for word in container.command),
        args=tuple(expand(word, env) for word in container.args),
        env={"HOSTNAME": _host_name(parts, pod)} | env,
        working_dir=container.working_dir,
        mounts=_mounts(parts, pod, container, env, facts),
        log_path=str(log_path),
        security=security,
        limits=plan_limits(pod, container, parts.allocatable, parts.settings.pod_max_pids),
        termination_message_path=container.termination_message_path,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
    )


def _host_name(parts: NodeParts, pod: Pod) -> str:
    settings = parts.settings
    return settings.name if pod.spec.host_network else kernel_host_name(pod, settings.cluster_domain)


def _mounts(
    parts: NodeParts, pod: Pod, container: Container, env: dict[str, str], facts: PodFacts
) -> tuple[Mount, ...]:
    mounts = plan_mounts(pod, container, env, facts.volumes)
    taken = {mount.target.rstrip("/") for mount in mounts}
    files = _etc_files(parts, pod, facts.pod_ips)
    context = container.security_context
    # As the root file system, except /etc/hosts: so it is with kubelet and containerd.
    is_read_only = context is not None and context.read_only_root_filesystem
    mounts += [
        Mount(source=str(source), target=target, read_only=is_read_only and target != "/etc/hosts")
        for target, source in files.items()
        if target not in taken
    ]
    return tuple(mounts)


def _etc_files(parts: NodeParts, pod: Pod, pod_ips: tuple[str, ...]) -> dict[str, Path]:
    """Write the pod's /etc files (shared by its containers) and say where each goes."""
    settings = parts.settings
    directory = parts.volumes.pod_directory(pod.metadata.uid)
    directory.mkdir(parents=True, exist_ok=True)
    node_hosts = _read_text("/etc/hosts") if pod.spec.host_network else ""
    resolver, warnings = pod_resolver(pod, settings.resolver, settings.cluster_dns, settings.cluster_domain)
    for reason, message in warnings:
        parts.record(pod, "Warning", reason, message)
    contents = {
        "/etc/hosts": ("etc-hosts", hosts_file(pod, pod_ips, settings.cluster_domain, node_hosts)),
        "/etc/resolv.conf": ("resolv.conf", resolver_file(resolver)),
    }
    if not pod.spec.host_network:
        contents["/etc/hostname"] = ("hostname", _host_name(parts, pod) + "\n")
    files = {}
    for target, (name, text) in contents.items():
        path = directory / name
        # Not replaced once it is there: the bind mounts of running containers hold on to the file.
        if not _has_content(path, text.encode()):
            path.write_text(text)
        files[target] = path
    return files


def _has_content(path: Path, content: bytes) -> bool:
    """A container may have written anything to the file, and any amount of it."""
    if not path.exists() or path.stat().st_size != len(content):
        return False
    return path.read_bytes() == content


def _read_text(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
