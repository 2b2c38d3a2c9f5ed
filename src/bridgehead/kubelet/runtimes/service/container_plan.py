"""The plan of a container: its command, environment, root file system and privileges, as a job for its first
process."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes.image_resolver import ResolvedImage
from bridgehead.kubelet.runtimes.isolation import privileges, rootfs, seccomp
from bridgehead.kubelet.runtimes.isolation.privileges import Privileges
from bridgehead.kubelet.runtimes.isolation.rootfs import RootPlan
from bridgehead.kubelet.runtimes.runtime import (
    LAST_IMAGE_ID,
    POD_IDS,
    ContainerSpec,
    Image,
    Mount,
    RuntimeFailure,
    SandboxSpec,
    Seccomp,
    Security,
)
from bridgehead.kubelet.runtimes.spawn.jobs import Part, Program, RunContainer, StandInProgram
from bridgehead.kubelet.runtimes.spawn.program_start import DEFAULT_PATH
from bridgehead.standins import host_tools, program_scripts
from bridgehead.standins.host_tools import HostTools
from bridgehead.standins.standin import BUSYBOX_TOOLS, NETWORK_TOOLS, Setup, StandIn

_UID_MAP: Final = "/proc/self/uid_map"
_GID_MAP: Final = "/proc/self/gid_map"
_MOST_PODS: Final = 110  # of a node


class NodeFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Files of the node that containers see.

    `host_root` is the root file system of containers whose image has none. `base` is an empty directory that a
    container may cover while it builds its root. `tools` are the host's programs for stand-ins. `own_paths` are those
    of this interpreter and its modules that `host_root` does not show. `copies_images`: the kernel refuses overlays
    over the layers of images.
    """

    host_root: RootPlan
    base: str
    tools: HostTools
    own_paths: Collection[str]
    copies_images: bool = False


class ContainerPlanner:
    """Plans containers on one node. `available_capabilities` are the runtime's own."""

    def __init__(self, files: NodeFiles, available_capabilities: frozenset[str], *, has_cgroups: bool) -> None:
        self._files = files
        self._available_capabilities = available_capabilities
        self._has_cgroups = has_cgroups
        # The ids of this process's user namespace, which do not change.
        self._has_pod_ids = find_pod_id_ranges() > 0
        self._users, self._groups = _read_id_map(_UID_MAP), _read_id_map(_GID_MAP)

    def plan(
        self, spec: ContainerSpec, sandbox: SandboxSpec, namespaces: Collection[str], image: ResolvedImage
    ) -> RunContainer:
        """`namespaces` are the kinds that the sandbox has ("net", "uts", "ipc"). Raises `RuntimeFailure`."""
        argv = plan_argv(image.image, spec)
        environment = plan_environment(image.image, spec, sandbox.hostname)
        mounts = list(spec.mounts)
        files = {} if image.layers is not None else {"/etc/hostname": f"{sandbox.hostname}\n"}
        setup = plan_setup(spec)
        if image.stand_in is not None:
            files |= {**image.stand_in.files, **plan_scripts(image.stand_in, image.tag, setup, self._files.own_paths)}
            tools, path = plan_tools(image.stand_in, self._files.tools, environment["PATH"])
            mounts += tools
            environment |= {"PATH": path, **plan_prompt(image.stand_in, self._files.tools, spec)}
        mounts += [
            Mount(source=path, target=f"{prefix}{path}", read_only=True)
            for prefix in plan_own_files(image, self._files.tools)
            for path in self._files.own_paths
        ]
        if not image.part:  # a part has to be root of the node's network, whatever user its image names
            # A range of a pod with users of its own is not for others.
            own = [range(POD_IDS)] if sandbox.id_base or self._has_pod_ids else None
            check_ids(spec.security, own or self._users, own or self._groups)
        return RunContainer(
            spec=msgspec.structs.replace(spec, mounts=tuple(mounts)),
            program=Program(
                argv=argv,
                environment=environment,
                working_dir=plan_working_dir(image.image, spec),
                privileges=self._plan_privileges(spec.security),
                image_user=image.image.user,
                built_in=_find_built_in(argv, image, sandbox.hostname, setup),
            ),
            root=self._plan_root(image, has_own_users=sandbox.id_base > 0),
            files=files,
            base=self._files.base,
            namespaces=tuple(namespaces),
            image_volumes=tuple(_plan_volumes(image.image, spec)),
            copies_images=self._files.copies_images,
            has_stdin=spec.stdin and not spec.tty,
            has_cgroup=self._has_cgroups,
            id_base=sandbox.id_base,
        )

    def _plan_root(self, image: ResolvedImage, *, has_own_users: bool) -> RootPlan:
        """An image for a pod with users of its own is a copy, whose files can belong to them."""
        if image.layers is None:
            return self._files.host_root
        return rootfs.plan_image_root(image.layers, is_copied=self._files.copies_images or has_own_users)

    def _plan_privileges(self, security: Security) -> Privileges:
        names = privileges.plan_capabilities(security, self._available_capabilities)
        return Privileges(
            capabilities=privileges.numbers_of(names),
            groups=security.supplemental_groups,
            no_new_privileges=security.no_new_privileges,
            filter=_compile_filter(security.seccomp, names),
        )


