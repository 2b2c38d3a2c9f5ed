"""Limits of containers, as a runtime in a lab's part of the cgroup v2 hierarchy enforces them.

The tests run in the guest, where no other hierarchy has the controllers.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from bridgehead.kubelet.runtimes.isolation.cgroups import Prepared, prepare_delegation, remove_delegation
from bridgehead.kubelet.runtimes.runtime import ContainerInfo, Limits, RuntimeFailure

from .runtime_world import DEADLINE, FIRST_ID, Node, World, enter_world, make_node, until

pytestmark = pytest.mark.integration
guest = pytest.mark.guest

MIB = 1 << 20
HIERARCHY = Path("/sys/fs/cgroup")


@pytest.fixture(scope="module")
def delegated() -> Iterator[Path]:
    """A lab's part of the hierarchy, of which the guest's init mounts none."""
    subprocess.run(["mount", "-t", "cgroup2", "none", HIERARCHY], check=True)
    try:
        prepared = prepare_delegation("limits", FIRST_ID, FIRST_ID)
        assert isinstance(prepared, Prepared), prepared
        yield Path(prepared.directory)
        assert remove_delegation(prepared.directory)
    finally:
        subprocess.run(["umount", HIERARCHY], check=True)


@pytest.fixture(scope="module")
def node(delegated: Path) -> Iterator[Node]:
    with make_node("range", str(delegated)) as node:
        yield node


@pytest.fixture
async def world(node: Node) -> AsyncIterator[World]:
    async with enter_world(node) as world:
        await world.pod("p")
        yield world


def group_of(delegated: Path, container: ContainerInfo) -> Path:
    [found] = delegated.glob(f"*/{container.id}")
    return found


def groups_in(delegated: Path) -> list[str]:
    return [path.name for path in delegated.iterdir() if path.is_dir()]


def is_gone(group: Path) -> bool:
    return not group.exists()


async def until_removed(group: Path) -> None:
    async def is_removed() -> bool:
        return is_gone(group)

    await until(is_removed)


BOMB = "dd if=/dev/zero of=/dev/null bs=200M count=1"


@guest
async def test_a_container_that_exceeds_its_memory_limit_is_killed(world: World, delegated: Path) -> None:
    limits = Limits(memory=32 * MIB)
    neighbour = await world.start("p", "neighbour", command=("sleep", "600"), limits=limits)
    info = await world.start("p", command=("sh", "-c", f"read go; {BOMB}; sleep 600"), limits=limits, stdin=True)
    group = group_of(delegated, info)
    attached = await world.client.open_attach(info.id, stdin=True)
    os.write(attached.stdin_fd or -1, b"go\n")
    await attached.close()
    ended = await world.wait_exit(info.id)
    assert (ended.exit_code, ended.is_oom_killed) == (137, True)
    await until_removed(group)
    assert await world.sh(neighbour, "echo alive") == "alive\n"

    await world.client.signal_container(neighbour.id, signal.SIGKILL)
    ended = await world.wait_exit(neighbour.id)
    assert (ended.exit_code, ended.is_oom_killed) == (137, False), "a kill is not for lack of memory"


@guest
async def test_the_containers_of_a_pod_share_its_limits(world: World, delegated: Path) -> None:
    await world.pod("q", limits=Limits(memory=48 * MIB, cpu_millis=1500, cpu_request_millis=250, pids=50))
    neighbour = await world.start("q", "neighbour", command=("sleep", "600"))
    info = await world.start("q", command=("sh", "-c", f"read go; {BOMB}; sleep 600"), stdin=True)
    pod = group_of(delegated, info).parent
    files = {name: (pod / name).read_text().strip() for name in ("memory.max", "cpu.max", "cpu.weight", "pids.max")}
    assert files == {"memory.max": str(48 * MIB), "cpu.max": "150000 100000", "cpu.weight": "35", "pids.max": "50"}
    assert group_of(delegated, neighbour).parent == pod
    attached = await world.client.open_attach(info.id, stdin=True)
    os.write(attached.stdin_fd or -1, b"go\n")
    await attached.close()
    ended = await world.wait_exit(info.id)
    assert (ended.exit_code, ended.is_oom_killed) == (137, True)
    assert await world.sh(neighbour, "echo alive") == "alive\n"

    await world.client.update_sandbox("q", Limits(memory=64 * MIB, cpu_request_millis=500))
    assert [(pod / name).read_text().strip() for name in ("memory.max", "cpu.weight")] == [str(64 * MIB), "59"]
    with pytest.raises(RuntimeFailure, match="below the current usage"):
        await world.client.update_sandbox("q", Limits(memory=1))
    await world.client.remove_sandbox("q")
    await until_removed(pod)
    with pytest.raises(RuntimeFailure, match="the pod has no sandbox"):
        await world.client.update_sandbox("q", Limits())


@guest
async def test_a_small_memory_limit_suffices_for_a_small_program(world: World) -> None:
    ended = await world.run_to_end("p", "echo small", limits=Limits(memory=4 * MIB))
    assert (ended.exit_code, ended.is_oom_killed) == (0, False)


@guest
async def test_a_command_counts_against_the_limits_of_its_container(world: World, delegated: Path) -> None:
    info = await world.start("p", command=("sleep", "600"), limits=Limits(memory=32 * MIB, pids=20))
    group = group_of(delegated, info)
    assert (group / "pids.max").read_text() == "20\n"
    own = f"0::/{delegated.name}/{group.parent.name}/{group.name}"
    assert await world.sh(info, "cat /proc/self/cgroup") == f"{own}\n"
    session = await world.client.open_exec(info.id, ("cat", "/proc/self/cgroup"), stdin=False, tty=True)
    assert await session.wait() == 0
    assert os.read(session.stdout_fd or -1, 4096).decode().strip() == own
    await session.close()
    result = await world.client.exec_in_container(info.id, ("sh", "-c", BOMB), timeout=DEADLINE)
    ended = await world.wait_exit(info.id)
    assert (result.exit_code, ended.exit_code, ended.is_oom_killed) == (137, 137, True)


@guest
async def test_limits_of_a_running_container_are_changed(world: World, delegated: Path) -> None:
    info = await world.start("p", command=("sleep", "600"), limits=Limits(memory=32 * MIB, cpu_millis=500))
    group = group_of(delegated, info)
    await world.client.update_container(info.id, Limits(memory=64 * MIB, cpu_millis=250, cpu_request_millis=250))
    assert int((group / "memory.max").read_text()) == 64 * MIB
    assert (group / "cpu.max").read_text() == "25000 100000\n"
    with pytest.raises(RuntimeFailure, match="below the current usage"):
        await world.client.update_container(info.id, Limits(memory=1))
    assert int((group / "memory.max").read_text()) == 64 * MIB
    await world.client.signal_container(info.id, signal.SIGKILL)
    await world.wait_exit(info.id)
    with pytest.raises(RuntimeFailure, match="container is not running"):
        await world.client.update_container(info.id, Limits())


@guest
async def test_a_fork_bomb_ends_at_the_process_limit(world: World, delegated: Path) -> None:
    script = "(while :; do sleep 600 & done) 2>/dev/null; read forever"
    info = await world.start("p", command=("sh", "-c", script), limits=Limits(pids=20), stdin=True)
    group = group_of(delegated, info)

    async def is_refused() -> bool:
        return (group / "pids.events").read_text() != "max 0\n"

    await until(is_refused)
    assert int((group / "pids.current").read_text()) <= 20
    await world.pod("other")
    ended = await world.run_to_end("other", "echo the node goes on")
    assert (ended.exit_code, world.log("other")) == (0, ["stdout F the node goes on"])
    await world.client.remove_sandbox("p")
    await until_removed(group)


async def start_in_nodes_pid_namespace(world: World, delegated: Path) -> ContainerInfo:
    """A container with a process that would outlive its first one."""
    await world.pod("h", host_pid=True)
    info = await world.start("h", command=("sh", "-c", "setsid sleep 6543 & read end"), stdin=True)
    group = group_of(delegated, info)

    async def has_both() -> bool:
        return len((group / "cgroup.procs").read_text().split()) == 2

    await until(has_both)
    return info


@guest
async def test_processes_left_in_the_nodes_pid_namespace_are_killed_with_the_container(
    world: World, delegated: Path
) -> None:
    info = await start_in_nodes_pid_namespace(world, delegated)
    group = group_of(delegated, info)
    await world.client.signal_container(info.id, signal.SIGKILL)
    await until_removed(group)
    assert "6543" not in world.run("ps", "-eo", "args")


@guest
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_runtime_that_ends_leaves_no_cgroup(world: World, delegated: Path, number: int) -> None:
    others = delegated / "another-runtimes"
    others.mkdir(exist_ok=True)
    await start_in_nodes_pid_namespace(world, delegated)
    first = world.runtime_pid()
    world.run("kill", f"-{number}", str(first))

    async def is_back() -> bool:
        try:
            return world.runtime_pid() != first and await world.client.list_containers() == []
        except (RuntimeFailure, ValueError):  # its number may be half written
            return False

    await until(is_back)
    assert sorted(groups_in(delegated)) == [others.name, "processes"]
    assert "6543" not in world.run("ps", "-eo", "args")
    await world.pod("p")
    assert (await world.run_to_end("p", "true")).exit_code == 0


@guest
async def test_the_runtime_reports_that_limits_are_enforced(world: World) -> None:
    assert (await world.client.find_features()).limits == ""


async def test_the_runtime_reports_why_limits_are_not_enforced() -> None:
    """No cgroup of this machine is delegated to the node's user."""
    with make_node("range") as node:
        async with enter_world(node) as world:
            reason = (await world.client.find_features()).limits
            assert "cgroup" in reason
            assert "\n" not in reason
            await world.pod("p")
            ended = await world.run_to_end("p", "true", limits=Limits(memory=4 * MIB, cpu_millis=1, pids=1))
            assert (ended.exit_code, ended.is_oom_killed) == (0, False)
