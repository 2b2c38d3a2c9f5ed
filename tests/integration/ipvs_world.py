"""`proxy_world` with what only the tests of the ipvs mode and of SCTP ask for: other options, clocks, modes; SCTP."""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import threading
from typing import Any

from .proxy_world import LOOK_SECONDS, LOOKS, PODS, PORT, World, _inside, _Proxy, pod_ip
from .proxy_world import serve as serve_proxy


class IpvsWorld(World):
    """The test's side; its requests beyond those of `World` are the public methods of `_IpvsProxy`."""

    serve = f"{__name__}:serve"


class _IpvsProxy(_Proxy):
    _serves_sctp = False
    _asking: tuple[threading.Event, list[str], threading.Thread] | None = None

    def use_ipvs_options(self, **options: Any) -> None:
        """Another mode with such options in the place of this one, on the same kernel; and sync."""
        from bridgehead.proxy.config import IpvsOptions
        from bridgehead.proxy.ipvs import IpvsMode

        assert isinstance(self._mode, IpvsMode)
        kernel = self._mode._kernel
        self._do(kernel.probe(IpvsOptions(**options)))
        self._mode = IpvsMode(kernel, self._settings, IpvsOptions(**options))
        self.sync()

    def pass_time(self, seconds: float) -> None:
        """Let the mode believe that so much time has passed."""
        from bridgehead.proxy.ipvs import IpvsMode

        assert isinstance(self._mode, IpvsMode)
        before = self._mode._clock
        self._mode._clock = lambda: before() + seconds

    def change_mode(self, name: str) -> list[str]:
        """Sync the new mode first, then remove the others, as the proxy does. Return the modes that had anything."""
        from bridgehead.proxy.mode_choice import remove_others

        self._mode_name = name
        self._do(self._open())
        self.sync()
        return self._do(remove_others(name))

    def begin_asking(self, where: str, address: str, port: int) -> None:
        """Connect again and again from now on."""
        ends, answers = threading.Event(), list[str]()
        thread = threading.Thread(target=self._ask_until, args=(ends, answers, where, address, port), daemon=True)
        self._asking = ends, answers, thread
        thread.start()

    def end_asking(self) -> list[str]:
        """Return the result of each connection: a pod's name, or an error."""
        assert self._asking is not None
        ends, answers, thread = self._asking
        ends.set()
        thread.join()
        return answers

    def _ask_until(self, ends: threading.Event, answers: list[str], where: str, address: str, port: int) -> None:
        while not ends.wait(0.1):
            with _inside(self._namespaces, where):
                client = socket.socket()
            with client:
                client.settimeout(60)  # a first packet that is lost in the change is sent again after 1, 3 and 7 s
                try:
                    client.connect((address, port))
                    answers.append(client.recv(200).decode().partition(" ")[0])
                except OSError as error:
                    answers.append(type(error).__name__)

    def remove_others(self, name: str) -> list[str]:
        """Remove the other modes, as a proxy of that mode does. Return those that had anything."""
        from bridgehead.proxy.mode_choice import remove_others

        return self._do(remove_others(name))

    def remove_leftovers(self, mode: str, is_last: bool = False) -> bool:
        """Remove what kube-proxy in that mode does not use. Return whether there was anything."""
        from bridgehead.proxy.mode import SharingNames

        assert isinstance(self._mode, SharingNames)
        return self._do(self._mode.remove_leftovers(mode, is_last=is_last))

    def do_by_hand(self) -> None:
        """Clean up, then do what a dry run prints with the tools it names."""
        text = self._mode.render(self._table)
        self.cleanup()
        for part in text.split("# ")[1:]:
            command, _, lines = part.partition("\n")
            argv = command.replace("tables-", "tables-legacy-").split()
            subprocess.run(argv, input=lines, text=True, check=True, capture_output=True)

    def listen_on_node(self, port: int) -> None:
        """A server on every address of the node that answers one client with its name, as servers in pods do."""
        server = socket.create_server(("0.0.0.0", port))

        def answer() -> None:
            with server, server.accept()[0] as connection:
                connection.sendall(f"node from {connection.getpeername()[0]}".encode())

        threading.Thread(target=answer, daemon=True).start()

    def serve_sctp(self) -> None:
        """Serve SCTP in every pod, as TCP is served there; needs a kernel with SCTP."""
        if self._serves_sctp:
            return
        self._serves_sctp = True
        for pod in PODS:
            for family, kind in ((4, socket.AF_INET), (6, socket.AF_INET6)):
                with _inside(self._namespaces, pod):
                    server = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
                server.bind((pod_ip(pod, family), PORT))
                server.listen(64)
                threading.Thread(target=self._answer_sctp, args=(pod, server), daemon=True).start()

    @staticmethod
    def _answer_sctp(pod: str, server: socket.socket) -> None:
        while True:
            connection, peer = server.accept()
            with connection, contextlib.suppress(OSError):  # of a client that has closed it already
                connection.sendall(f"{pod} from {peer[0]}".encode())

    def connect_sctp(self, where: str, address: str, port: int, times: int, source_port: int = 0) -> list[str]:
        """Do what `connect` does by SCTP. Each association has its own source port, from `source_port` on; 0: the
        kernel chooses."""
        found = []
        for number in range(times):
            with _inside(self._namespaces, where):
                kind = socket.AF_INET6 if ":" in address else socket.AF_INET
                client = socket.socket(kind, socket.SOCK_STREAM, socket.IPPROTO_SCTP)
            with client:
                # IPVS drops the first packet of an association from a port that was in use a moment ago. SCTP sends it
                # again after three seconds.
                client.settimeout(60)
                if source_port:
                    client.bind(("", source_port + number))
                try:
                    client.connect((address, port))
                    found.append(client.recv(200).decode())
                except ConnectionRefusedError:
                    found.append("refused")
                except TimeoutError:
                    found.append("timeout")
        return found

    def send_init(self, where: str, address: str, port: int) -> str:
        """Return which pod the first packet of an association reaches, and its source; the kernel need not know
        SCTP."""
        receivers = {}
        for pod in PODS:
            with _inside(self._namespaces, pod):
                receivers[socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_SCTP)] = pod
        with contextlib.ExitStack() as closing:
            for receiver in receivers:
                closing.enter_context(receiver)
            self._conversations.begin_sctp(where, address, port)
            ready = select.select(list(receivers), [], [], LOOKS * LOOK_SECONDS)[0]
            if not ready:
                return "timeout"
            packet, peer = ready[0].recvfrom(200)
            header = (packet[0] & 15) * 4
            return f"{receivers[ready[0]]}:{int.from_bytes(packet[header + 2 : header + 4])} from {peer[0]}"


def serve(forbidden: str, mode: str) -> None:
    """Do what `proxy_world.serve` does, with more requests."""
    serve_proxy(forbidden, mode, _IpvsProxy)