def _plan_volumes(image: Image, spec: ContainerSpec) -> list[Mount]:
    if not spec.volume_directory:
        return []
    return rootfs.plan_image_volumes(image.volumes, spec.mounts, spec.volume_directory)


def plan_tools(stand_in: StandIn, tools: HostTools, path: str) -> tuple[list[Mount], str]:
    """Mounts of the host's programs for a stand-in, and its PATH: built-in programs first, then links; scripts for
    missing programs last."""
    mounts = []
    if stand_in.tools:
        links, target = {
            "busybox": (tools.busybox, BUSYBOX_TOOLS),
            "network": (tools.network, NETWORK_TOOLS),
        }[stand_in.tools]
        if links:
            mounts.append(Mount(source=links, target=target, read_only=True))
            path = f"{target}:{path}"
        if stand_in.tools == "busybox" and tools.program:
            # /bin/sh of these images, whose messages tests compare.
            mounts.append(Mount(source=tools.program, target=tools.shell, read_only=True))
        if stand_in.programs:
            path = f"{program_scripts.DIRECTORY}:{path}"
        if tools.lacking:
            mounts.append(Mount(source=tools.lacking, target=host_tools.LACKING, read_only=True))
            path = f"{path}:{host_tools.LACKING}"
    return mounts, path


def plan_scripts(stand_in: StandIn, tag: str, setup: Setup, own_paths: Collection[str]) -> dict[str, str]:
    """The scripts for built-in programs, which find the interpreter where `plan_own_files` has it."""
    return program_scripts.scripts(stand_in, tag, setup, own_paths if stand_in.tools == "busybox" else ())


def plan_own_files(image: ResolvedImage, tools: HostTools) -> list[str]:
    """Directories below which a container has this interpreter's paths: "" for the same paths as on the host.

    A built-in program that runs in a fork of the zygote needs the same ones. In images with BusyBox,
    all built-in programs are scripts.
    """
    stand_in = image.stand_in
    prefixes = []
    if image.part or (stand_in is not None and stand_in.programs and stand_in.tools != "busybox"):
        prefixes.append("")
    if stand_in is not None and (stand_in.tools == "busybox" or (stand_in.tools and tools.has_built_in)):
        prefixes.append(program_scripts.OWN_FILES)
    return prefixes


def plan_prompt(stand_in: StandIn, tools: HostTools, spec: ContainerSpec) -> dict[str, str]:
    """The variable for the prompt of BusyBox's shell, where /bin/sh is that of a host without BusyBox: both dash and
    bash expand the working directory in it."""
    if stand_in.tools != "busybox" or tools.program or "PS1" in spec.env:
        return {}
    return {"PS1": f"${{PWD}} {'$' if spec.security.user else '#'} "}


def plan_setup(spec: ContainerSpec) -> Setup:
    """The declarations of the pod for the container, for the log of a stand-in."""
    return Setup(
        image=spec.image.name,
        ports=spec.ports,
        variables=spec.variables,
        mounts=tuple(mount.target for mount in spec.mounts),
    )


def plan_argv(image: Image, spec: ContainerSpec) -> tuple[str, ...]:
    """A Pod's `command` replaces entrypoint and command of the image; its `args` replace only the command."""
    if spec.command:
        return (*spec.command, *spec.args)
    return (*image.entrypoint, *(spec.args or image.command))


