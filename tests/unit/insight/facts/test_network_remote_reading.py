"""Sockets of several files of /proc/net, which one program prints."""

from __future__ import annotations

import asyncio
from typing import Any

from bridgehead.insight.facts.network_remote_reading import read_by_programs
from bridgehead.insight.facts.network_state import Section
from bridgehead.insight.network_namespaces import Completed

HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
TCP = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0"
TCP6 = f"   0: {'0' * 32}:0050 {'0' * 32}:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0"
UDP = "  12: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 13 2 0 0"
SCTP = " ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS\n 0 0 2 10 1 9899 0 14 10.0.0.1\n"


class Namespace:
    name = "pod a/b"

    def __init__(self, code: int, text: str) -> None:
        self._completed = Completed(code, text.encode(), b"cat: /proc/net/sctp/eps: No such file or directory")
        self.calls = 0

    async def run(self, argv: Any, **_: Any) -> Completed:
        self.calls += 1
        return self._completed


def read(namespace: Namespace) -> Any:
    return asyncio.run(read_by_programs(namespace, (Section.LISTENERS,)))  # type: ignore[arg-type]


def test_the_protocol_of_a_file_is_in_its_heading() -> None:
    text = "\n".join((HEADING, TCP, HEADING, TCP6, f"{HEADING} ref pointer drops", UDP, SCTP))
    namespace = Namespace(0, text)
    found = [(each.protocol, each.address, each.port, each.backlog) for each in read(namespace).listeners]
    assert found == [
        ("tcp", "127.0.0.1", 8080, 3),
        ("tcp", "::", 80, 0),
        ("udp", "0.0.0.0", 53, 0),
        ("sctp", "10.0.0.1", 9899, 0),
    ]
    assert namespace.calls == 1


def test_files_that_the_kernel_lacks_are_left_out_and_no_file_at_all_is_unseen() -> None:
    state = read(Namespace(1, f"{HEADING}\n{TCP}\n"))
    assert [each.port for each in state.listeners] == [8080]
    assert state.unseen == {}
    assert read(Namespace(1, "")).unseen == {Section.LISTENERS: "cat: the sockets of /proc/net cannot be read"}
