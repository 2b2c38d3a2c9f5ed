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
_MOST_OUTPUT = 65536
_CURL_OUTCOMES = {7: Outcome.REFUSED, 28: Outcome.TIMED_OUT}
_PYTHON = "import socket,sys;socket.create_connection((sys.argv[1],int(sys.argv[2])),2).close()"
_ADDRESS = re.compile(r"^Address(?: \d+)?: (\S+)")


def connection_commands(probe: Probe) -> Iterator[tuple[str, ...]]:
    """Yield commands of which the first that exists makes the connection. TCP only."""
    if probe.protocol != "tcp":
        return
    port, seconds = str(probe.port), str(_SECONDS)
    host = f"[{probe.address}]" if ":" in probe.address else probe.address
    url = f"http://{host}:{port}/"
    yield ("nc", "-z", "-w", seconds, probe.address, port)
    yield ("python3", "-c", _PYTHON, probe.address, port)
    yield ("timeout", seconds, "bash", "-c", 'exec 3<>"/dev/tcp/$0/$1"', probe.address, port)
    yield ("curl", "-s", "-o", "/dev/null", "--connect-timeout", seconds, "-m", seconds, url)
    yield ("wget", "-q", "-T", seconds, "-O", "/dev/null", url)


def read_connection(argv: tuple[str, ...], done: Completed, milliseconds: float) -> ProbeResult | None:
    """Return the result of such a command; None if the program does not exist, or does not know its options."""
    lines = (done.stderr or done.stdout)[:_MOST_OUTPUT].decode(errors="replace").strip().splitlines()
    output = " ".join(lines).lower()
    if done.code in NO_SUCH_PROGRAM or "usage:" in output or "invalid option" in output:
        return None
    if done.code == 0:
        return ProbeResult(outcome=Outcome.CONNECTED, milliseconds=milliseconds)
    why = printable(lines[-1], 200) if lines else f"{argv[0]} ended with code {done.code}"
    if argv[0] == "curl":  # other errors come after the connection: it was no HTTP server
        outcome = _CURL_OUTCOMES.get(done.code, Outcome.CONNECTED)
    elif "refused" in output:
        outcome = Outcome.REFUSED
    elif "reset" in output:
        outcome = Outcome.CLOSED
    elif "unreachable" in output or "no route" in output:
        outcome = Outcome.UNREACHABLE
    elif milliseconds >= _SECONDS * 900 or "timed out" in output:
        outcome = Outcome.TIMED_OUT
    else:  # nc prints nothing, and a refusal comes at once; wget had an answer that is no page
        outcome = Outcome.CONNECTED if argv[0] == "wget" else Outcome.REFUSED
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
        parts = [line.split()[0] for line in lines if line.split()]
    else:
        begin = next((n for n, line in enumerate(lines) if line.startswith("Name:")), len(lines))
        parts = [match[1] for line in lines[begin:] if (match := _ADDRESS.match(line.strip()))]
    for word in parts:
        try:
            found.append(str(ipaddress.ip_address(word)))
        except ValueError:
            continue
    addresses = tuple(dict.fromkeys(found))
    return DnsAnswer(name=name, rcode=NOERROR if addresses else NXDOMAIN, addresses=addresses, server=argv[0])
