"""Three members of etcd, each in a network namespace of its own, and API servers on them.

This process is in the namespace of the bridge that connects the members. To cut a member off, its link is taken down:
packets to it and from it are lost, and connections stay open.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from tests.integration.apiserver_process import ServerProcess, write_files
from tests.integration.etcd_server import EtcdCluster, EtcdMember, Host

_MEMBERS = 3
_BRIDGE = "fabric"
_PREFIX = "10.99.0"


def _ip(line: str) -> None:
    subprocess.run(["ip", *line.split()], check=True)


def connect_members() -> Sequence[Host]:
    """Make the namespaces of the members and a bridge between them, in this process's own network namespace."""
    _ip(f"link add {_BRIDGE} type bridge")
    _ip(f"address add {_PREFIX}.1/24 dev {_BRIDGE}")
    _ip(f"link set {_BRIDGE} up")
    hosts = []
    for number in range(_MEMBERS):
        name, address = f"etcd{number}", f"{_PREFIX}.{10 + number}"
        _ip(f"netns add {name}")
        _ip(f"link add {name} type veth peer name eth0 netns {name}")
        _ip(f"link set {name} master {_BRIDGE} up")
        _ip(f"-n {name} link set lo up")
        _ip(f"-n {name} address add {address}/24 dev eth0")
        _ip(f"-n {name} link set eth0 up")
        # The members end with this process, also if it is killed.
        hosts.append(Host(address, ("setpriv", "--pdeathsig=KILL", "ip", "netns", "exec", name)))
    return hosts


class Cluster:
    """The members and the servers. Its methods wait beside the event loop."""

    def __init__(self, etcd: EtcdCluster, servers: Sequence[ServerProcess]) -> None:
        self.etcd = etcd
        self.servers = servers

    async def kill_server(self, number: int) -> None:
        await asyncio.to_thread(self.servers[number].kill)

    async def start_server(self, number: int) -> None:
        await asyncio.to_thread(self.servers[number].start)

    async def leader(self) -> EtcdMember:
        """Return etcd's leader. All members have to run."""
        for member, status in zip(self.etcd.members, await self._statuses(), strict=True):
            if status["leader"] == status["header"]["member_id"]:
                return member
        raise RuntimeError("etcd has no leader")

    async def follower(self) -> EtcdMember:
        leader = await self.leader()
        return next(member for member in self.etcd.members if member is not leader)

    async def _statuses(self) -> list[dict[str, Any]]:
        text = await asyncio.to_thread(self.etcd.etcdctl, "endpoint", "status", "--write-out=json")
        return [entry["Status"] for entry in json.loads(text)]

    async def restart_member(self, member: EtcdMember) -> None:
        self.etcd.start_member(member)
        await asyncio.to_thread(member.wait)

    async def cut_off(self, member: EtcdMember) -> None:
        await asyncio.to_thread(_ip, f"link set {member.name} down")

    async def reconnect(self, member: EtcdMember) -> None:
        await asyncio.to_thread(_ip, f"link set {member.name} up")
        await asyncio.to_thread(member.wait)

    async def stored(self, prefix: str) -> dict[str, int]:
        """Return the keys below a prefix in etcd, each with the revision of its last change."""
        text = await asyncio.to_thread(
            self.etcd.etcdctl, "get", "--prefix", prefix, "--write-out=fields", "--keys-only"
        )
        keys = [json.loads(line.partition(" : ")[2]) for line in text.splitlines() if line.startswith('"Key"')]
        revisions = [int(line.partition(" : ")[2]) for line in text.splitlines() if line.startswith('"ModRevision"')]
        return {key.removeprefix(prefix): revision for key, revision in zip(keys, revisions, strict=True)}


def _server(directory: Path, number: int, urls: tuple[str, ...]) -> ServerProcess:
    """Return a server with the files of `directory`, which begins with another member than the others."""
    here = directory / f"server{number}"
    here.mkdir()
    for file in directory.iterdir():
        if file.is_file():
            shutil.copy(file, here)
    first = number % len(urls)
    options: dict[str, object] = {
        "etcd-servers": ",".join(urls[first:] + urls[:first]),
        "advertise-address": f"10.0.0.{number + 1}:6443",
    }
    return ServerProcess(here, store="", options=options, inherits_socket=False)


@contextlib.asynccontextmanager
async def running_cluster(directory: Path, servers: int) -> AsyncIterator[Cluster]:
    """Start the members and the servers. Each server begins with another member."""
    hosts = connect_members()
    with contextlib.ExitStack() as stack:
        # As by default since 3.5: a member that comes back does not make the others elect a leader again.
        options: dict[str, object] = {"pre-vote": "true"}
        etcd = stack.enter_context(EtcdCluster(directory, size=_MEMBERS, options=options, hosts=hosts).running())
        write_files(directory)
        processes = [_server(directory, number, etcd.client_urls) for number in range(servers)]
        for process in processes:
            stack.callback(process.close)
        cluster = Cluster(etcd, processes)
        for number in range(servers):
            await cluster.start_server(number)
        yield cluster
