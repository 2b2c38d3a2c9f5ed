"""A pod's namespaces and its wire to the node, made by the runtime's own code in a namespace of the test's own."""

from __future__ import annotations

import socket

import pytest

from bridgehead.kubelet.runtimes.runtime import SandboxSpec
from bridgehead.kubelet.runtimes.service.sandboxes import SandboxMaker, host_end_name
from bridgehead.network.netlink_socket import NetlinkSocket
from bridgehead.network.rtnetlink_requests import delete_link

from .namespaced import in_namespace, sh

pytestmark = pytest.mark.integration

NODE, NODE6 = "10.0.0.201", "fd00:10::201"
PODS = 20  # before the wire was waited for, one of five first packets was lost


@in_namespace
def test_the_first_packet_of_a_new_pod_is_answered():
    sh(f"ip address add {NODE}/32 dev lo; ip address add {NODE6}/128 dev lo nodad")
    maker = SandboxMaker(lambda *_: {})
    for number in range(1, PODS + 1):
        ips = (f"10.244.1.{number}", f"fd00:10:244:1::{number}")
        sandbox = maker.make(
            SandboxSpec(
                pod_uid=f"pod{number}", namespace="default", name="p", hostname="p", host_network=False, ips=ips
            )
        )
        with maker.in_network_of(sandbox):
            listeners = [_bound(ip) for ip in ips]
        for listener, ip, node in zip(listeners, ips, (NODE, NODE6), strict=True):
            with listener, _bound(node) as sender:
                sender.sendto(b"first", (ip, listener.getsockname()[1]))
                assert listener.recv(100) == b"first"
        maker.remove(sandbox)
    maker.close()


@in_namespace
@pytest.mark.parametrize("is_removed", [False, True])
def test_a_link_of_an_earlier_sandbox_of_the_pod_is_replaced(is_removed):
    name = host_end_name("again")
    sh(f"ip link add {name} type veth peer name peer")
    maker = SandboxMaker(lambda *_: {})
    send = NetlinkSocket.send

    def send_before_the_removal(self, requests):
        try:
            send(self, requests)
        except FileExistsError:
            if is_removed:  # by the kernel, which removes a network namespace at a time of its own choice
                send(self, [delete_link(name)])
            raise

    pytest.MonkeyPatch().setattr(NetlinkSocket, "send", send_before_the_removal)
    sandbox = maker.make(
        SandboxSpec(
            pod_uid="again", namespace="default", name="p", hostname="p", host_network=False, ips=("10.244.1.1",)
        )
    )
    assert "peer" not in sh("ip link")
    maker.remove(sandbox)
    maker.close()


def _bound(ip: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM)
    made.settimeout(20)
    made.bind((ip, 0))
    return made