def plan_environment(image: Image, spec: ContainerSpec, hostname: str) -> dict[str, str]:
    """The environment without HOME, which the first process reads from the container's /etc/passwd."""
    return {"PATH": DEFAULT_PATH, "HOSTNAME": hostname, **image.env, **spec.env}


def plan_working_dir(image: Image, spec: ContainerSpec) -> str:
    return spec.working_dir or image.working_dir or "/"


def plan_exec(container: RunContainer, argv: tuple[str, ...], *, has_terminal: bool = False) -> Program:
    """The program for a command in a running container: the container's environment and privileges."""
    program = container.program
    environment = {**program.environment, "TERM": "xterm"} if has_terminal else program.environment
    return msgspec.structs.replace(program, argv=argv, environment=environment, built_in=None)


def _compile_filter(profile: Seccomp, capabilities: frozenset[str]) -> bytes:
    """Raises `RuntimeFailure`."""
    if profile.kind == "Unconfined":
        return b""
    try:
        if profile.kind == "Localhost":
            with open(profile.path, "rb") as file:
                return seccomp.localhost_filter(file.read(), capabilities)
        return seccomp.default_filter(capabilities)
    except OSError as error:
        raise RuntimeFailure(f"cannot load seccomp profile {profile.path!r}: {error.strerror}") from error
    except (seccomp.BadProfile, seccomp.SeccompUnavailable) as error:
        raise RuntimeFailure(str(error)) from error


def _find_built_in(
    argv: tuple[str, ...], image: ResolvedImage, hostname: str, setup: Setup
) -> Part | StandInProgram | None:
    """The built-in program for `argv`, None if `argv` is to be executed."""
    name = os.path.basename(argv[0]) if argv else ""
    if image.part and name in ("bridgehead", f"kube-{image.part}", image.part):
        return Part(argv[1:] if name == "bridgehead" else (image.part, *argv[1:]))
    if image.stand_in is not None and name in image.stand_in.programs and image.stand_in.tools != "busybox":
        return StandInProgram(image.stand_in.programs[name], image.tag, hostname, setup)
    return None


def check_ids(security: Security, users: list[range], groups: list[range]) -> None:
    """Raise `RuntimeFailure` when the user namespace lacks a requested id."""
    requested = [("user", security.user), ("group", security.group)]
    requested += [("group", number) for number in security.supplemental_groups]
    for kind, number in requested:
        if number and not any(number in each for each in (users if kind == "user" else groups)):
            raise RuntimeFailure(
                f"cannot run as {kind} {number}: the cluster runs in a user namespace that has no such id; it has more"
                " with newuidmap (Debian: apt-get install uidmap) and a range of yours in /etc/subuid and /etc/subgid,"
                " or when it is started as root"
            )


def find_last_id() -> int:
    """The last id for which it and all before it exist in this user namespace, as users and as groups."""
    return min(last_id(_read_id_map(path)) for path in (_UID_MAP, _GID_MAP))


def find_pod_id_ranges() -> int:
    """Return how many pods can have a user namespace: the ids after the node's own, of which each takes POD_IDS."""
    return min(pod_id_ranges(_read_id_map(path)) for path in (_UID_MAP, _GID_MAP))


def pod_id_ranges(ids: list[range]) -> int:
    """Return the number of ranges of POD_IDS that exist from id POD_IDS on, without a gap; at most 110, as pods."""
    end = POD_IDS
    for each in sorted(ids, key=lambda each: each.start):
        if each.start <= end < each.stop:
            end = each.stop
    return min((end - POD_IDS) // POD_IDS, _MOST_PODS)


def last_id(ids: list[range]) -> int:
    """The last id that `ids` has together with all before it, as far as images have ids."""
    found = -1
    for each in sorted(ids, key=lambda each: each.start):
        if each.start > found + 1:
            break
        found = max(found, each.stop - 1)
    return min(found, LAST_IMAGE_ID)


def _read_id_map(path: str) -> list[range]:
    """The ids that exist in this user namespace (user_namespaces(7))."""
    with open(path, encoding="ascii") as file:
        return list(_parse_id_map(file.read()))


def _parse_id_map(text: str) -> Iterator[range]:
    for line in text.splitlines():
        first, _, count = (int(field) for field in line.split())
        yield range(first, first + count)
