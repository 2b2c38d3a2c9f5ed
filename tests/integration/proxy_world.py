"""A node with three pods and a client beside it, in network namespaces of its own, for the proxy's tests.

`World` forks a worker process (`tests/forks.py`) that enters new user, network and mount namespaces, makes the node of
its own network namespace, and answers requests: compile and apply objects, connect from somewhere, run a command.
The worker opens sockets inside the other namespaces by switching to them for the moment, so nothing else is started.
The mode, opened as `bridgehead proxy` opens it, lives in an event loop that runs all the time, in a thread of its own.

    client 10.0.0.1 ── node 10.0.0.201 ── pod1 10.244.1.1, pod2 10.244.1.2, pod3 10.244.1.3 (routed, /32)
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tests import forks

from .namespaced import enter_namespaces
from .proxy_clients import Conversations, Streams

if TYPE_CHECKING:
    from bridgehead.proxy.conntrack.reconciler import ConntrackReconciler
    from bridgehead.proxy.frontend_table import Update
    from bridgehead.proxy.frontends import Frontend
    from bridgehead.proxy.mode import Mode
    from bridgehead.proxy.nftables.chains import Chain

Result = TypeVar("Result")

PODS = ("pod1", "pod2", "pod3")
NODE4, CLIENT4 = "10.0.0.201", "10.0.0.1"
NODE6, CLIENT6 = "fd00:a::201", "fd00:a::1"
PORT = 8080
# A client looks for an answer so often, and for so long each time: longer in all than the kernel waits to send a SYN
# again. Looks are counted, not time, so that no client gives up while a busy machine pauses.
LOOKS, LOOK_SECONDS = 30, 0.05
MODES = ("nftables", "iptables-nft", "iptables-legacy", "userspace")
HIDES_THE_CLIENT = ("userspace",)  # by nature: this process makes the connections to pods, so they see the node


class World:
    """The test's side. Use as a context manager. `mode` is one of MODES, or "ipvs" in the guest (`tests/guest.py`)."""

    serve = f"{__name__}:serve"  # the worker's function

    def __init__(self, mode: str = "nftables") -> None:
        self.mode = mode
        requests, to_worker = os.pipe()
        from_worker, answers = os.pipe()
        modules = ("bridgehead.proxy.mode_choice", "bridgehead.proxy.conntrack.reconciler")
        forbidden = os.readlink("/proc/self/ns/net")
        try:
            self._worker = forks.fork(self.serve, forbidden, mode, streams=(requests, answers, 2), modules=modules)
        finally:
            os.close(requests)
            os.close(answers)
            self._requests = open(to_worker, "w", encoding="utf-8")  # noqa: SIM115 - closed with the world
            self._answers = open(from_worker, encoding="utf-8")  # noqa: SIM115
        try:
            answer = self._read()
            if answer != "ready":
                raise RuntimeError(f"the worker did not start: {answer}")
        except BaseException:
            self.__exit__()
            raise

    def seen(self, client: str, node: str = NODE4) -> str:
        """The address that a pod sees of a client whose own it may see."""
        return node if self.mode in HIDES_THE_CLIENT else client

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        try:
            self._worker.wait(60)
        finally:
            self._answers.close()

    def ask(self, what: str, **arguments: Any) -> Any:
        """Send a request to the worker; raises its error."""
        self._requests.write(json.dumps([what, arguments]) + "\n")
        self._requests.flush()
        return self._read()

    def put(self, service: dict[str, Any], *slices: dict[str, Any]) -> int:
        """Compile and apply a Service; return the number of changed elements."""
        return self.ask("put", service=service, slices=slices)

    def put_pod(self, pod: dict[str, Any]) -> int:
        """Compile and apply a pod's host ports; return the number of changed elements."""
        return self.ask("put_pod", pod=pod)

    def delete(self, name: str) -> int:
        """Remove a Service; return the number of changed elements."""
        return self.ask("delete", name=name)

    def reset(self) -> None:
        """Restore the state before each test: no Service, no rules, no tracked connection."""
        self.ask("reset")

    def connect(
        self, where: str, address: str, port: int, *, times: int = 1, udp: bool = False, source: str = ""
    ) -> list[str]:
        """Return the result of each of `times` connections: "pod1 from 10.0.0.1", "refused" or "timeout".

        "not permitted": a datagram that the sender's own kernel rejects (EPERM) instead of sending it.
        """
        return self.ask("connect", where=where, address=address, port=port, times=times, udp=udp, source=source)

    def connect_each(self, clients: Iterable[str], address: str, port: int) -> dict[str, str]:
        """Return the result of a connection from each client. All connect at once, since timeouts are long."""
        return self.ask("connect_each", clients=list(clients), address=address, port=port)

    def converse(self, name: str, where: str, address: str, port: int) -> str:
        """Return the answer to a datagram of the named client, which keeps its socket and so its flow."""
        return self.ask("converse", name=name, where=where, address=address, port=port)

    def talk(self, what: str, *arguments: Any) -> Any:
        """A method of `proxy_clients.Conversations`, over there."""
        return self.ask("talk", method=what, arguments=arguments)

    def stream(self, what: str, *arguments: Any) -> Any:
        """A method of `proxy_clients.Streams`, over there."""
        return self.ask("stream", method=what, arguments=arguments)

    def flows(self, port: int, protocol: str = "udp") -> list[str]:
        """Return the addresses and ports of the tracked flows to a port."""
        return self.ask("flows", port=port, protocol=protocol)

    def later(self, seconds: float) -> int:
        """Let the proxy's conntrack reconciler believe that so much time has passed; how many it removes then."""
        return self.ask("later", seconds=seconds)

    def run(self, *command: str) -> str:
        """Run a command on the node; its output."""
        return self.ask("run", command=command)

    def _read(self) -> Any:
        line = self._answers.readline()
        if not line:
            raise RuntimeError("the worker has ended")
        kind, value = json.loads(line)
        if kind == "error":
            raise RuntimeError(value)
        return value


