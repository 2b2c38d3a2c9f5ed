"""A lab of its own for a run, used as any user does: `bridgehead`, kubectl, the API."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles

BRIDGEHEAD = Path(sys.executable).with_name("bridgehead")
NODES = ("node1", "node2", "node3")
_BOUND = 120.0


class CommandFailed(Exception):
    """A command that ended with another status than 0, with its output."""


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Process:
    """A process of the lab; numbers are those of the lab's PID namespace."""

    pid: int
    parent: int
    argv: str


@dataclass(frozen=True)
class Lab:
    name: str
    state_dir: Path

    @property
    def files(self) -> LabFiles:
        return LabFiles(self.state_dir)

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.files.kubeconfig)}

    def argv(self, verb: str, *args: str) -> list[str]:
        return [str(BRIDGEHEAD), verb, "--name", self.name, "--state-dir", str(self.state_dir), *args]

    def argv_inside(self, *argv: str, node: str = "") -> list[str]:
        return self.argv("exec", *(["--node", node] if node else []), "--", *argv)

    def client(self) -> ApiClient:
        return ApiClient(load_kubeconfig(self.files.kubeconfig), "chaos")

    async def command(self, verb: str, *args: str) -> str:
        return _checked(await run(*self.argv(verb, *args)), verb)

    async def inside(self, *argv: str, node: str = "", stdin: str = "") -> str:
        """Run a command in the lab, or on a node; its output. Raises `CommandFailed`."""
        return _checked(await run(*self.argv_inside(*argv, node=node), stdin=stdin), " ".join(argv))

    async def try_kubectl(self, *args: str, stdin: str = "", bound: float = _BOUND) -> Result:
        return await run("kubectl", *args, env=self.env, stdin=stdin, bound=bound)

    async def kubectl(self, *args: str, stdin: str = "") -> str:
        return _checked(await self.try_kubectl(*args, stdin=stdin), f"kubectl {' '.join(args)}")

    async def processes(self) -> list[Process]:
        lines = (await self.inside("ps", "-eo", "pid=,ppid=,args=")).splitlines()
        found = (line.split(None, 2) for line in lines)
        return [Process(int(fields[0]), int(fields[1]), fields[2]) for fields in found if len(fields) == 3]

    def part_pid(self, part: str) -> int:
        """Return a part's PID; 0 while it waits to be restarted."""
        return self.part_pids().get(part, 0)

    def part_pids(self) -> dict[str, int]:
        """Return the PIDs of all running parts, by name."""
        return {status.name: status.pid for status in state_directories.read_parts(self.files) if status.pid}


async def run(*argv: str, env: dict[str, str] | None = None, stdin: str = "", bound: float = _BOUND) -> Result:
    """Run a command to its end, or for `bound` seconds."""
    process = await asyncio.create_subprocess_exec(
        *argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(bound):
            out, err = await process.communicate(stdin.encode())
    except TimeoutError:
        return Result(124, "", f"no end within {bound:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Result(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))


def _checked(result: Result, what: str) -> str:
    if result.code:
        raise CommandFailed(f"{what}: exit code {result.code}: {result.stderr.strip()[-500:]}")
    return result.stdout
