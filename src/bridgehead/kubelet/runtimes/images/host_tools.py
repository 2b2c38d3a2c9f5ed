"""Programs of the host in stand-ins of images that consist of tools: directories of links, mounted into containers.

The same command shall print the same on every machine. So ping, nc, wget and others are BusyBox's in these images, as
in the images themselves, even where the host has other programs of that name. A program that the machine lacks is a
script that names its package.

Some distributions build BusyBox's shell so that it calls applets without a look at PATH (FEATURE_SH_STANDALONE, as in
Debian's busybox-static). Programs that replace applets are unreachable there, so the stand-ins' shell is a copy of
BusyBox in which these applets have other names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from typing import Final

import msgspec

LACKING: Final = "/usr/lib/lacking-tools"  # in a container
# Applets that stand-ins replace, by built-in programs and by `_WGET`.
_REPLACED: Final = ("nslookup", "wget")
# Applets in images that are not BusyBox's own, but get these programs from it (Alpine Linux and images made of it).
_NETWORK_APPLETS: Final = ("arping", "nc", "netstat", "ping", "ping6", "telnet", "traceroute", "traceroute6", "wget")
# Debian packages of the programs that tutorials run in images of tools, where BusyBox is not meant.
_PACKAGES: Final = {
    "curl": "curl",
    "dig": "bind9-dnsutils",
    "host": "bind9-host",
    "ip": "iproute2",
    "nslookup": "bind9-dnsutils",
    "ss": "iproute2",
    "tcpdump": "tcpdump",
}
# Debian 12 builds BusyBox without wget's timeout: -T is a segmentation fault, and --timeout is unknown. Shells report
# processes that a signal ended, but for SIGPIPE.
_WGET: Final = """#!/bin/sh
left=$#
seconds=
while [ $left -gt 0 ]; do
  word=$1; shift; left=$((left - 1))
  case $word in
    -T | --timeout) seconds=$1; shift; left=$((left - 1)) ;;
    -T*) seconds=${{word#-T}} ;;
    --timeout=*) seconds=${{word#*=}} ;;
    *) set -- "$@" "$word" ;;
  esac
done
[ -n "$seconds" ] || exec {program} wget "$@"
{program} timeout -s PIPE "$seconds" {program} wget "$@"
code=$?
[ $code -eq 141 ] || exit $code
echo 'wget: download timed out' >&2
exit 1
"""


class HostTools(msgspec.Struct, frozen=True, kw_only=True):
    """Directories on the node: links to all applets of BusyBox, and to some; scripts for missing programs.

    "" without BusyBox, or without a missing program. `program` is BusyBox itself or a copy, if it has a shell, and
    `shell` the file to which the host's /bin/sh leads.
    """

    busybox: str = ""
    network: str = ""
    lacking: str = ""
    program: str = ""
    shell: str = ""


def prepare_tools(directory: str, path: str) -> HostTools:
    """Fill directories below `directory`. `path` is the PATH of containers. Raises OSError."""
    program = shutil.which("busybox", path=path)
    applets = _list_applets(program) if program is not None else []
    lacking = {tool: package for tool, package in _PACKAGES.items() if shutil.which(tool, path=path) is None}
    if program is None or not applets:
        lacking |= {tool: "busybox" for tool in _NETWORK_APPLETS if shutil.which(tool, path=path) is None}
        return HostTools(lacking=_write_scripts(os.path.join(directory, "lacking-tools"), lacking))
    network = [each for each in _NETWORK_APPLETS if each in applets]
    links = _link(os.path.join(directory, "busybox"), applets, program)
    tools = HostTools(
        busybox=links,
        network=_link(os.path.join(directory, "network-tools"), network, program),
        lacking=_write_scripts(os.path.join(directory, "lacking-tools"), lacking),
        program=_prepare_shell(program, links) if "sh" in applets else "",
        shell=os.path.realpath("/bin/sh"),
    )
    if "wget" in applets and "-T" not in _run(program, "wget", "--help"):
        for each in (tools.busybox, tools.network):
            _replace(os.path.join(each, "wget"), _WGET.format(program=program))
    return tools


def _list_applets(program: str) -> list[str]:
    """The names of all applets; none if the program doesn't work."""
    return _run(program, "--list").split()


def _prepare_shell(program: str, links: str) -> str:
    """Return the program whose shell follows PATH: BusyBox itself, or a copy to which the links of shells lead."""
    if not _run(program, "sh", "-c", "basename a/b", path="/nonexistent"):
        return program
    copy = os.path.join(links, "busybox-shell")
    with open(program, "rb") as original, open(f"{copy}.new", "wb") as file:
        file.write(rename_applets(original.read(), _REPLACED))
    os.chmod(f"{copy}.new", 0o755)
    os.replace(f"{copy}.new", copy)
    for shell in ("sh", "ash"):
        os.symlink("busybox-shell", os.path.join(links, f"{shell}.new"))
        os.replace(os.path.join(links, f"{shell}.new"), os.path.join(links, shell))
    return copy


def rename_applets(program: bytes, names: Iterable[str]) -> bytes:
    """Return BusyBox's program with other names for these applets, of the same length: the last letter is the next one.

    Names are in one list that is sorted and separated by NUL characters, in which the new name sorts like the old one.
    """
    for name in names:
        old = f"\0{name}\0".encode()
        program = program.replace(old, old[:-2] + bytes([old[-2] + 1, 0]), 1)
    return program


def _run(*argv: str, path: str | None = None) -> str:
    """The output of a command, "" if it fails."""
    env = None if path is None else {"PATH": path}
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, timeout=10, env=env)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _replace(path: str, script: str) -> None:
    """Put a script in the place of a link, not into the program to which it leads."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(f"{path}.new", 0o755)
    os.replace(f"{path}.new", path)


def _link(directory: str, names: Iterable[str], program: str) -> str:
    os.makedirs(directory, exist_ok=True)
    for name in names:
        with contextlib.suppress(FileExistsError):
            os.symlink(program, os.path.join(directory, name))
    return directory


def _write_scripts(directory: str, lacking: dict[str, str]) -> str:
    """Write a script for each missing program; those of an earlier start are removed."""
    shutil.rmtree(directory, ignore_errors=True)
    if not lacking:
        return ""
    os.makedirs(directory)
    for tool, package in lacking.items():
        script = os.path.join(directory, tool)
        message = f"{tool}: this stand-in has it only if the machine does (Debian: apt-get install {package})"
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho '{message}' >&2\nexit 127\n")
        os.chmod(script, 0o755)
    return directory
