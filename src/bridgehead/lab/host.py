"""What the lab needs from the machine, checked before anything starts, each lack told in one line with its cure."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from bridgehead.network import syscalls

from .errors import LabError, Unsupported
from .plan import API_PORT

# Ports tried for the API when the user did not ask for one.
_PORT_CANDIDATES = range(API_PORT, API_PORT + 100)


def check_host(state_root: Path) -> None:
    """Raises `Unsupported` with the first thing that is missing."""
    if not sys.platform.startswith("linux"):
        raise Unsupported(f"the lab is made of Linux namespaces; this is {sys.platform}")
    if shutil.which("nft", path=_system_path()) is None:
        raise Unsupported("the command `nft` is missing: install it (Debian: apt-get install nftables)")
    for forbidden in ("/run/", "/proc/", "/sys/"):
        for what, path in (("the state directory", state_root), ("Python", Path(sys.prefix))):
            if str(path.resolve()).startswith(forbidden):
                raise Unsupported(f"{what} is in {path}, which the lab replaces by its own; use another place")
    _check_namespaces()


def _check_namespaces() -> None:
    """Try in a child what the lab will do: its namespaces, then a rule in them."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        message = _try_namespaces()
        os.write(writer, message.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        message = pipe.read()
    os.waitpid(pid, 0)
    if message:
        raise Unsupported(message)


def _try_namespaces() -> str:
    """Runs in a forked child. The result is what to tell the user, "" when all is well."""
    try:
        if os.getuid() != 0:
            user = os.getuid()
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWNS)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EINVAL, errno.ENOSYS):
            return (
                "this kernel does not let you make namespaces"
                f" ({error.strerror}): run as root, or allow user namespaces"
                " (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone,"
                " kernel.apparmor_restrict_unprivileged_userns)"
            )
        return f"cannot make namespaces: {error}"
    try:
        # The same kinds of objects as the proxy's ruleset.
        subprocess.run(
            [
                "nft",
                "add table ip probe; add map ip probe m { type ipv4_addr . inet_proto . inet_service : verdict; };"
                " add chain ip probe c { type nat hook prerouting priority -100; };"
                " add rule ip probe c ip daddr . meta l4proto . th dport vmap @m",
            ],
            check=True,
            capture_output=True,
            timeout=10,
            env={"PATH": _system_path()},
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().splitlines()[0] if error.stderr else "no reason given"
        return (
            f"this kernel's nftables cannot do what the proxy needs ({reason}):"
            " load nf_tables and nft_nat, or use a newer kernel"
        )
    except subprocess.TimeoutExpired:
        return "`nft` does not answer within 10 s"
    return ""


def _system_path() -> str:
    """PATH with the directories of administrators' commands, which ordinary users often lack."""
    return ":".join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def extend_path() -> None:
    """Let this process and its children find `nft` and `ip`."""
    os.environ["PATH"] = _system_path()


def open_api_socket(port: int | None, preferred: int | None) -> socket.socket:
    """Listen on the host's loopback: on `port` if asked for, else on `preferred` or the first free one from 6443.

    Raises `LabError` when `port` is taken.
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
