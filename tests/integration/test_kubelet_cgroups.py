"""Limits that the kernel enforces, in a part of the cgroup v2 hierarchy that root gave to somebody else.

The tests run in the guest, where no other hierarchy has the controllers. The lab's part is played by a process of that
user in a user namespace of its own, as in a lab.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from bridgehead.kubelet.runtimes.isolation.cgroups import (
    Prepared,
    find_delegated,
    prepare_delegation,
    remove_delegation,
)
from bridgehead.kubelet.runtimes.isolation.container_cgroups import ContainerCgroup, Delegation
from bridgehead.kubelet.runtimes.runtime import Limits
from bridgehead.lab import ids, launch, roots, state_directories
from bridgehead.lab.errors import NotRunning
from bridgehead.lab.plan import LabConfig, LabFiles
from bridgehead.network import syscalls
from tests import forks

pytestmark = pytest.mark.integration
guest = pytest.mark.guest

HIERARCHY = Path("/sys/fs/cgroup")
USER = 12345
MIB = 1 << 20


@pytest.fixture
def hierarchy() -> Iterator[None]:
    """The guest's init mounts none."""
    subprocess.run(["mount", "-t", "cgroup2", "none", HIERARCHY], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", HIERARCHY], check=True)


def in_child(body: Callable[[], Any]) -> Any:
    """Return the result of `body` in a forked process."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(body()).encode())
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - forked
            os.write(writing, json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode())
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as file:
        answer = json.loads(file.read() or b"null")
    os.waitpid(pid, 0)
    if isinstance(answer, dict) and "failed" in answer:
        raise AssertionError(answer["failed"])
    return answer


def become_lab(prepared: Prepared) -> None:
    """The user's process, root in a user namespace, which sees nothing of the hierarchy but its part."""
    prepared.enter()
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: else /proc/self is root's now
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {USER} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {USER} 1", encoding="ascii")
    syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("none", "/run", "tmpfs")
    prepared.show("/run/cgroup")
    syscalls.mount("sysfs", "/sys", "sysfs")


def prepared_for(name: str) -> Prepared:
    prepared = prepare_delegation(name, USER, USER)
    assert isinstance(prepared, Prepared), prepared
    return prepared


def in_lab(body: Callable[[Delegation], Any]) -> Any:
    prepared = prepared_for("test")

    def run() -> Any:
        become_lab(prepared)
        found = find_delegated()
        assert isinstance(found, Delegation), found
        return body(found)

    try:
        return in_child(run)
    finally:
        assert remove_delegation(prepared.directory)
        assert not os.path.exists(prepared.directory)


def start_in(group: ContainerCgroup, body: Callable[[], Any]) -> int:
    fd = group.open_procs()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(fd, b"0")
            body()
            os._exit(0)
        finally:
            os._exit(1)
    os.close(fd)
    return pid


def end_of(pid: int) -> int:
    """The exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@guest
def test_a_lab_sees_only_its_part_of_the_cgroup_hierarchy(hierarchy: None) -> None:
    def look(found: Delegation) -> list[object]:
        with contextlib.suppress(OSError):
            os.mkdir("/sys/fs/cgroup/elsewhere")
        return [found.directory, sorted(found.controllers), os.path.exists("/sys/fs/cgroup/elsewhere")]

    assert in_lab(look) == ["/run/cgroup", ["cpu", "memory", "pids"], False]


@guest
def test_exceeding_a_memory_limit_kills_the_whole_container(hierarchy: None) -> None:
    def work(found: Delegation) -> dict[str, object]:
        pod = found.make_pod("x", Limits())
        group, other = pod.make("app", Limits(memory=32 * MIB)), pod.make("other", Limits(memory=64 * MIB))
        bystander = start_in(group, lambda: time.sleep(600))
        neighbour = start_in(other, lambda: time.sleep(600))
        go, release = os.pipe()

        def take_too_much() -> None:
            os.read(go, 1)
            taken = [bytearray(MIB) for _ in range(200)]
            time.sleep(600)
            del taken

        greedy = start_in(group, take_too_much)
        kills_before = group.oom_kills()
        os.write(release, b"!")
        result: dict[str, object] = {
            "kills before": kills_before,
            "greedy": end_of(greedy),
            "bystander": end_of(bystander),
            "kills": group.oom_kills() > 0,
            "neighbour": os.waitpid(neighbour, os.WNOHANG)[0],
            "neighbour's": other.oom_kills(),
        }
        result["removed while it runs"] = other.remove()
        other.kill()
        result["neighbour at the end"] = end_of(neighbour)
        result["removed"] = [group.remove(), other.remove(), pod.remove()]
        result["left"] = [name for name in os.listdir(found.directory) if name.startswith("pod")]
        return result

    assert in_lab(work) == {
        "kills before": 0,
        "kills": True,
        "greedy": -signal.SIGKILL,
        "bystander": -signal.SIGKILL,
        "neighbour": 0,
        "neighbour's": 0,
        "removed while it runs": False,
        "neighbour at the end": -signal.SIGKILL,
        "removed": [True, True, True],
        "left": [],
    }


@guest
def test_a_fork_bomb_is_stopped_by_the_process_limit(hierarchy: None) -> None:
    def work(found: Delegation) -> list[int]:
        group = found.make_pod("x", Limits(pids=10)).make("bomb", Limits())
        reading, writing = os.pipe()

        def bomb() -> None:
            for made in range(100):
                try:
                    if os.fork() == 0:
                        time.sleep(600)
                except OSError as error:
                    os.write(writing, json.dumps([made, error.errno]).encode())
                    break
            time.sleep(600)

        first = start_in(group, bomb)
        result = json.loads(os.read(reading, 100))
        group.kill()
        end_of(first)
        return result

    assert in_lab(work) == [9, errno.EAGAIN]


@guest
def test_a_container_is_throttled_at_its_cpu_limit(hierarchy: None) -> None:
    def work(found: Delegation) -> dict[str, object]:
        group = found.make_pod("x", Limits()).make("busy", Limits(cpu_millis=50, cpu_request_millis=250))

        def spin() -> None:
            while True:
                pass

        pid = start_in(group, spin)
        throttled = 0
        until = time.monotonic() + 60
        while throttled < 3 and time.monotonic() < until:
            time.sleep(0.1)
            stat = dict(line.split() for line in Path(f"{group.directory}/cpu.stat").read_text().splitlines())
            throttled = int(stat["nr_throttled"])
        group.kill()
        end_of(pid)
        return {
            "throttled": throttled >= 3,
            "max": Path(f"{group.directory}/cpu.max").read_text(),
            "weight": Path(f"{group.directory}/cpu.weight").read_text(),
        }

    assert in_lab(work) == {"throttled": True, "max": "5000 100000\n", "weight": "35\n"}


@guest
def test_cgroups_of_a_killed_lab_are_removed_by_the_next_lab(hierarchy: None) -> None:
    prepared = prepared_for("test")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become_lab(prepared)
            found = find_delegated()
            assert isinstance(found, Delegation)
            group = found.make_pod("x", Limits()).make("app", Limits())
            start_in(group, lambda: time.sleep(600))
            os.write(writing, os.path.relpath(group.directory, found.directory).encode())
            time.sleep(600)
        finally:
            os._exit(1)
    os.close(writing)
    directory = f"{prepared.directory}/{os.read(reading, 100).decode()}"
    refused = prepare_delegation("test", USER, USER)
    assert isinstance(refused, str)
    assert "still has processes" in refused
    assert os.path.isdir(directory), "a lab that runs keeps what it has"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    # The end of a lab's first process ends them all; here one of a container is left.
    with open(f"{directory}/cgroup.procs", encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    again = prepared_for("test")
    assert sorted(entry.name for entry in os.scandir(again.directory) if entry.is_dir()) == ["processes"]
    assert remove_delegation(again.directory)
    assert remove_delegation(again.directory), "it is gone"
    with pytest.raises(ValueError, match="not the cgroup of a lab"):
        remove_delegation("/sys/fs/cgroup/user.slice")


@guest
def test_an_ordinary_user_needs_a_delegated_cgroup(hierarchy: None) -> None:
    def as_user(where: str, body: Callable[[], Any]) -> Any:
        def run() -> Any:
            Path(f"{where}/cgroup.procs").write_text("0", encoding="ascii")
            os.setgroups([])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
            return body()

        return in_child(run)

    HIERARCHY.joinpath("cgroup.subtree_control").write_text("+memory +cpu +pids", encoding="ascii")
    session, scope = HIERARCHY / "session.scope", HIERARCHY / "run.scope"
    try:
        session.mkdir()
        reason = as_user(str(session), lambda: [prepare_delegation("mine", USER, USER), find_delegated()])
        assert "systemd-run --user --scope" in reason[0]
        assert "no part of the cgroup v2 hierarchy is delegated" in reason[1]

        # As systemd does for Delegate=yes.
        scope.mkdir()
        for path in (scope, *(scope / name for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads"))):
            os.chown(path, USER, USER)

        def up() -> Any:
            prepared = prepare_delegation("mine", USER, USER)
            assert isinstance(prepared, Prepared), prepared
            prepared.enter()
            found = find_delegated()
            assert isinstance(found, Delegation), found
            group = found.make_pod("x", Limits()).make("app", Limits(pids=3))
            return [found.directory, sorted(found.controllers), os.path.exists(f"{group.directory}/pids.max")]

        assert as_user(str(scope), up) == [str(scope / "bridgehead-mine"), ["cpu", "memory", "pids"], True]
        assert remove_delegation(str(scope / "bridgehead-mine"))
        subprocess.run(["rmdir", scope / "bridgehead-up"], check=True)
        (scope / "cgroup.subtree_control").write_text("-memory -cpu -pids", encoding="ascii")

        # A runtime as a unit of its own.
        def runtime() -> Any:
            found = find_delegated()
            assert isinstance(found, Delegation), found
            return [found.directory, Path("/proc/self/cgroup").read_text()]

        assert as_user(str(scope), runtime) == [str(scope), "0::/run.scope/processes\n"]
    finally:
        subprocess.run(["find", session, scope, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"], check=False)


def launch_lab(directory: str, how: str) -> None:
    """Start the first process of a lab and its parts, which do nothing; `how` is "go", or "fail" before they start."""
    files = LabFiles(Path(directory))
    files.root.mkdir(exist_ok=True)
    id_map = ids.map_range(0x50000000)
    roots.make_state_directories(files, id_map.root)
    config = LabConfig(name="x", nodes=1, port=1)
    lock = state_directories.lock(files)

    def run_part(argv: Sequence[str]) -> NoReturn:
        if argv[0] == "runtime":
            found = find_delegated()
            assert isinstance(found, Delegation)
            sys.stdout.write(f"{found.directory} {sorted(found.controllers)}\n")
            sys.stdout.flush()
        while True:
            signal.pause()

    def prepare() -> None:
        if how == "fail":
            raise OSError("no space left")
        files.pki.joinpath("ca.crt").touch()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        launch.launch(
            config, files, id_map=id_map, api_socket=listener, lock_fd=lock, run_part=run_part,
            preload=lambda lines: None, puller=(), prepare=prepare,
        )  # fmt: skip


def start_lab(files: LabFiles, how: str = "go") -> str:
    """Launch a lab from a process of its own, which may have no threads; what that printed."""
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile("w+") as output:
        streams = (nothing.fileno(), output.fileno(), output.fileno())
        forks.fork(f"{__name__}:launch_lab", str(files.root), how, streams=streams).wait(200)
        output.seek(0)
        return output.read()


def await_that(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@guest
def test_a_stopped_lab_leaves_no_cgroup(hierarchy: None) -> None:
    part = HIERARCHY / "bridgehead-x"
    # A directory beside pytest's, which only root may read.
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        files, others = LabFiles(Path(directory) / "lab"), LabFiles(Path(directory) / "other")
        assert "no space left" in start_lab(files, "fail")
        assert not part.exists(), "a lab that could not start"

        assert start_lab(files) == ""
        log = files.log("runtime-node1")
        await_that(lambda: log.exists() and "\n" in log.read_text())
        assert log.read_text() == "/sys/fs/cgroup ['cpu', 'memory', 'pids']\n"
        os.kill(state_directories.read_running(files).init_pid, signal.SIGKILL)
        await_that(lambda: not state_directories.is_running(files))
        with pytest.raises(NotRunning):
            state_directories.stop(files)
        assert not part.exists(), "a lab that was killed"

        assert start_lab(files) == ""
        others.root.mkdir()
        others.running.parent.mkdir(exist_ok=True)
        others.running.write_bytes(files.running.read_bytes())
        with pytest.raises(NotRunning):
            state_directories.stop(others)
        assert state_directories.is_running(files)
        assert part.exists(), "a lab of the same name in another directory was killed before this one began"
        state_directories.stop(files)
        assert not part.exists(), "a lab that was stopped"


def test_the_reason_for_missing_delegation_is_one_sentence() -> None:
    """The test reads the machine's hierarchy and changes nothing."""
    found = in_child(lambda: reason if isinstance(reason := find_delegated(), str) else "")
    if not found:
        pytest.skip("this process has a part of the hierarchy")
    assert "\n" not in found
    assert "cgroup" in found