def pod_ip(pod: str, family: int = 4) -> str:
    number = pod.removeprefix("pod")
    return f"10.244.1.{number}" if family == 4 else f"fd00:244:1::{number}"


# --- The worker ------------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


def serve(forbidden: str, mode: str, make_proxy: Callable[[dict[str, int], str], _Proxy] | None = None) -> None:
    """Make the world, then answer requests until standard input ends. `forbidden` is pytest's network namespace."""
    # IPVS hides its settings from every namespace but root's own.
    enter_namespaces(is_user=mode != "ipvs")
    if os.readlink("/proc/self/ns/net") == forbidden:
        raise SystemExit("this is the network namespace the tests were started in; not touching it")
    namespaces = _make_network()
    servers = [_listen(namespaces, pod, family) for pod in PODS for family in (4, 6)]
    threading.Thread(target=_answer_all, args=(servers,), daemon=True).start()
    for pod in PODS:
        for family in (4, 6):
            _await_reachable(namespaces, pod_ip(pod, family))
    try:
        proxy = (make_proxy or _Proxy)(namespaces, mode)
    except Exception as error:  # noqa: BLE001 - goes to the test
        _send("error", f"{type(error).__name__}: {error}")
        return
    _send("value", "ready")
    for line in sys.stdin:
        what, arguments = json.loads(line)
        try:
            _send("value", getattr(proxy, what)(**arguments))
        except Exception as error:  # noqa: BLE001 - goes to the test
            _send("error", f"{type(error).__name__}: {error}")
    proxy.close()


def _send(kind: str, value: Any) -> None:
    sys.stdout.write(json.dumps([kind, value]) + "\n")
    sys.stdout.flush()


def _ip(*commands: str, netns: str = "") -> None:
    """Run commands of `ip` in one process: in a guest a process takes a fifteenth of a second."""
    where = ["-n", netns] if netns else []
    subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(commands), check=True, text=True)


def _at_once(address: str) -> str:
    """Let an address be bound to from the start: `accept_dad` 0 alone ends its probation a moment later."""
    return "nodad" if ":" in address else ""


