"""Checks of the machine before a lab starts. Every error is one line with the remedy."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from bridgehead.network.rtnetlink_listing import list_links

from . import namespace_trial, user_namespace
from .addressing import API_PORT, IpFamily
from .errors import LabError, Unsupported
from .namespace_limits import Limit
from .packages import POD_TOOLS, how_to_install
from .plan import LabConfig, StoreKind

# Three times what a lab writes until it is ready: keys, the store and its journal, logs.
_LEAST_SPACE = 16 << 20
# A member of etcd reserves two files of 64 MB for its log, and one of some MiB for its objects.
_ETCD_SPACE = 144 << 20
# Ports tried for the API server when the user gave none.
_PORT_CANDIDATES = range(API_PORT, API_PORT + 100)


def check_host(state_root: Path, *, has_host_access: bool = False) -> str:
    """Return the reason why there can be no IPv6, or "". Raises `Unsupported` with the first missing requirement."""
    from bridgehead.kubelet.runtimes.isolation import seccomp  # only `up` needs it; most commands use this module

    if not sys.platform.startswith("linux"):
        raise Unsupported(f"the lab is made of Linux namespaces; this is {sys.platform}")
    if find_system_program("nft") is None:
        raise Unsupported(f"the command `nft` is missing: {how_to_install('nft')}")
    try:
        seccomp.load()
    except seccomp.SeccompUnavailable as error:
        raise Unsupported(str(error)) from error
    for forbidden in ("/run/", "/proc/", "/sys/"):
        for what, path in (("the state directory", state_root), ("Python", Path(sys.prefix))):
            if str(path.resolve()).startswith(forbidden):
                raise Unsupported(f"{what} is in {path}, which the lab replaces by its own; use another place")
    check_loopback()
    return check_namespaces(has_own_ids=not (has_host_access and user_namespace.is_full_root()))


def check_loopback() -> None:
    """Raise `Unsupported` if this network namespace has no loopback, where the API server listens."""
    if not any(link.name == "lo" and link.is_up for link in list_links()):
        raise Unsupported("this machine's loopback is down: as root, `ip link set lo up`")


def check_space(state_root: Path, etcd_members: int = 0) -> None:
    """Raise `LabError` when the state directory's disk is nearly full: otherwise the parts would fail one by one.

    `etcd_members`: those that have no files yet.
    """
    needed = _LEAST_SPACE + etcd_members * _ETCD_SPACE
    disk = os.statvfs(state_root)
    free = disk.f_frsize * (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail)
    if disk.f_blocks and free < needed:  # some file systems report no size
        raise LabError(
            f"the disk of {state_root} has {free >> 20} MiB left, a lab needs {needed >> 20}:"
            " free some space, or choose another with --state-dir"
        )


def choose_ip_family(wanted: IpFamily | None, before: LabConfig | None, lack_of_ipv6: str) -> IpFamily:
    """Return the address families of the lab: `wanted`, those of the previous run, or both where the kernel has them.

    `lack_of_ipv6` is the result of `check_host`. Raises `LabError` when the choice is impossible.
    """
    if before and wanted and wanted != before.ip_family:
        raise LabError(
            f"the lab was made with --ip-family {before.ip_family}, and its Services and nodes have their addresses:"
            " `bridgehead down --delete` removes it, another --name makes a second one"
        )
    chosen: IpFamily = wanted or (before.ip_family if before else "ipv4" if lack_of_ipv6 else "dual")
    if chosen != "ipv4" and lack_of_ipv6:
        raise Unsupported(f"the lab cannot have IPv6 ({lack_of_ipv6}); a new one can be made with --ip-family ipv4")
    return chosen


def choose_host_access(wanted: bool | None, before: LabConfig | None) -> bool:
    """Return whether pods can reach the machine's files. Raises `LabError` if `wanted` changes that of the lab."""
    if before is None:
        return bool(wanted)
    if wanted is not None and wanted != before.host_access:
        now = "with" if before.host_access else "without"
        raise LabError(
            f"this lab was made {now} --host-access, and its files belong to other users otherwise:"
            " `bridgehead down --delete` first, or `up --name OTHER`"
        )
    return before.host_access


def choose_store(
    store: StoreKind | None, api_servers: int | None, before: LabConfig | None, *, is_restored: bool = False
) -> tuple[StoreKind, int]:
    """Return the lab's store and number of API servers: those that are wanted, else as in the previous run.

    `is_restored`: the objects come from a backup, so that they may change. Raises `LabError` if they change otherwise,
    need each other, or need a program that is missing.
    """
    if before is not None and not is_restored:
        _check_unchanged(store, api_servers, before)
    kind: StoreKind = store or (before.store if before else "sqlite")
    servers = api_servers or (before.api_servers if before and (not is_restored or kind == before.store) else 1)
    if servers > 1 and kind != "etcd":
        raise LabError(f"several API servers need a store that they share: --api-servers {servers} --store etcd")
    if kind == "etcd":
        if find_system_program("etcd") is None:
            raise Unsupported(f"the command `etcd` is missing: {how_to_install('etcd')}")
        if find_spec("grpc") is None:
            raise Unsupported("the Python package grpcio is missing: pip install 'bridgehead[etcd]'")
    return kind, servers


