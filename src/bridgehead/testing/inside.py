"""Program inside a lab, beside its nodes or on one, that serves the tests' process; it ends with that process.

    python -m bridgehead.testing.inside SOCKET STATE_DIRECTORY [NODE]

SOCKET is the descriptor of a socket of sequenced packets; each request and each answer is a packet of JSON. A socket
that the program connects is passed to the tests' process: it stays in the lab's network, in whatever process it is.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.insight.trace.dns_queries import Questions, ask_names
from bridgehead.lab import enter, preflight, state_directories
from bridgehead.lab.plan import LabFiles

LARGEST: Final = 64 * 1024  # bytes of a packet
_MOST_OUTPUT: Final = 2000  # characters of a program's error


class Connect(msgspec.Struct, tag=True, frozen=True):
    """Open a connection. `seconds` is for all of it."""

    address: str
    port: int
    seconds: float


class Ask(msgspec.Struct, tag=True, frozen=True):
    """Ask the cluster's DNS."""

    questions: Questions


class ChangeRules(msgspec.Struct, tag=True, frozen=True):
    """Run a script of nft."""

    script: str


class Kill(msgspec.Struct, tag=True, frozen=True):
    """Send SIGKILL to a process of the lab's PID namespace."""

    pid: int


Request = Connect | Ask | ChangeRules | Kill


class Answer(msgspec.Struct, frozen=True):
    """`errno` is 0 for an error that has none; `error` is "" after success."""

    error: str = ""
    errno: int = 0
    result: Any = None


def main(arguments: list[str]) -> None:
    requests = socket.socket(fileno=int(arguments[0]))
    requests.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, for the tests
    lab = state_directories.read_running(LabFiles(Path(arguments[1])))
    node = enter.find_node(lab, arguments[2]) if len(arguments) > 2 else None
    preflight.extend_path()
    # The children are in the PID namespace, too, in which parts have the PIDs that the lab records.
    enter.enter_as_program(lab, enter.network_path(lab, node))
    while packet := requests.recv(LARGEST):
        answer, opened = _serve(msgspec.json.decode(packet, type=Request))
        socket.send_fds(requests, [msgspec.json.encode(answer)], [opened.fileno()] if opened else [])
        if opened:
            opened.close()


def _serve(request: Request) -> tuple[Answer, socket.socket | None]:
    try:
        match request:
            case Connect(address, port, seconds):
                return Answer(), _connect(address, port, seconds)
            case Ask(questions):
                return Answer(result=msgspec.to_builtins(ask_names(questions).answers)), None
            case ChangeRules(script):
                return Answer(_change_rules(script)), None
            case Kill(pid):
                return Answer(_kill(pid)), None
    except OSError as error:
        return Answer(error.strerror or str(error), error.errno or 0), None


def _connect(address: str, port: int, seconds: float) -> socket.socket:
    new = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        new.settimeout(seconds)
        new.connect((address, port))
    except BaseException:
        new.close()
        raise
    return new


def _change_rules(script: str) -> str:
    done = subprocess.run(("nft", "-f", "-"), input=script, capture_output=True, text=True)
    return done.stderr[:_MOST_OUTPUT].strip() or f"nft ends with {done.returncode}" if done.returncode else ""


def _kill(pid: int) -> str:
    child = os.fork()
    if child == 0:
        try:
            os.kill(pid, signal.SIGKILL)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a forked child must not return into its parent's stack
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return "it has just ended" if status else ""


if __name__ == "__main__":
    main(sys.argv[1:])
