"""Start of a container: its environment, mounts and files; then the runtime starts it.

Called by `driver`. Events and their texts are Kubernetes'. Source: kubelet's `startContainer` and
`generateContainerConfig`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bridgehead.kubelet.errors import ArgumentListTooLong, ConfigNotReady, SecurityRefused
from bridgehead.kubelet.nofollow import open_file, remove_tree
from bridgehead.kubelet.runtimes.isolation import descriptor_paths
from bridgehead.kubelet.runtimes.runtime import (
    LAST_IMAGE_ID,
    ContainerRefused,
    ContainerSpec,
    Image,
    ImageUnavailable,
    Mount,
    RuntimeFailure,
    SandboxMissing,
    Security,
)
from bridgehead.kubelet.volumes.downward_api import Addresses
from bridgehead.objects.core import Container

from .argument_list import ArgumentList
from .container_environment import EnvironmentSources, container_environment, declared_variables
from .container_logs import remove_logs
from .context import PodContext
from .etc_files import container_host_name, write_etc_files
from .mounts import plan_mounts
from .resource_limits import plan_limits
from .runs import Run, StartRefused, run_of
from .security_context import plan_security

log = logging.getLogger(__name__)

START_ERROR = "StartError"  # the reason of a run whose program could not be executed
_LARGEST_ENV_FILE = 64 << 10  # bytes; as in Kubernetes


async def start_container(context: PodContext, container: Container, image: Image, attempt: int, target: str) -> Run:
    """Start run number `attempt` (from 0) of `container`. Raises `StartRefused` when it has to wait.

    `target` is the id of the container whose PID namespace it shares, "" for none.

    A program that can't be executed counts as a run that failed at once (reason StartError).
    """
    try:
        spec = _container_spec(context, container, attempt, image, target)
    except (ConfigNotReady, SecurityRefused) as error:
        context.record("Warning", "Failed", f"Error: {error}", container)
        raise StartRefused("CreateContainerConfigError", str(error)) from error
    except OSError as error:
        context.record("Warning", "Failed", f"Error: {error}", container)
        raise StartRefused("CreateContainerError", str(error)) from error
    except ArgumentListTooLong as error:
        context.record("Warning", "Failed", f"Error: {error}", container)
        return _failed_run(container, image, attempt, str(error))
    if image.source in ("store", "registry"):
        await asyncio.to_thread(_remove_earlier_volumes, Path(spec.volume_directory))
    try:
        info = await context.node.runtime.start_container(spec)
    except (ContainerRefused, ImageUnavailable, SandboxMissing) as error:  # a later attempt may have another one
        context.record("Warning", "Failed", f"Error: {error}", container)
        raise StartRefused("CreateContainerError", str(error)) from error
    except RuntimeFailure as error:
        context.record("Warning", "Failed", f"Error: {error}", container)
        await _warn_of_users(context, container, image, attempt, spec.security)
        return _failed_run(container, image, attempt, str(error))
    context.record("Normal", "Created", "Container created", container)
    context.record("Normal", "Started", "Container started", container)
    await _warn_of_users(context, container, image, attempt, spec.security)
    return run_of(info)


def _failed_run(container: Container, image: Image, attempt: int, message: str) -> Run:
    """Return a run whose program could not be executed."""
    now = time.time()
    return Run(
        attempt=attempt,
        id=secrets.token_hex(32),  # that of a container that was created; the runtime keeps nothing of it
        image=container.image,
        image_id=image.id,
        started_at=now,
        finished_at=now,
        exit_code=128,
        reason=START_ERROR,
        message=message,
    )


async def _warn_of_users(
    context: PodContext, container: Container, image: Image, attempt: int, security: Security
) -> None:
    """Record with the first run that the node lacks the container's user, or users that an image may need."""
    if attempt:
        return
    is_stored = image.source in ("store", "registry")
    asked = max(security.user or 0, security.group or 0, *security.supplemental_groups)
    wanted = LAST_IMAGE_ID if is_stored else asked
    if not wanted:  # every node has root
        return
    try:
        last = (await context.node.runtime.find_features()).last_id
    except RuntimeFailure:
        return
    if last < wanted:
        text = describe_missing_users(container.image if is_stored else "", last)
        context.record("Warning", "UsersMissing", text, container)


def describe_missing_users(image: str, last: int) -> str:
    """Describe what is to be done about users above the id `last`. `image`: one whose files have users, "" for none."""
    effect = "programs of the image that change to one fail, and its files belong to root" if image else "it cannot run"
    remove = f", `bridgehead image remove {image}`" if image else ""
    return (
        f"users with ids above {last} do not exist in this lab: {effect}. Install newuidmap (Debian: apt-get install"
        f" uidmap), get a range in /etc/subuid and /etc/subgid, and run `bridgehead down`{remove} and `bridgehead up`"
    )


