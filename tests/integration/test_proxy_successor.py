"""The way back to kube-proxy: this proxy's rules serve until kube-proxy has written its own; then what is left goes.

kube-proxy is a stand-in: pages like its own, and its rules in the form in which v1.32 and later write them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.unit.insight.rulesets import kube_proxy

from .ipvs_world import IpvsWorld, _IpvsProxy
from .proxy_objects import WEB4, service, slice_of, talkers
from .proxy_world import serve as serve_proxy

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft", "iptables-nft")]

PROXY = (sys.executable, "-c", "from bridgehead.cli import main; main()", "proxy")
TALK = "10.96.0.20"
WAITS = "waiting for kube-proxy at 127.0.0.1:10249: it has not written its rules yet"
# Jumps of kube-proxy that its rules in `kube_proxy.IPTABLES` leave out.
MORE_JUMPS = """\
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A OUTPUT -j KUBE-FIREWALL
"""  # noqa: E501


class SuccessorWorld(IpvsWorld):
    """The test's side of a node that goes back to kube-proxy."""

    serve = f"{__name__}:serve"

    def __enter__(self) -> SuccessorWorld:
        return self

    def begin_kube_proxy(self, mode: str) -> None:
        """Start kube-proxy's pages, which show no sync yet."""
        self.ask("begin_kube_proxy", mode=mode)

    def write_kube_proxys_rules(self, mode: str) -> None:
        """Write the rules of kube-proxy's first sync, of a node whose other endpoint is pod3; its pages stay."""
        if mode == "nftables":
            self._feed("nft -f -", kube_proxy.nftables())
            return
        chains, nat = kube_proxy.IPTABLES.split("COMMIT\n", 1)
        self._feed("iptables-nft-restore --noflush", f"{chains}{MORE_JUMPS}COMMIT\n{nat}")
        # In IPv6 there is no Service: the chains of all Services are empty.
        empty = [
            line for line in kube_proxy.IPTABLES.splitlines() if re.match(r"[*C]|:KUBE-(?!.*-[A-Z2-7]{16} )", line)
        ]
        self._feed("ip6tables-nft-restore --noflush", "\n".join(empty) + "\n")

    def rules(self) -> set[str]:
        """Return the rules, each once: kube-proxy looks whether a jump exists before it inserts it."""
        commands = ("iptables-nft-save", "ip6tables-nft-save", "nft --stateless list tables")
        lines = "\n".join(self.run("sh", "-c", command) for command in commands).splitlines()
        return {re.sub(r"\[\d+:\d+\]", "", line) for line in lines if not line.startswith("#")}

    def _feed(self, command: str, text: str) -> None:
        self.ask("feed", command=command, text=text.replace("10.244.2.2", "10.244.1.3"))


class _SuccessorProxy(_IpvsProxy):
    _page = "", 0
    _cleanup: subprocess.Popen[str]

    def begin_kube_proxy(self, mode: str) -> None:
        self._page = mode, 0
        owner = self

        class Pages(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name, time = owner._page
                metrics = f"kubeproxy_sync_proxy_rules_last_timestamp_seconds {time}\n"
                self.send_response(200)
                self.end_headers()
                self.wfile.write((name if self.path == "/proxyMode" else metrics).encode())

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        pages = HTTPServer(("127.0.0.1", 10249), Pages)
        threading.Thread(target=pages.serve_forever, daemon=True).start()

    def finish_sync(self) -> None:
        """Let kube-proxy's pages show a sync."""
        self._page = self._page[0], 1790000000

    def feed(self, command: str, text: str) -> None:
        subprocess.run(command.split(), input=text, text=True, check=True)

    def begin_cleanup(self) -> str:
        """Start the cleanup. Return the first line of its log."""
        command = [*PROXY, "--cleanup-leftovers"]
        self._cleanup = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._cleanup.stderr is not None
        return self._cleanup.stderr.readline()

    def end_cleanup(self) -> list[Any]:
        """Return the exit status and the log of the cleanup."""
        _, log = self._cleanup.communicate(timeout=120)
        return [self._cleanup.returncode, log]


def serve(forbidden: str, mode: str) -> None:
    serve_proxy(forbidden, mode, _SuccessorProxy)


@pytest.mark.parametrize(
    ("ours", "kube_proxys"),
    [
        ("nftables", "iptables"),
        ("nftables", "nftables"),
        ("iptables-nft", "iptables"),
        ("iptables-nft", "nftables"),
    ],
)
def test_a_node_goes_back_without_a_failed_connection(ours: str, kube_proxys: str) -> None:
    with SuccessorWorld(ours) as world:
        world.reset()
        world.talk("listen", "pod1", 4)
        web = service(addresses=(WEB4,), type="NodePort", nodePort=30080)
        world.put(web, slice_of("pod2", "pod3"))
        world.put(service("talk", addresses=(TALK,)), talkers("pod1"))
        world.talk("dial", "open", "client", TALK, 80)
        world.ask("begin_asking", where="client", address=WEB4, port=80)

        world.begin_kube_proxy(kube_proxys)
        assert WAITS in world.ask("begin_cleanup")
        world.write_kube_proxys_rules(kube_proxys)
        world.ask("finish_sync")
        status, log = world.ask("end_cleanup")

        assert status == 0, log
        assert f"removed rules of {ours.partition('-')[0]} that kube-proxy does not use" in log
        answers = world.ask("end_asking")
        assert set(answers) <= {"pod2", "pod3"}, answers
        assert world.talk("exchange", "open") == "pod1"
        found = world.rules()
        world.run(*PROXY, "--cleanup")
        assert not [line for line in world.rules() if "KUBE-" in line or "bridgehead" in line or "kube-proxy" in line]
        world.write_kube_proxys_rules(kube_proxys)
        assert found == world.rules(), "only kube-proxy's rules are left"
