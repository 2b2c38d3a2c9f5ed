"""Connections and questions by programs of an image, where no function can run: commands, and the reading of results.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from bridgehead.insight.findings import printable
from bridgehead.insight.network_namespaces import Completed

from .name_resolution import NOERROR, NXDOMAIN, DnsAnswer
from .probing import Outcome, Probe, ProbeResult

NO_SUCH_PROGRAM = (126, 127)
_SECONDS = 2
_CURL_OUTCOMES = {7: Outcome.REFUSED, 28: Outcome.TIMED_OUT}
_PYTHON = "import socket,sys;socket.create_connection((sys.argv[1],int(sys.argv[2])),2).close()"
_ADDRESS = re.compile(r"^Address(?: \d+)?: (\S+)")


def connection_commands(probe: Probe) -> Iterator[tuple[str, ...]]:
    """Yield commands of which the first that exists makes the connection. TCP only."""
    if probe.protocol != "tcp":
        return
    port = str(probe.port)
    yield ("nc", "-z", "-w", str(_SECONDS), probe.address, port)
    yield ("python3", "-c", _PYTHON, probe.address, port)
    yield ("timeout", str(_SECONDS), "bash", "-c", 'exec 3<>"/dev/tcp/$0/$1"', probe.address, port)
    host = f"[{probe.address}]" if ":" in probe.address else probe.address
    yield (
        "curl",
        "-s",
        "-o",
        "/dev/null",
        "--connect-timeout",
        str(_SECONDS),
        "-m",
        str(_SECONDS),
        f"http://{host}:{port}/",
    )


def read_connection(argv: tuple[str, ...], done: Completed, milliseconds: float) -> ProbeResult:
    """Return the result of such a command that exists."""
    why = (
        printable((done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-1:][0], 200)
        if (done.stderr or done.stdout).strip()
        else f"{argv[0]} ended with code {done.code}"
    )
    text = why.lower()
    if done.code == 0 or (argv[0] == "curl" and done.code not in _CURL_OUTCOMES):
        return ProbeResult(outcome=Outcome.CONNECTED, milliseconds=milliseconds)
    if argv[0] == "curl":
        outcome = _CURL_OUTCOMES[done.code]
    elif "refused" in text:
        outcome = Outcome.REFUSED
    elif "unreachable" in text or "no route" in text:
        outcome = Outcome.UNREACHABLE
    else:  # nc of BusyBox prints nothing; a refusal comes at once
        outcome = Outcome.TIMED_OUT if milliseconds >= _SECONDS * 900 else Outcome.REFUSED
    return ProbeResult(outcome=outcome, milliseconds=milliseconds, why=why)


def question_commands(name: str) -> Iterator[tuple[str, ...]]:
    """Yield commands of which the first that exists resolves a name as programs there do."""
    yield ("getent", "ahosts", name)
    yield ("nslookup", name)


def read_answer(argv: tuple[str, ...], done: Completed, name: str) -> DnsAnswer:
    """Return the answer that such a command printed."""
    found: list[str] = []
    lines = done.stdout.decode(errors="replace").splitlines()
    if argv[0] == "getent":
        words = [line.split()[0] for line in lines if line.split()]
    else:
        begin = next((n for n, line in enumerate(lines) if line.startswith("Name:")), len(lines))
        words = [match[1] for line in lines[begin:] if (match := _ADDRESS.match(line.strip()))]
    for word in words:
        try:
            found.append(str(ipaddress.ip_address(word)))
        except ValueError:
            continue
    addresses = tuple(dict.fromkeys(found))
    return DnsAnswer(name=name, rcode=NOERROR if addresses else NXDOMAIN, addresses=addresses, server=argv[0])
