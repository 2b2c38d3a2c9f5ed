"""Reports as text and JSON, and results of programs in place of functions."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.insight.network_namespaces import Completed
from bridgehead.insight.trace.probing import Outcome, Probe, make_datagram, marker_of
from bridgehead.insight.trace.program_probes import connection_commands, question_commands, read_answer, read_connection
from bridgehead.insight.trace.rendering import render
from bridgehead.insight.trace.report import Report, State, Step

REPORT = Report(
    verdict="Dies at the step pod: nobody listens",
    works=False,
    origin="pod/default/client",
    target="web",
    protocol="tcp",
    destination="10.96.0.10:80",
    differences=("the kernel has another backend",),
    steps=(
        Step(name="Service", text="it is a cluster IP", evidence=("evil \x1b[31m\u202etext\nnext",)),
        Step(name="pod", text="nobody listens", state=State.FAILED),
    ),
    unseen=("nodes: forbidden",),
)


def test_the_verdict_is_the_first_line():
    assert render(REPORT).splitlines() == [
        "Dies at the step pod: nobody listens",
        "Difference: the kernel has another backend",
        "",
        "pod/default/client -> web (10.96.0.10:80), tcp",
        " 1. Service: it is a cluster IP",
        "      evil ?[31m?text?next",
        " 2. pod [FAILED]: nobody listens",
        "",
        "Could not look at nodes: forbidden",
    ]


def test_the_fields_of_the_json_report():
    document = msgspec.to_builtins(REPORT)
    assert list(document) == [
        "verdict", "works", "origin", "target", "protocol", "destination", "differences", "steps", "backends", "seen",
        "unseen", "format",
    ]  # fmt: skip
    assert document["format"] == "bridgehead trace 1"
    assert list(document["steps"][0]) == ["name", "text", "state", "evidence"]


TCP = Probe(protocol="tcp", address="10.96.0.10", port=80)


def test_commands_of_connections():
    assert [argv[0] for argv in connection_commands(TCP)] == ["nc", "python3", "timeout", "curl", "wget"]
    assert list(connection_commands(Probe(protocol="udp", address="10.96.0.10", port=53))) == []
    assert any(
        "[fd00::1]" in argv[-1] for argv in connection_commands(Probe(protocol="tcp", address="fd00::1", port=1))
    )


@pytest.mark.parametrize(
    ("program", "code", "stderr", "milliseconds", "outcome"),
    [
        ("nc", 0, b"", 1, Outcome.CONNECTED),
        ("nc", 1, b"", 1, Outcome.REFUSED),
        ("nc", 1, b"", 2000, Outcome.TIMED_OUT),
        ("nc", 1, b"nc: can't connect: Connection refused", 1, Outcome.REFUSED),
        ("nc", 1, b"nc: No route to host", 1, Outcome.UNREACHABLE),
        ("nc", 1, b"Usage: nc [OPTIONS] HOST PORT\n\n-e PROG Run PROG after connect", 1, None),
        ("nc", 127, b"sh: nc: not found", 1, None),
        ("curl", 7, b"", 1, Outcome.REFUSED),
        ("curl", 28, b"", 2000, Outcome.TIMED_OUT),
        ("curl", 52, b"", 1, Outcome.CONNECTED),  # an empty reply
        ("wget", 1, b"wget: server returned error: HTTP/1.1 404 Not Found", 1, Outcome.CONNECTED),
        ("wget", 1, b"wget: error getting response: Connection reset by peer", 1, Outcome.CLOSED),
        ("python3", 1, b"Traceback\nConnectionRefusedError: [Errno 111] Connection refused", 1, Outcome.REFUSED),
    ],
)
def test_results_of_connections(program, code, stderr, milliseconds, outcome):
    found = read_connection((program,), Completed(code, b"", stderr), milliseconds)
    assert (found.outcome if found is not None else None) is outcome


def test_results_of_questions():
    assert [argv[0] for argv in question_commands("web")] == ["getent", "nslookup"]
    printed = b"10.96.0.10      STREAM web.default.svc.cluster.local\n10.96.0.10      DGRAM\nnonsense x\n"
    assert read_answer(("getent",), Completed(0, printed, b""), "web").addresses == ("10.96.0.10",)
    printed = b"Server:\t10.96.0.53\nAddress: 10.96.0.53#53\n\nName:\tweb\nAddress: 10.96.0.10\nAddress 2: fd00::1 x\n"
    assert read_answer(("nslookup",), Completed(0, printed, b""), "web").addresses == ("10.96.0.10", "fd00::1")
    assert read_answer(("nslookup",), Completed(1, b"", b"can't find"), "web").rcode == "NXDOMAIN"


def test_marks_of_first_packets():
    assert marker_of(Probe(protocol="tcp", address="10.0.0.1", port=80, segment_bytes=777)) == (20, b"\x02\x04\x03\x09")
    datagram = make_datagram(53, b"12345678")
    assert marker_of(Probe(protocol="udp", address="10.0.0.1", port=53, datagram=datagram)) == (8, datagram[:8])
    assert datagram.startswith(b"12\x01\x00\x00\x01")
    assert make_datagram(5000, b"12345678") == b"12345678"
    assert marker_of(Probe(protocol="sctp", address="10.0.0.1", port=80)) == (0, b"")
