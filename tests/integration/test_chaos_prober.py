"""The chaos run's client of Services, as a program: what it reports of servers on the loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from chaos.connections import ClientKind, read_lines
from chaos.workload.clients import PROGRAM
from chaos.workload.prober import Output


class Pod(BaseHTTPRequestHandler):
    """Answers every request with the name of a pod, over connections that are kept."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"web-12345")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pod) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as held:  # nobody else gets it meanwhile
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def target(port: int, service: str, kind: str = "cluster-ip") -> dict[str, Any]:
    location = {"entry": "node1", "nodes": ["node2"]}
    return {"kind": kind, "address": "127.0.0.1", "port": port, "service": service, **location}


def sweep(*targets: dict[str, Any]) -> list[str]:
    """The problems that are found."""
    argv = [sys.executable, "-c", PROGRAM, "sweep"]
    result = subprocess.run(argv, input=json.dumps(targets), capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line)["problem"] for line in result.stdout.splitlines()]


def test_a_sweep_finds_services_with_unexpected_answers(port: int, closed_port: int) -> None:
    assert sweep(target(port, "web"), target(closed_port, "")) == []
    assert sweep(target(port, "other")) == ["answered by web-12345"]
    assert sweep(target(port, "")) == ["connected, although there is no endpoint"]
    assert sweep(target(closed_port, "web")) == ["connect: Connection refused"]


def test_a_client_reports_failures_and_counts(port: int, closed_port: int) -> None:
    targets = [target(port, "web"), target(port, "web", "established"), target(closed_port, "web", "node-port")]
    config = {"client": "lab", "source": "lab", "seconds": 0.01, "output": "", "targets": targets}
    argv = [sys.executable, "-c", PROGRAM, json.dumps(config)]
    lines = []
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin
        assert client.stdout
        while sum('"made"' in line for line in lines) < 2:
            lines.append(client.stdout.readline())
        client.stdin.close()
        lines += client.stdout.readlines()
    assert client.returncode == 0
    made, failed = read_lines(lines)
    assert all(made[kind] > 0 for kind in (ClientKind.CLUSTER_IP, ClientKind.ESTABLISHED, ClientKind.NODE_PORT))
    assert {connection.kind for connection in failed} == {ClientKind.NODE_PORT}
    # The client may end between a failure and its count.
    assert len(failed) - made[ClientKind.NODE_PORT] in (0, 1)
    assert all(connection.start <= connection.end for connection in failed)


def test_a_client_keeps_its_records_while_the_disk_is_full(tmp_path: Path) -> None:
    records, output = tmp_path / "records", Output("/dev/full")
    output.write({"number": 1})
    with records.open("wb") as file:
        os.dup2(file.fileno(), output.fd)
    output.write({"number": 2})
    os.close(output.fd)
    assert [json.loads(line)["number"] for line in records.read_text().splitlines()] == [1, 2]
