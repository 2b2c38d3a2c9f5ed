"""The machine, before there is a lab: requirements of a lab, of each proxy mode and of pods, and whether they are met.

`up` checks only what it cannot do without (`preflight.py`); this is the whole list, for `bridgehead doctor --machine`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bridgehead.kubelet.runtimes.isolation import cgroups, seccomp

from . import preflight, user_namespace
from .addressing import API_PORT
from .errors import LabError, Unsupported
from .ids import describe_missing_ids
from .namespace_limits import Limit
from .namespace_trial import try_in_namespaces
from .packages import describe_missing_tools, how_to_install

_SECONDS = 10
_LEAST_FILES = 1024  # open files of a process; a lab of three nodes has some 400
_LEAST_INOTIFY = 64  # inotify instances of a user
_IPTABLES_RULES = """\
*nat
-A PREROUTING -m comment --comment try -m conntrack --ctstate NEW -m addrtype --dst-type LOCAL -p tcp -m statistic\
 --mode random --probability 0.5 -j DNAT --to-destination 127.0.0.1:1
-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE
COMMIT
"""


class Requirement(NamedTuple):
    """One requirement. `lack`: the reason why it is not met; "" if it is. `remedy`: a sentence, "" if there is none.

    `is_needed`: without it there is no lab. `without`: the effect of the lack of another one.
    """

    name: str
    lack: str = ""
    remedy: str = ""
    without: str = ""
    is_needed: bool = False


def examine_machine(state_root: Path) -> Iterator[Requirement]:
    """Yield the requirements, each checked when it is asked for. The state directory `state_root` need not exist.

    Changes nothing: rules are tried in a namespace of their own. The caller must have no other threads.
    """
    yield from _examine_kernel()
    yield _examine_iptables()
    yield _examine_ipvs()
    yield _examine_users()
    yield _examine_cgroups()
    yield from _examine_programs()
    yield _examine_ports()
    yield _examine_disk(state_root)
    yield from _examine_limits()


def _examine_kernel() -> Iterator[Requirement]:
    lack, remedy, lack_of_ipv6 = "", "", ""
    if preflight.find_system_program("nft") is None:
        lack, remedy = "the command `nft` is missing", how_to_install("nft")
    else:
        try:
            lack_of_ipv6 = preflight.check_namespaces()
        except Unsupported as error:
            lack, remedy = error.lack, error.remedy
    yield Requirement("namespaces and nftables", lack, remedy, is_needed=True)
    try:
        seccomp.load()
        lack = ""
    except seccomp.SeccompUnavailable as error:
        lack = str(error)
    yield Requirement("seccomp", lack, is_needed=True)
    yield Requirement("IPv6", lack_of_ipv6, without="a lab has IPv4 only")


def _examine_iptables() -> Requirement:
    without = "the proxy uses nftables instead of the modes iptables and ipvs"
    for command in ("iptables-restore", "iptables-save"):
        if preflight.find_system_program(command) is None:
            return Requirement("mode iptables", f"`{command}` is missing", how_to_install(command), without)
    return Requirement("mode iptables", _try_in_namespaces(_try_iptables), without=without)


def _try_in_namespaces(work: Callable[[], str]) -> str:
    answer = try_in_namespaces(work)
    return "there are no namespaces to try it in" if isinstance(answer, Limit) else answer


def _try_iptables() -> str:
    done = _run(["iptables-restore", "--wait", "5"], _IPTABLES_RULES)
    return "" if done is None else f"iptables-restore refuses a rule ({done})"


def _examine_ipvs() -> Requirement:
    without = "the proxy uses iptables instead of ipvs; `bridgehead rules --mode ipvs` shows what ipvsadm would print"
    lack = _try_in_namespaces(_try_ipvs)
    remedy = "" if not lack else "as root, `modprobe ip_vs`; a kernel without the module cannot have it"
    if not lack and (command := next(filter(_is_missing, ("ipset", "iptables-restore")), None)):
        lack, remedy = f"`{command}` is missing", how_to_install(command)
    return Requirement("mode ipvs", lack, remedy, without)


def _try_ipvs() -> str:
    from bridgehead.network.ipvs import Ipvs

    try:
        Ipvs().close()
    except OSError:
        return "this kernel has no IPVS (ip_vs)"
    return ""


def _is_missing(command: str) -> bool:
    return preflight.find_system_program(command) is None


def _examine_users() -> Requirement:
    id_map, _ = user_namespace.choose_id_map("", None)
    if not describe_missing_ids(id_map):
        return Requirement("users of pods")
    return Requirement(
        "users of pods",
        "this user has only one id",
        "install newuidmap (Debian: apt-get install uidmap) and get a range in /etc/subuid and /etc/subgid",
        "pods have no user but root",
    )


def _examine_cgroups() -> Requirement:
    lack = cgroups.explain_no_limits()
    return Requirement("limits of pods", lack, without="CPU and memory limits of pods have no effect")


def _examine_programs() -> Iterator[Requirement]:
    missing = preflight.missing_pod_tools()
    lack = f"missing: {', '.join(missing)}" if missing else ""
    yield Requirement("programs of stand-ins", lack, describe_missing_tools(missing))
    lack = "" if shutil.which("kubectl") else "`kubectl` is missing"
    yield Requirement("kubectl", lack, how_to_install("kubectl") if lack else "", "the cluster has no command line")


def _examine_ports() -> Requirement:
    try:
        preflight.open_api_socket(None, None).close()
    except LabError as error:
        return Requirement("port of the API server", str(error), is_needed=True)
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", API_PORT))
        except OSError:
            return Requirement(
                "port of the API server", f"{API_PORT} is in use", without="the API server has the next free port"
            )
    return Requirement("port of the API server")


def _examine_disk(state_root: Path) -> Requirement:
    existing = next(path for path in (state_root, *state_root.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        return Requirement(
            "disk", f"{existing} cannot be written", "choose another directory by --state-dir", is_needed=True
        )
    try:
        preflight.check_space(existing)
    except LabError as error:
        return Requirement("disk", str(error), is_needed=True)
    return Requirement("disk")


def _examine_limits() -> Iterator[Requirement]:
    for name, path, least in (
        ("inotify instances", "/proc/sys/fs/inotify/max_user_instances", _LEAST_INOTIFY),
        ("open files", "/proc/sys/fs/file-max", _LEAST_FILES),
    ):
        try:
            number = int(Path(path).read_text("ascii"))
        except (OSError, ValueError):
            continue
        key = path.removeprefix("/proc/sys/").replace("/", ".")
        lack = f"{key} is {number}" if number < least else ""
        yield Requirement(name, lack, f"as root, `sysctl -w {key}={least * 8}`" if lack else "", "parts may not start")


def _run(argv: Sequence[str], stdin: str) -> str | None:
    """Return the first line of a failed program's errors, or None. Runs in a forked child."""
    try:
        subprocess.run(
            argv,
            input=stdin.encode(),
            check=True,
            capture_output=True,
            timeout=_SECONDS,
            env={"PATH": preflight.system_path()},
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        return lines[0] if lines else f"exit code {error.returncode}"
    except subprocess.TimeoutExpired:
        return f"no answer within {_SECONDS} s"
    return None
