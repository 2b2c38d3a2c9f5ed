"""Jobs for forked processes: to become the first process of a container, or a command in a running one.

Pure: no I/O, no clock, no randomness. The runtime plans a job and sends it to the new process only, as msgpack in a
memfd, with the descriptors that the job names, in the order of its fields. The zygote never receives it.
"""

from __future__ import annotations

import msgspec

from bridgehead.kubelet.runtimes.isolation.privileges import Privileges
from bridgehead.kubelet.runtimes.isolation.rootfs import RootPlan
from bridgehead.kubelet.runtimes.runtime import ContainerSpec, Mount
from bridgehead.standins.standin import Setup


class Part(msgspec.Struct, frozen=True, tag=True):
    """A part of Bridgehead as a built-in program: `bridgehead *arguments`."""

    arguments: tuple[str, ...]


class StandInProgram(msgspec.Struct, frozen=True, tag=True):
    """A program of a stand-in, by its name as for `load_program`."""

    name: str
    tag: str
    hostname: str
    setup: Setup


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """The program that a process runs: `built_in`, or else `argv` is executed."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    working_dir: str
    privileges: Privileges
    image_user: str = ""
    built_in: Part | StandInProgram | None = None


class RunContainer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Build a container and be its first process.

    Descriptors: a namespace for each of `namespaces` (net, uts, ipc), then the standard input if `has_stdin`, then
    standard output and standard error unless the container has a terminal, then the pod's user namespace if it has one
    (`id_base`, as in `SandboxSpec`), then the cgroup.procs of its cgroup if `has_cgroup`. `image_volumes` are mounts
    whose sources are made and filled from the image. `copies_images`: the kernel refuses overlays over the layers of
    images.
    """

    spec: ContainerSpec
    program: Program
    root: RootPlan
    files: dict[str, str]
    base: str
    namespaces: tuple[str, ...]
    image_volumes: tuple[Mount, ...] = ()
    copies_images: bool = False
    has_stdin: bool = False
    has_cgroup: bool = False
    id_base: int = 0


class RunCommand(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Run a program in a running container.

    Descriptors: a namespace for each of `namespaces` (mnt among them), three standard streams unless `has_terminal`,
    then the pod's user namespace if it has one (`id_base`), then the cgroup.procs of the container's cgroup if
    `has_cgroup`.
    """

    spec: ContainerSpec
    program: Program
    namespaces: tuple[str, ...]
    has_terminal: bool = False
    has_cgroup: bool = False
    id_base: int = 0


Job = RunContainer | RunCommand
