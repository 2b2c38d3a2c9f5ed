"""Serve a SOCKS5 and HTTP proxy on this machine that reaches a lab's names and addresses.

Names are those of pods of the namespace `default`: `web`, `web.shop`, `web.shop.svc.cluster.local`. No other network
is reached. Ctrl-C ends it, and so does the end of the lab.

Example:

    bridgehead tunnel
    curl --proxy socks5h://127.0.0.1:6470 http://web.default/
"""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

from bridgehead.forwarding.local_ports import LOOPBACK
from bridgehead.lab import state_directories
from bridgehead.lab.plan import CLUSTER_DOMAIN, RunningLab

from .exit_codes import reporting_failures
from .foreground import port_option, run_in_lab, until_end
from .lab_options import Name, StateDir, find_lab, reporting_errors

if TYPE_CHECKING:
    import socket

_FIRST_PORT = 6470


def command(
    port: Annotated[int | None, port_option(_FIRST_PORT)] = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    from bridgehead.forwarding.local_ports import PortUnusable, open_port

    with reporting_errors():
        lab = state_directories.read_running(find_lab(name, state_dir))
    with contextlib.suppress(KeyboardInterrupt), reporting_failures("tunnel", PortUnusable, OSError):
        listener = open_port("TCP", port or 0, (_FIRST_PORT,))
        _show(lab, listener.getsockname()[1])
        run_in_lab(lab, partial(_serve, lab, listener))


def _show(lab: RunningLab, port: int) -> None:
    proxy = f"socks5h://{LOOPBACK}:{port}"
    sys.stdout.write(f"{proxy}\n")
    sys.stdout.flush()
    sys.stderr.write(f"""\
SOCKS5 and HTTP, to names and addresses of the lab "{lab.config.name}". One of these:
  curl --proxy {proxy} http://SERVICE.NAMESPACE/
  chromium --proxy-server=socks5://{LOOPBACK}:{port}
  git -c http.proxy={proxy} clone http://SERVICE.NAMESPACE/REPOSITORY
  export ALL_PROXY={proxy} http_proxy=http://{LOOPBACK}:{port} NO_PROXY={LOOPBACK},localhost
""")
    sys.stderr.flush()


async def _serve(lab: RunningLab, listener: socket.socket) -> None:
    from bridgehead.forwarding.names import Names
    from bridgehead.forwarding.tunnel import Tunnel

    with until_end(lab) as ended:
        async with Tunnel(Names(lab.config.ranges[0].cluster_dns, CLUSTER_DOMAIN)).serving(listener):
            await ended.wait()
