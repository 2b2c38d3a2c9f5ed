"""Runs the clients of Services, one at each location, and collects what they saw: in the lab, on each node, in pods."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaos.connections import ClientKind, Connection, read_lines
from chaos.lab import NODES, CommandFailed, Lab

from .servers import NAMESPACE, Server, targets_of

PROGRAM = Path(__file__).with_name("prober.py").read_text("utf-8")
_RECORDS = "/records/connections"


class _Process:
    """A client outside of pods. The process ends with its standard input; its output is read all the time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._outputs = [asyncio.create_task(stream.read()) for stream in (process.stdout, process.stderr) if stream]

    @classmethod
    async def start(cls, argv: Sequence[str]) -> _Process:
        pipe = subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe))

    async def stop(self) -> str:
        """Return the output. Raises `CommandFailed` when it ended by itself."""
        if self._process.stdin:
            self._process.stdin.close()
        out, errors = await asyncio.gather(*self._outputs)
        if code := await self._process.wait():
            raise CommandFailed(f"a client ended with exit code {code}: {errors.decode(errors='replace')[-500:]}")
        return out.decode()


class Clients:
    def __init__(self, lab: Lab, servers: list[Server], seconds: float) -> None:
        self._lab = lab
        self._processes: list[_Process] = []

        def config(client: str, source: str, number: int, output: str) -> dict[str, Any]:
            targets = targets_of(source, servers, number)
            return {"client": client, "source": source, "seconds": seconds, "output": output, "targets": targets}

        locations = ("lab", *NODES)
        self._outside = {location: config(location, location, number, "") for number, location in enumerate(locations)}
        self._in_pods = {
            node: config(f"pod on {node}", node, number, _RECORDS) for number, node in enumerate(NODES, len(locations))
        }

    async def start(self) -> None:
        """Start all; pods are ready when this returns."""
        pods = [_pod(node, json.dumps(config)) for node, config in self._in_pods.items()]
        pod_list = {"apiVersion": "v1", "kind": "List", "items": pods}
        await self._lab.kubectl("apply", "-f", "-", stdin=json.dumps(pod_list))
        for location, config in self._outside.items():
            node = location if location in NODES else ""
            argv = self._lab.argv_inside("python3", "-c", PROGRAM, json.dumps(config), node=node)
            self._processes.append(await _Process.start(argv))
        names = [f"pod/client-{node}" for node in NODES]
        await self._lab.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", *names, "--timeout=120s")

    async def stop(self) -> tuple[Counter[ClientKind], list[Connection], list[str]]:
        """End all; the number of connections they made, those that failed, and whose records cannot be read."""
        made: Counter[ClientKind] = Counter()
        failed: list[Connection] = []
        texts, unread = [await process.stop() for process in self._processes], []
        for node in NODES:
            result = await self._lab.try_kubectl("-n", NAMESPACE, "exec", f"client-{node}", "--", "cat", _RECORDS)
            if result.code:
                unread.append(f"client-{node}: its records cannot be read: {result.stderr.strip()}")
            texts.append(result.stdout)
        for text in texts:
            counts, found = read_lines(text.splitlines())
            made += counts
            failed += found
        return made, failed, unread

    def uses(self) -> list[Connection]:
        """Return the repeated activities of the clients, as connections without a time."""
        return [
            Connection(
                client=config["client"],
                source=config["source"],
                kind=ClientKind(target["kind"]),
                service=target["service"],
                entry=target["entry"],
                nodes=frozenset(target["nodes"]),
                start=0,
                end=0,
                problem="",
            )
            for config in (*self._outside.values(), *self._in_pods.values())
            for target in config["targets"]
        ]


def _pod(node: str, config: str) -> dict[str, Any]:
    container = {
        "name": "client",
        "image": "wangxiaochun/admin-box:v0.1",
        "command": ["python3", "-c", PROGRAM, config],
        "volumeMounts": [{"name": "records", "mountPath": "/records"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"client-{node}", "namespace": NAMESPACE},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "records", "emptyDir": {}}],
        },
    }


async def sweep(lab: Lab, node: str, targets: list[dict[str, Any]]) -> list[str]:
    """Use each target once from a node; what does not answer as it should."""
    answer = await lab.inside("python3", "-c", PROGRAM, "sweep", node=node, stdin=json.dumps(targets))
    return [f"from {node}: {line}" for line in answer.splitlines()]