def _container_spec(
    context: PodContext, container: Container, attempt: int, image: Image, target: str
) -> ContainerSpec:
    node, pod = context.node, context.pod
    namespace = pod.metadata.namespace
    security = plan_security(pod, container, image, node.settings.seccomp_root)
    sources = EnvironmentSources(
        services=tuple(node.services.items()),
        config_map=lambda name: node.objects.config_map(namespace, name),
        secret=lambda name: node.objects.secret(namespace, name),
        env_file=lambda volume, path: read_env_file(context.volumes, volume, path),
        addresses=Addresses(context.pod_ips, node.settings.ips),
        allocatable=node.allocatable,
    )
    arguments = ArgumentList()
    env = container_environment(pod, container, sources, arguments)
    command = arguments.expand_texts(container.command, "command", env)
    args = arguments.expand_texts(container.args, "args", env)
    log_path = node.settings.log_path(pod, container.name, attempt)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    remove_logs(log_path.parent, attempt - 2)  # the logs of this run and of the one before are kept
    return ContainerSpec(
        pod_uid=pod.metadata.uid,
        name=container.name,
        attempt=attempt,
        image=_with_stop_signal(image, container),
        command=command,
        args=args,
        env={"HOSTNAME": container_host_name(node, pod)} | env,
        working_dir=container.working_dir,
        mounts=_mounts(context, container, env),
        log_path=str(log_path),
        security=security,
        limits=plan_limits(pod, container, node.allocatable),
        termination_message_path=container.termination_message_path,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        target=target,
        volume_directory=str(_volume_directory(context, container, attempt)),
        ports=tuple(f"{port.container_port}/{port.protocol}" for port in container.ports),
        variables=declared_variables(pod, container, sources),
    )


def _volume_directory(context: PodContext, container: Container, attempt: int) -> Path:
    """The directory of a run's image volumes and of the copy of its image; it is removed with the pod's."""
    return context.node.volumes.container_directory(context.pod.metadata.uid, container.name) / str(attempt)


def _remove_earlier_volumes(directory: Path) -> None:
    """Remove the image volumes and the copies of a container's earlier runs: each run has new ones, as with containerd.

    `directory` is that of the new run.
    """
    with contextlib.suppress(OSError):  # the container has none
        for entry in list(directory.parent.iterdir()):
            if entry != directory:
                remove_tree(entry)


def _with_stop_signal(image: Image, container: Container) -> Image:
    """Return the image with the container's own stop signal, if it has one."""
    own = container.lifecycle.stop_signal if container.lifecycle is not None else ""
    return msgspec.structs.replace(image, stop_signal=own) if own else image


def _prepare_sub_path(mount: Mount, volume: str, container: str, *, has_own_users: bool) -> None:
    """Make the directory of a subPath. `has_own_users`: the volume belongs to users of the pod.

    Raises `ConfigNotReady`: a later attempt may succeed. The runtime resolves the path again, because containers may
    change the volume.
    """
    if not mount.sub_path or mount.image:
        return
    try:
        directory = descriptor_paths.open_source(mount.source, links=mount.follows_links)
        try:
            os.close(descriptor_paths.open_beneath(directory, mount.sub_path, keeps_owner=has_own_users))
        finally:
            os.close(directory)
    except OSError as error:  # which is for the log only: it would describe the node's files
        log.warning("subPath %r of %s: %s", mount.sub_path, mount.source, error.strerror)
        message = f'failed to prepare subPath for volumeMount "{volume}" of container "{container}"'
        raise ConfigNotReady(message) from error


def read_env_file(volumes: Mapping[str, str], volume: str, path: str) -> str | None:
    """Return the text of a file in a volume, None if there is none. `volumes` is name -> path on the node.

    Raises OSError, ValueError.
    """
    directory = volumes.get(volume)
    if directory is None:
        raise ValueError(f'cannot find the volume "{volume}" referenced by FileKeyRef')
    try:
        with open_file(Path(directory, path)) as file:
            content = file.read(_LARGEST_ENV_FILE + 1)
    except FileNotFoundError:
        return None
    if len(content) > _LARGEST_ENV_FILE:
        raise ValueError(f'"{path}" is larger than {_LARGEST_ENV_FILE >> 10} KiB')
    return content.decode("utf-8")


def _mounts(context: PodContext, container: Container, env: dict[str, str]) -> tuple[Mount, ...]:
    mounts = plan_mounts(context.pod, container, env, context.volumes)
    for declared, mount in zip(container.volume_mounts, mounts, strict=True):
        _prepare_sub_path(mount, declared.name, container.name, has_own_users=context.id_base > 0)
    taken = {mount.target.rstrip("/") for mount in mounts}
    files = write_etc_files(context.node, context.pod, context.pod_ips)
    if context.id_base:
        for source in files.values():
            os.chown(source, context.id_base, context.id_base)
    security = container.security_context
    # Read-only with the root file system, except /etc/hosts: as with kubelet and containerd.
    is_read_only = security is not None and security.read_only_root_filesystem
    mounts += [
        Mount(source=str(source), target=target, read_only=is_read_only and target != "/etc/hosts")
        for target, source in files.items()
        if target not in taken
    ]
    return tuple(mounts)