def _make_network() -> dict[str, int]:
    """The links and routes. Returns an open file of each network namespace."""
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    for name, value in (
        ("ipv4/ip_forward", 1),
        ("ipv6/conf/all/forwarding", 1),
        ("ipv6/conf/default/accept_dad", 0),
        # A client that is refused again and again shall learn it each time; what is in the masks is limited for all
        # network namespaces of the machine together.
        ("ipv4/icmp_ratelimit", 0),
        ("ipv4/icmp_ratemask", 0),
        ("ipv6/icmp/ratelimit", 0),
        ("ipv6/icmp/ratemask", ""),
        # A pod that reaches itself would be sent redirects.
        ("ipv4/conf/all/send_redirects", 0),
        ("ipv4/conf/default/send_redirects", 0),
    ):
        Path("/proc/sys/net", name).write_text(f"{value}\n")
    names = ("client", *PODS)
    _ip("link set lo up", *(f"netns add {name}" for name in names))
    files = {name: os.open(f"/run/netns/{name}", os.O_RDONLY) for name in names}
    files["node"] = os.open("/proc/self/ns/net", os.O_RDONLY)
    for name in names:
        with _inside(files, name):
            Path("/proc/sys/net/ipv6/conf/default/accept_dad").write_text("0\n")
    macs = {name: f"02:00:00:00:00:{number:02x}" for number, name in enumerate(names)}
    _ip(*(f"link add {name} address {macs[name]} type veth peer name eth0 netns {name}" for name in names))
    sides = ((NODE4, CLIENT4, 24), (NODE6, CLIENT6, 64))
    _ip(
        *(f"link set {name} up" for name in names),
        *(f"address add {node}/{length} dev client {_at_once(node)}" for node, _, length in sides),
    )
    _ip(
        "link set lo up",
        "link set eth0 up",
        *(f"address add {client}/{length} dev eth0 {_at_once(client)}" for _, client, length in sides),
        *(f"route add default via {node}" for node, _, _ in sides),
        netns="client",
    )
    for pod in PODS:
        lines = ["link set lo up", "link set eth0 up"]
        for family, gateway in ((4, "169.254.1.1"), (6, "fe80::1")):
            its, length = pod_ip(pod, family), 32 if family == 4 else 128
            lines += [
                f"address add {its}/{length} dev eth0 {_at_once(its)}",
                f"neighbour add {gateway} lladdr {macs[pod]} dev eth0 nud permanent",
                f"route add default via {gateway} dev eth0 onlink",
            ]
        _ip(*lines, netns=pod)
    _ip(
        *(f"route add default via {client}" for _, client, _ in sides),
        *(f"route add {pod_ip(pod, 4)}/32 dev {pod}" for pod in PODS),
        *(f"route add {pod_ip(pod, 6)}/128 dev {pod}" for pod in PODS),
    )
    return files


