"""What a process that the zygote forked is asked to become: the first process of a container, or a command in one.

The runtime plans a job; it travels to the new process alone, as msgpack in a file in memory, with the descriptors that
the job counts, in the order of its fields. The zygote never sees it.
"""

from __future__ import annotations

import msgspec

from bridgehead.kubelet.runtimes.privileges import Privileges
from bridgehead.kubelet.runtimes.rootfs import RootPlan
from bridgehead.kubelet.runtimes.runtime import ContainerSpec


class Part(msgspec.Struct, frozen=True, tag=True):
    """One of Bridgehead's parts: `bridgehead *arguments`."""

    arguments: tuple[str, ...]


class StandInProgram(msgspec.Struct, frozen=True, tag=True):
    """A stand-in's built-in program."""

    stand_in: str
    program: str
    tag: str
    hostname: str


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What a process becomes: `built_in`, or else `argv` is executed."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    working_dir: str
    privileges: Privileges
    image_user: str = ""
    built_in: Part | StandInProgram | None = None


class RunContainer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Build a container and be its first process.

    Descriptors: a namespace for each of `namespaces` (net, uts, ipc), then the standard input if `has_stdin`, then
    standard output and standard error unless the container has a terminal, then its cgroup's directory if `has_cgroup`.
    """

    spec: ContainerSpec
    program: Program
    root: RootPlan
    files: dict[str, str]
    base: str
    namespaces: tuple[str, ...]
    has_stdin: bool = False
    has_cgroup: bool = False


class RunCommand(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Execute a program in a container that runs.

    Descriptors: a namespace for each of `namespaces` (mnt among them), three standard streams unless `has_terminal`,
    then the container's cgroup if `has_cgroup`.
    """

    spec: ContainerSpec
    program: Program
    namespaces: tuple[str, ...]
    has_terminal: bool = False
    has_cgroup: bool = False


Job = RunContainer | RunCommand
