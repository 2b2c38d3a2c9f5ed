"""A client of Services: a program of the standard library alone, which runs in the lab, on nodes and in pods.

`python3 -c PROGRAM CONFIG`: CONFIG is JSON with `client`, `source`, `seconds` between two connections, `output` (a
file; "" is standard output) and `targets`. It ends with its standard input, or by SIGTERM. Writes a JSON line for each
connection that failed, and every few seconds how many were made. Times are of the monotonic clock, which all processes
of a machine share.

`python3 -c PROGRAM sweep` reads `targets` from standard input, uses each of them once and writes a line for each that
does not answer as it should: a pod of `service`, or with `service` "" a refusal; `expected` "" is a name that does not
exist.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from typing import Any

PATIENCE = 10.0
COUNT_EVERY = 2.0
_NXDOMAIN = 3

Target = dict[str, Any]


class Failed(Exception):
    """Why a target did not answer as it should."""


class Output:
    """Lines of JSON from several threads."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if path else 1
        self._lock = threading.Lock()
        self._made: dict[str, int] = {}
        self._unwritten = b""

    def count(self, kind: str) -> None:
        with self._lock:
            self._made[kind] = self._made.get(kind, 0) + 1

    def write_counts(self) -> None:
        with self._lock:
            made, self._made = self._made, {}
        if made:
            self.write({"made": made})

    def write(self, record: dict[str, Any]) -> None:
        """Write a line; on a full disk, which is one of the faults, it is kept for the next call."""
        with self._lock:
            self._unwritten += json.dumps(record).encode() + b"\n"
            try:
                while self._unwritten:
                    self._unwritten = self._unwritten[os.write(self.fd, self._unwritten) :]
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


class HttpConnection:
    """One connection to a web server whose /hostname is its pod's name."""

    def __init__(self, address: str, port: int) -> None:
        try:
            self._socket = socket.create_connection((address, port), PATIENCE)
        except TimeoutError:
            raise Failed(f"no connection within {PATIENCE:g} s") from None
        except OSError as error:
            raise Failed(f"connect: {error.strerror or error}") from error

    def ask(self, service: str) -> None:
        """Raises `Failed` unless a pod of the Service answers."""
        try:
            self._socket.sendall(b"GET /hostname HTTP/1.1\r\nHost: chaos\r\n\r\n")
            head, body = self._receive()
        except TimeoutError:
            raise Failed(f"no answer within {PATIENCE:g} s") from None
        except OSError as error:
            raise Failed(f"request: {error.strerror or error}") from error
        answer = body.decode("utf-8", "replace").strip()
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise Failed(f"status {head[:40]!r}")
        if not answer.startswith(service + "-"):
            raise Failed(f"answered by {answer}")

    def _receive(self) -> tuple[bytes, bytes]:
        """Head and body of an answer."""
        data = b""
        while True:
            head, found, body = data.partition(b"\r\n\r\n")
            if found and len(body) >= _content_length(head):
                return head, body
            more = self._socket.recv(4096)
            if not more:
                raise Failed(f"closed after {len(data)} bytes")
            data += more

    def close(self) -> None:
        self._socket.close()


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def look_up(server: str, name: str, expected: str) -> None:
    """Ask for the A record as glibc does: 5 s for an answer, two attempts."""
    problem = ""
    for _ in range(2):
        query = random.randbytes(2) + b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
        query += b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\x00\x00\x01\x00\x01"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE / 2)
            try:
                sock.connect((server, 53))
                sock.send(query)
                answer = sock.recv(4096)
            except TimeoutError:
                problem = f"no answer within 2 times {PATIENCE / 2:g} s"
                continue
            except OSError as error:
                problem = f"query: {error.strerror or error}"
                time.sleep(0.5)
                continue
        code = answer[3] & 15
        is_right = code == 0 and socket.inet_aton(expected) in answer[len(query) :] if expected else code == _NXDOMAIN
        if answer[:2] != query[:2] or not is_right:
            raise Failed(f"{name}: code {code}, expected {expected or 'no such name'}")
        return
    raise Failed(problem)


def _describe(problem: Exception) -> str:
    return str(problem) if isinstance(problem, Failed) else f"{type(problem).__name__}: {problem}"


class Client:
    """Uses one target again and again."""

    def __init__(self, config: dict[str, Any], target: Target, output: Output) -> None:
        self._config, self._target, self._output = config, target, output
        self._kept: HttpConnection | None = None
        self._since = 0.0

    def run(self) -> None:
        seconds = self._config["seconds"]
        time.sleep(random.uniform(0, seconds))
        while True:
            self._use_once()
            time.sleep(seconds * random.uniform(0.5, 1.5))

    def _use_once(self) -> None:
        target = self._target
        if self._kept is None:
            self._since = time.monotonic()
        try:
            if target["kind"] == "dns":
                look_up(target["address"], target["name"], target["expected"])
            elif target["kind"] == "established":
                self._ask_again()
            else:
                connection = HttpConnection(target["address"], target["port"])
                try:
                    connection.ask(target["service"])
                finally:
                    connection.close()
        except Exception as problem:  # noqa: BLE001  whatever an answer causes; this thread has to go on
            self._report(_describe(problem))
            if self._kept is not None:
                self._kept.close()
                self._kept = None
        self._output.count(target["kind"])

    def _ask_again(self) -> None:
        if self._kept is None:
            self._kept = HttpConnection(self._target["address"], self._target["port"])
        self._kept.ask(self._target["service"])
        self._since = time.monotonic()

    def _report(self, problem: str) -> None:
        target = self._target
        record = {key: target[key] for key in ("kind", "service", "entry", "nodes")}
        record.update(client=self._config["client"], source=self._config["source"])
        record.update(start=self._since, end=time.monotonic(), problem=problem)
        self._output.write(record)


def use(config: dict[str, Any]) -> None:
    """Use every target again and again until a signal ends the process."""
    output = Output(config["output"])

    def end(*_: object) -> None:
        output.write_counts()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    for target in config["targets"]:
        threading.Thread(target=Client(config, target, output).run, daemon=True).start()
    if not config["output"]:
        threading.Thread(target=lambda: end(sys.stdin.read()), daemon=True).start()
    while True:
        time.sleep(COUNT_EVERY)
        output.write_counts()


def sweep(targets: list[Target]) -> None:
    """Use each target once, some at the same time."""
    lock = threading.Lock()
    output = Output("")

    def work() -> None:
        while True:
            with lock:
                if not targets:
                    return
                target = targets.pop()
            try:
                if target["kind"] == "dns":
                    look_up(target["address"], target["name"], target["expected"])
                else:
                    _expect(target)
            except Exception as problem:  # noqa: BLE001  a worker that ends would leave targets out
                output.write({"target": target.get("name") or target["address"], "problem": _describe(problem)})

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _expect(target: Target) -> None:
    try:
        connection = HttpConnection(target["address"], target["port"])
    except Failed as problem:
        if target["service"] or "refused" not in str(problem):
            raise
        return
    try:
        if not target["service"]:
            raise Failed("connected, although there is no endpoint")
        connection.ask(target["service"])
    finally:
        connection.close()


if __name__ == "__main__":
    if sys.argv[1] == "sweep":
        sweep(json.load(sys.stdin))
    else:
        use(json.loads(sys.argv[1]))