@contextlib.contextmanager
def _inside(namespaces: dict[str, int], where: str) -> Iterator[None]:
    """Sockets made in here belong to that namespace; only the calling thread is moved."""
    if _libc.setns(namespaces[where], _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    try:
        yield
    finally:
        _libc.setns(namespaces["node"], _CLONE_NEWNET)


def _await(sock: socket.socket, event: int) -> None:
    """Wait until the socket can be read or written; raises TimeoutError."""
    poll = select.poll()
    poll.register(sock, event)
    if not any(poll.poll(LOOK_SECONDS * 1000) for _ in range(LOOKS)):
        raise TimeoutError


Server = tuple[str, socket.socket, socket.socket]


def _listen(namespaces: dict[str, int], pod: str, family: int) -> Server:
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    with _inside(namespaces, pod):
        tcp, udp = socket.socket(kind, socket.SOCK_STREAM), socket.socket(kind, socket.SOCK_DGRAM)
        for sock in (tcp, udp):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((pod_ip(pod, family), PORT))
        tcp.listen(1024)
    return pod, tcp, udp


def _await_reachable(namespaces: dict[str, int], address: str) -> None:
    """A new veth drops packets, and a new IPv6 address has no local route, until the kernel has got round to it."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with _inside(namespaces, "client"), socket.create_connection((address, PORT), timeout=0.1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _answer_all(servers: list[Server]) -> None:
    """Answer every peer with the pod's name and the address that the peer seemed to have."""
    by_socket = {sock: pod for pod, *both in servers for sock in both}
    while True:
        for sock in select.select(list(by_socket), [], [])[0]:
            pod = by_socket[sock]
            if sock.type == socket.SOCK_STREAM:
                connection, peer = sock.accept()
                with connection, contextlib.suppress(OSError):  # who has lost patience is gone, maybe with its route
                    connection.sendall(f"{pod} from {peer[0]}".encode())
            else:
                data, peer = sock.recvfrom(100)
                number = f" {data.decode()}" if data.isdigit() else ""
                with contextlib.suppress(OSError):
                    sock.sendto(f"{pod} from {peer[0]}{number}".encode(), peer)


def _forget_connections() -> None:
    """Delete all tracked connections, as `conntrack -F` does. The kernel walks its whole hash table for each query."""
    from bridgehead.network.netlink_attributes import MESSAGE_HEADER, each_message
    from bridgehead.network.netlink_socket import NETFILTER_HEADER, netfilter_header, open_socket
    from bridgehead.network.uapi.netlink import NETLINK_NETFILTER, NLM_F_ACK, NLM_F_REQUEST
    from bridgehead.network.uapi.nfnetlink import NFNL_SUBSYS_CTNETLINK
    from bridgehead.network.uapi.nfnetlink_conntrack import IPCTNL_MSG_CT_DELETE

    kind, flags = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE, NLM_F_REQUEST | NLM_F_ACK
    length = MESSAGE_HEADER.size + NETFILTER_HEADER.size
    with open_socket(NETLINK_NETFILTER) as netlink:
        netlink.send(MESSAGE_HEADER.pack(length, kind, flags, 1, 0) + netfilter_header(socket.AF_UNSPEC))
        ((_, _, _, payload),) = each_message(netlink.recv(4096))
    error = -int.from_bytes(payload[:4], sys.byteorder, signed=True)
    if error:
        raise OSError(error, os.strerror(error))


class _Proxy:
    """The requests: every public method is one."""

    def __init__(self, namespaces: dict[str, int], mode: str) -> None:
        from bridgehead.proxy.frontend_table import FrontendTable
        from bridgehead.proxy.frontends import NodeFacts
        from bridgehead.proxy.mode import Settings
        from bridgehead.proxy.reserved_addresses import plan_reserved

        cidrs = ("10.244.0.0/16", "fd00:244::/32")
        self._namespaces = namespaces
        self._reserved = plan_reserved("node1", (NODE4, NODE6), (), (), (), (), (), ())
        self._facts = NodeFacts(name="node1", addresses=(NODE4, NODE6), families=(4, 6), cluster_cidrs=cidrs)
        own = ("10.244.1.0/24", "fd00:244:1::/64")
        self._settings = Settings((4, 6), cidrs, ("10.96.0.0/12", "fd00:96::/112"), own_pod_cidrs=own)
        self._table = FrontendTable()
        self._ahead = 0.0
        self._flows = self._make_reconciler()
        self._clients: dict[str, socket.socket] = {}
        self._conversations = Conversations(functools.partial(_inside, namespaces), pod_ip)
        self._streams = Streams(functools.partial(_inside, namespaces))
        self._mode_name, _, self._variant = mode.partition("-")
        self._mode: Mode
        self._opened = contextlib.AsyncExitStack()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._do(self._open())

    def close(self) -> None:
        self._do(self._opened.aclose())
        self._flows.close()

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the loop of the mode, which is for one thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> None:
        """A mode that knows nothing of an earlier one."""
        from bridgehead.proxy.mode_choice import open_mode

        await self._opened.aclose()
        with self._hint():
            self._mode = await self._opened.enter_async_context(open_mode(self._mode_name))
        self._mode.configure(self._settings)

    @contextlib.contextmanager
    def _hint(self) -> Iterator[None]:
        """Provide the chain that shows the iptables mode which variant this node uses."""
        if not self._variant:
            yield
            return
        mangle = (f"iptables-{self._variant}", "-t", "mangle")
        self.run([*mangle, "-N", "KUBE-IPTABLES-HINT"])
        yield
        self.run([*mangle, "-X", "KUBE-IPTABLES-HINT"])

    def put(self, service: dict[str, Any], slices: list[dict[str, Any]]) -> int:
        return self._do(self._apply(self._compile(service, slices)))

    def put_pod(self, pod: dict[str, Any]) -> int:
        import msgspec

        from bridgehead.objects.core import Pod
        from bridgehead.proxy.host_port_frontends import compile_host_ports

        compiled = compile_host_ports(msgspec.convert(pod, Pod), self._facts)
        update = self._table.update(compiled.service, compiled)
        self._flows.record(compiled.service, compiled, (), update)
        return self._do(self._apply(update))

    async def _apply(self, update: Update) -> int:
        changed = await self._mode.apply([update])
        await self._clean()
        return changed

    async def _clean(self) -> None:
        self._flows.on_programmed(self._table, self._settings)
        await self._flows.scan()

    def load(self, service: dict[str, Any], slices: list[dict[str, Any]]) -> None:
        """Compile without applying; for `sync` to do."""
        self._compile(service, slices)

    def load_many(self, services: int, endpoints: int) -> None:
        """Load so many Services, each with its own cluster IP and endpoints, on another node."""
        for number in range(services):
            name, address = f"many-{number}", f"10.97.{number >> 8}.{number & 255}"
            self._compile(
                {
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]},
                },
                [
                    {
                        "addressType": "IPv4",
                        "ports": [{"port": 80}],
                        "endpoints": [
                            {"addresses": [f"10.245.{number & 255}.{1 + index}"], "nodeName": "node2"}
                            for index in range(endpoints)
                        ],
                    }
                ],
            )

    def _compile(self, service: dict[str, Any], slices: list[dict[str, Any]]) -> Update:
        import msgspec

        from bridgehead.objects.core import Service
        from bridgehead.objects.endpoint_slices import EndpointSlice
        from bridgehead.proxy.service_frontends import compile_service

        the_service = msgspec.convert(service, Service)
        the_slices = msgspec.convert(slices, list[EndpointSlice])
        compiled = compile_service(the_service, the_slices, self._facts, self._reserved)
        update = self._table.update(the_service.key, compiled)
        self._flows.record(the_service.key, compiled, the_slices, update)
        return update

    def delete(self, name: str) -> int:
        """Remove a Service; return the number of changed elements."""
        from bridgehead.objects.meta import ObjectKey

        key = ObjectKey("default", name)
        update = self._table.update(key, None)
        self._flows.record(key, None, (), update)
        return self._do(self._apply(update))

    def change(self, services: list[tuple[dict[str, Any], list[dict[str, Any]]]], gone: list[str]) -> int:
        """Compile Services, delete others, and apply all of it as one change."""
        from bridgehead.objects.meta import ObjectKey

        updates = [self._compile(service, slices) for service, slices in services]
        for name in gone:
            key = ObjectKey("default", name)
            updates.append(self._table.update(key, None))
            self._flows.record(key, None, (), updates[-1])

        async def apply() -> int:
            changed = await self._mode.apply(updates)
            await self._clean()
            return changed

        return self._do(apply())

    def watch_parts(self, limit: int, watched: list[tuple[str, str, int, bool]]) -> None:
        """Let the kernel take only `limit` bytes at once from now on, and connect to each of `watched` between the
        parts."""
        mode: Any = self._mode
        mode = getattr(mode, "_tables", mode)
        method = "restore" if self._mode_name == "iptables" else "apply"
        send = getattr(mode._kernel, method)
        self._answers: list[list[str]] = []
        self._watched = watched

        async def send_and_look(*arguments: Any) -> None:
            *others, text = arguments
            # iptables-restore applies one section after the other.
            for part in re.findall(r".+?^COMMIT\n", text, re.DOTALL | re.MULTILINE) or [text]:
                await send(*others, part)
                self._answers.append(
                    await asyncio.to_thread(lambda: [self._connect(*target, "") for target in self._watched])
                )

        setattr(mode._kernel, method, send_and_look)
        for name in ("_elements_at_once", "_bytes_at_once"):
            if hasattr(mode, name):
                setattr(mode, name, limit)

    def answers(self) -> list[list[str]]:
        """Return the results of all clients after each part since the last call, and stop the clients."""
        self._watched = []
        found, self._answers = self._answers, []
        return found

    def sync(self) -> int:
        async def sync() -> int:
            changed = await self._mode.sync(self._table)
            await self._clean()
            return changed

        return self._do(sync())

    def _make_reconciler(self) -> ConntrackReconciler:
        from bridgehead.proxy.conntrack.reconciler import ConntrackReconciler

        return ConntrackReconciler(now=lambda: time.monotonic() + self._ahead)

    def restart(self) -> None:
        """A new proxy that knows nothing of the old one."""
        self._forget()
        self._do(self._open())

    def _forget(self) -> None:
        from bridgehead.proxy.frontend_table import FrontendTable

        self._table = FrontendTable()
        self._flows.close()
        self._flows = self._make_reconciler()

    def verify(self, thoroughly: bool) -> list[Any] | None:
        repair = self._do(self._mode.verify(self._table, thoroughly=thoroughly))
        return list(repair) if repair is not None else None

    def cleanup(self) -> bool:
        return self._do(self._mode.remove())

    def reset(self) -> None:
        self._conversations.close()
        self._streams.close()
        while self._clients:
            self._clients.popitem()[1].close()
        if self._mode_name == "ipvs":  # whose removal takes a second: the kernel waits a moment for each set
            self._forget()
        else:
            self.cleanup()
            self.restart()
        _forget_connections()  # first: a new proxy looks for stale ones in a table that takes long to walk
        self.sync()

    def difference(self) -> list[str]:
        """Return how a read-back of the kernel differs from the Frontends: missing and surplus elements and chains."""
        return self._do(getattr(self, f"_{self._mode_name}_difference")())

    async def _ipvs_difference(self) -> list[str]:
        from bridgehead.proxy.ipvs import IpvsMode

        assert isinstance(self._mode, IpvsMode)
        transaction = await self._mode.difference(self._table)
        return [] if not transaction else [repr(transaction)]

    async def _iptables_difference(self) -> list[str]:
        from bridgehead.proxy.iptables import Kernel
        from bridgehead.proxy.iptables.readback import parse_listing
        from bridgehead.proxy.iptables.render import Renderer

        with contextlib.closing(Kernel(self._variant)) as tables:
            kernel = {family: parse_listing(await tables.save(family)) for family in (4, 6)}
        renderer = Renderer(self._settings)
        return list(renderer.full(self._table, self._table.cluster_ips(), kernel).texts().values())

    async def _userspace_difference(self) -> list[str]:
        """The rules, the listening sockets, and to which backends they lead."""
        from bridgehead.proxy.userspace.mode import UserspaceMode
        from bridgehead.proxy.userspace.redirects import LISTENING, TABLE, guards, redirect, sides

        assert isinstance(self._mode, UserspaceMode)
        listeners = self._mode.listeners
        lines = []
        for frontend in self._table:
            for side, backends in sides(frontend).items():
                wanted = sorted((backend.address, backend.port) for backend in backends)
                if sorted(listeners.targets(side)) != wanted:
                    lines.append(f"{side}: {listeners.targets(side)} instead of {wanted}")
        wanted_sides = {side for frontend in self._table for side in sides(frontend)}
        lines += [f"listener {side}" for side in wanted_sides ^ set(listeners.sides())]
        listening = set()
        for protocol in ("tcp", "udp"):
            for found in self.run(["ss", "-Hnl" + protocol[0]]).splitlines():
                address, _, port = found.split()[3].rpartition(":")
                if address.strip("[]") in LISTENING.values():
                    listening.add((protocol, address.strip("[]"), int(port)))
        expected = {(side.key.protocol, LISTENING[side.key.family], port) for side, port in listeners.ports.items()}
        lines += [f"socket {what}" for what in listening ^ expected]
        redirected = [redirect(frontend, listeners.ports) for frontend in self._table]
        return lines + await self._nftables_difference(redirected, TABLE, guards())

    async def _nftables_difference(
        self, frontends: Iterable[Frontend] | None = None, name: str = "bridgehead", more: tuple[Chain, ...] = ()
    ) -> list[str]:
        from bridgehead.proxy.nftables import Kernel, TableSpec
        from bridgehead.proxy.nftables.chains import containers, family_keyword
        from bridgehead.proxy.nftables.readback import parse_table
        from bridgehead.proxy.nftables.render import Renderer

        kernel = {}
        with contextlib.closing(Kernel()) as tables:
            for family in (4, 6):
                listing = await tables.list_table(family_keyword(family), name)
                if listing is not None:
                    kernel[family] = parse_table(listing, frozenset(containers(4)))
        renderer = Renderer(self._settings, TableSpec(name, more))
        transaction = renderer.full(self._table if frontends is None else frontends, self._table.cluster_ips(), kernel)
        lines = [
            f"{verb} {container} {element}"
            for verb, changes in (("-", transaction.removed), ("+", transaction.added))
            for container, elements in changes.items()
            for element in elements
        ]
        for family in (4, 6):
            chains = {chain.name for chain in renderer.chains(family)} if family in renderer.families else set()
            found = kernel[family].chains if family in kernel else set()
            lines += [f"chain {name}" for name in sorted(chains ^ found)]
        return lines

    def run(self, command: list[str]) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def flows(self, port: int, protocol: str = "udp") -> list[str]:
        from bridgehead.network.conntrack import Conntrack

        with Conntrack() as conntrack:
            return [identity.hex() for family in (4, 6) for _, identity in conntrack.find(family, protocol, ("", port))]

    def later(self, seconds: float) -> int:
        """Let so much time pass for the conntrack reconciler; return how many flows it removed."""
        self._ahead += seconds
        return self._do(self._flows.scan())

    def talk(self, method: str, arguments: list[Any]) -> Any:
        return getattr(self._conversations, method)(*arguments)

    def stream(self, method: str, arguments: list[Any]) -> Any:
        return getattr(self._streams, method)(*arguments)

    def converse(self, name: str, where: str, address: str, port: int) -> str:
        if name not in self._clients:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with _inside(self._namespaces, where):
                self._clients[name] = socket.socket(family, socket.SOCK_DGRAM)
            self._clients[name].connect((address, port))
        try:
            self._clients[name].send(b"?")
            _await(self._clients[name], select.POLLIN)
            return self._clients[name].recv(200).decode().partition(" ")[0]
        except ConnectionRefusedError:
            return "refused"
        except PermissionError:
            return "not permitted"
        except TimeoutError:
            return "timeout"

    def connect(self, where: str, address: str, port: int, times: int, udp: bool, source: str) -> list[str]:
        return [self._connect(where, address, port, udp, source) for _ in range(times)]

    def connect_each(self, clients: list[str], address: str, port: int) -> dict[str, str]:
        with ThreadPoolExecutor(len(clients)) as pool:
            answers = pool.map(lambda where: self._connect(where, address, port, False, ""), clients)
            return dict(zip(clients, answers, strict=True))

    def _connect(self, where: str, address: str, port: int, udp: bool, source: str) -> str:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with _inside(self._namespaces, where):
            sock = socket.socket(family, socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        with sock:
            sock.setblocking(False)
            try:
                if source:
                    sock.bind((source, 0))
                with contextlib.suppress(BlockingIOError):
                    sock.connect((address, port))
                _await(sock, select.POLLOUT)
                error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise OSError(error, os.strerror(error))
                if udp:
                    sock.send(b"?")
                _await(sock, select.POLLIN)
                return sock.recv(200).decode()
            except ConnectionRefusedError:
                return "refused"
            except PermissionError:  # the datagram is rejected on its way out of its own host
                return "not permitted"
            except TimeoutError:
                return "timeout"
