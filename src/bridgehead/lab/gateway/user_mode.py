"""User-mode networking: slirp4netns carries connections from a link in the gateway to sockets of the machine.

It opens these sockets as the lab's root, which has no rights over the machine, so that neither the machine's forwarding
nor its packet filter has to change. It does not connect to the machine's loopback, sees no files, and filters its own
system calls; the gateway's packet filter refuses the machine's other addresses.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from typing import Final

from bridgehead.lab import preflight, user_namespace
from bridgehead.network import syscalls

from .addressing import OUTSIDE, OUTSIDE_LINK

PROGRAM: Final = "slirp4netns"
MTU: Final = 1500
_START_SECONDS: Final = 15.0


class UserModeNetwork:
    """The running program. It ends with this process, whatever ends this: it holds the reading end of a pipe."""

    def __init__(self, network: int, user: int | None, *, has_ipv6: bool) -> None:
        """Start it, with the link in the network namespace `network`, as root of the user namespace `user`.

        The descriptors stay open. None: the machine's own user namespace. Raises OSError when it does not start.
        """
        end, self._alive = os.pipe2(os.O_CLOEXEC)
        ready, is_ready = os.pipe2(os.O_CLOEXEC)
        argv = [
            preflight.find_system_program(PROGRAM) or PROGRAM,
            f"--mtu={MTU}",
            "--disable-host-loopback",
            "--enable-sandbox",
            "--enable-seccomp",
            *(["--enable-ipv6"] if has_ipv6 else []),
            f"--cidr={OUTSIDE[4].network}",
            f"--exit-fd={end}",
            f"--ready-fd={is_ready}",
            "--netns-type=path",
            f"/proc/self/fd/{network}",
            OUTSIDE_LINK,
        ]

        def prepare() -> None:
            if user is not None:
                user_namespace.enter(user)
            # Here, because a change of user removes it.
            syscalls.set_parent_death_signal(signal.SIGKILL)

        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # its settings; errors are on standard error
                env={"PATH": preflight.system_path()},
                pass_fds=(network, end, is_ready),
                preexec_fn=prepare,
            )
        except subprocess.SubprocessError as error:
            os.close(ready)
            os.close(self._alive)
            raise OSError(f"{PROGRAM} cannot enter its namespace") from error
        except OSError:
            os.close(ready)
            os.close(self._alive)
            raise
        finally:
            os.close(end)
            os.close(is_ready)
        self.pidfd = os.pidfd_open(self._process.pid)
        try:
            self._await(ready)
        except OSError:
            self.close()
            raise
        finally:
            os.close(ready)

    def _await(self, ready: int) -> None:
        if not select.select([ready], [], [], _START_SECONDS)[0]:
            raise OSError(f"{PROGRAM} is not ready after {_START_SECONDS:.0f} s")
        if os.read(ready, 1) != b"1":
            raise OSError(f"{PROGRAM} ended with code {self._process.wait()}")

    def close(self) -> int:
        """End it, and return its exit code, negative for a signal."""
        os.close(self._alive)
        os.close(self.pidfd)
        self._process.kill()
        return self._process.wait()