def _check_unchanged(store: StoreKind | None, api_servers: int | None, before: LabConfig) -> None:
    advice = (
        "`bridgehead down --delete` removes it, another --name makes a second one, and `up --restore FILE` moves the"
        " objects of a `bridgehead backup`"
    )
    if store and store != before.store:
        raise LabError(f"the lab was made with --store {before.store}, which has its objects: {advice}")
    if api_servers and api_servers != before.api_servers:
        made = f"--api-servers {before.api_servers} --store {before.store}"
        raise LabError(f"the lab was made with {made}, and a store keeps its number of members: {advice}")


def choose_node_dns(wanted: bool | None, before: LabConfig | None, kernel: str) -> bool:
    """Return whether each node gets a DNS server of its own: `wanted`, else as in the previous run, else if it is
    needed.

    It is needed on a `kernel` (the output of `uname -r`) before 5.7, whose connection tracking can lose one of two
    queries that a resolver sends at once (docs/decisions/0012-conntrack.md).
    """
    if wanted is not None:
        return wanted
    if before is not None:
        return before.node_dns
    release = re.match(r"(\d+)\.(\d+)", kernel)
    return release is not None and (int(release[1]), int(release[2])) < (5, 7)


def check_namespaces(*, has_own_ids: bool = True) -> str:
    """Try the lab's namespaces and a rule. Return the reason why the lab cannot have IPv6, or "".

    For `has_own_ids` see `try_in_namespaces`. Raises `Unsupported`.
    """
    answer = namespace_trial.try_in_namespaces(_try_kernel, has_own_ids=has_own_ids)
    if isinstance(answer, Limit):
        raise Unsupported(*answer)
    message, _, lack_of_ipv6 = answer.partition("\n")
    if message:
        raise Unsupported(message)
    return lack_of_ipv6


def _try_kernel() -> str:
    message = _try_rules("ip")
    return f"{message}\n{'' if message else _try_ipv6()}"


def _try_ipv6() -> str:
    """Return the reason why there is no IPv6, or "". Runs in a forked child, in its namespaces."""
    try:
        # The default of a new namespace, and so of each pod's: set by boot parameters and sysctls of the machine.
        is_disabled = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").read_text(encoding="ascii").strip() != "0"
    except OSError:
        return "this kernel has no IPv6"
    return "IPv6 is disabled on this machine" if is_disabled else _try_rules("ip6")


def _try_rules(family: str) -> str:
    """Return the message for the user, or "" if nftables works. Runs in a forked child. `family` is nft's keyword."""
    try:
        # The kinds of objects that the proxy's ruleset has.
        subprocess.run(
            [
                "nft",
                f"add table {family} probe;"
                f" add map {family} probe m {{ typeof {family} daddr . meta l4proto . th dport : verdict; }};"
                f" add chain {family} probe c {{ type nat hook prerouting priority -100; }};"
                f" add rule {family} probe c {family} daddr . meta l4proto . th dport vmap @m",
            ],
            check=True,
            capture_output=True,
            timeout=10,
            env={"PATH": system_path()},
        )
    except subprocess.CalledProcessError as error:
        reason = first_line(error.stderr)
        return (
            f"this kernel's nftables cannot do what the proxy needs ({reason}):"
            " load nf_tables and nft_nat, or use a newer kernel"
        )
    except subprocess.TimeoutExpired:
        return "`nft` does not answer within 10 s"
    return ""


def first_line(errors: bytes) -> str:
    """Return the first line of a failed program's standard error, or that it gave no reason."""
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else "no reason given"


def system_path() -> str:
    """Return PATH with the directories of administrators' commands, which ordinary users often lack."""
    return ":".join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def find_system_program(name: str) -> str | None:
    """Return the path of a program of this machine, also one that only root's PATH has; None without one."""
    return shutil.which(name, path=system_path())


def missing_pod_tools() -> list[str]:
    """Return the `POD_TOOLS` that this machine lacks."""
    return [tool for tool in POD_TOOLS if find_system_program(tool) is None]


def extend_path() -> None:
    """Let this process and its children find `nft` and `ip`."""
    os.environ["PATH"] = system_path()


def open_api_socket(port: int | None, preferred: int | None) -> socket.socket:
    """Listen on the host's loopback: on `port` if given, else on `preferred` or the first free port from 6443.

    Raises `LabError` when `port` is in use.
    """
    candidates = [port] if port else [*([preferred] if preferred else []), *_PORT_CANDIDATES]
    for candidate in candidates:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", candidate))
            listener.listen(1024)
        except OSError as error:
            listener.close()
            if port:
                raise LabError(
                    f"port {port} on 127.0.0.1 cannot be used ({error.strerror}); choose another with --port"
                ) from error
            continue
        return listener
    raise LabError("no port from 6443 to 6542 is free on 127.0.0.1; choose one with --port")
