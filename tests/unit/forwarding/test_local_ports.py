from __future__ import annotations

import pytest

from bridgehead.forwarding.local_ports import show_address
from bridgehead.objects.core.services import ServicePort


@pytest.mark.parametrize(
    ("port", "shown"),
    [
        (ServicePort(port=80), "http://127.0.0.1:30080"),
        (ServicePort(port=3000, name="web"), "http://127.0.0.1:30080"),
        (ServicePort(port=443), "https://127.0.0.1:30080"),
        (ServicePort(port=9000, app_protocol="https"), "https://127.0.0.1:30080"),
        (ServicePort(port=9000, app_protocol="kubernetes.io/wss"), "https://127.0.0.1:30080"),
        (ServicePort(port=6379), "tcp://127.0.0.1:30080"),
        (ServicePort(port=9000, name="grpc"), "tcp://127.0.0.1:30080"),
        (ServicePort(port=9000, app_protocol="mysql"), "tcp://127.0.0.1:30080"),
        (ServicePort(port=53, protocol="UDP"), "udp://127.0.0.1:30080"),
    ],
)
def test_the_address_has_the_scheme_of_its_program(port: ServicePort, shown: str):
    assert show_address(port, 30080) == shown
