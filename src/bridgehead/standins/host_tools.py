"""Programs of the host in stand-ins of images that consist of tools: directories of links, mounted into containers.

The same command shall print the same on every machine. Therefore ping, nc, wget and others are BusyBox's in these
images, as in the images themselves, even where the host has other programs of that name. If the machine has no BusyBox,
wget and ping are built-in programs with BusyBox's output. Any other program that the machine lacks is a script that
names its package.

Some distributions build BusyBox's shell so that it calls applets without a look at PATH (FEATURE_SH_STANDALONE, as in
Debian's busybox-static); so do timeout, xargs and others. Programs that replace applets are unreachable there, so the
stand-ins have a copy of BusyBox in which these applets have other names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from .program_scripts import script

LACKING: Final = "/usr/lib/lacking-tools"  # in a container
# Applets that stand-ins replace, by built-in programs and by `_WGET`.
_REPLACED: Final = ("nslookup", "wget")
# Built-in programs for machines whose BusyBox lacks them or that have none.
_BUILT_IN: Final = {"ping": "busybox.ping.run", "wget": "busybox.wget.run"}
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
    """Directories on the node: links to all applets of BusyBox, and to some, with built-in programs for those that it
    lacks; scripts for missing programs, "" if there are none.

    `program` is BusyBox itself or a copy, if it has a shell, and `shell` the file to which the host's /bin/sh leads.
    """

    busybox: str = ""
    network: str = ""
    lacking: str = ""
    program: str = ""
    shell: str = ""
    has_built_in: bool = False


def prepare_tools(directory: str, path: str, moved: Collection[str] = ()) -> HostTools:
    """Fill directories below `directory`. `path` is the PATH of containers, `moved` as for `script`. Raises OSError."""
    program = shutil.which("busybox", path=path)
    applets = _list_applets(program) if program is not None else []
    lacking = {tool: package for tool, package in _PACKAGES.items() if shutil.which(tool, path=path) is None}
    if program is None or not applets:
        program, applets = "", []
        lacking |= {tool: "busybox" for tool in _NETWORK_APPLETS if shutil.which(tool, path=path) is None}
    built_in = {name: script(run, moved=moved) for name, run in _BUILT_IN.items() if name not in applets}
    lacking = {tool: package for tool, package in lacking.items() if tool not in built_in}
    network = [each for each in _NETWORK_APPLETS if each in applets]
    tools = HostTools(
        busybox=_fill(os.path.join(directory, "busybox"), applets, program, built_in),
        network=_fill(os.path.join(directory, "network-tools"), network, program, built_in),
        lacking=_write_scripts(os.path.join(directory, "lacking-tools"), lacking),
        shell=os.path.realpath("/bin/sh"),
        has_built_in=bool(built_in),
    )
    if "sh" in applets:
        tools = msgspec.structs.replace(tools, program=_prepare_shell(program, tools.busybox, applets))
    if "wget" in applets and "-T" not in _run(program, "wget", "--help"):
        for each in (tools.busybox, tools.network):
            _replace(os.path.join(each, "wget"), _WGET.format(program=program))
    return tools


def _list_applets(program: str) -> list[str]:
    """The names of all applets; none if the program doesn't work."""
    return _run(program, "--list").split()


def _prepare_shell(program: str, links: str, applets: Iterable[str]) -> str:
    """Return the program that follows PATH: BusyBox itself, or a copy to which the links lead, besides those of the
    applets that have other names in it."""
    if not _run(program, "sh", "-c", "basename a/b", path="/nonexistent"):
        return program
    copy = os.path.join(links, "busybox-shell")
    with open(program, "rb") as original, open(f"{copy}.new", "wb") as file:
        file.write(rename_applets(original.read(), _REPLACED))
    os.chmod(f"{copy}.new", 0o755)
    os.replace(f"{copy}.new", copy)
    for name in set(applets).difference(_REPLACED):
        _link(os.path.join(links, name), "busybox-shell")
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


def _replace(path: str, content: str) -> None:
    """Put a script in the place of a link, not into the program to which it leads."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(content)
    os.chmod(f"{path}.new", 0o755)
    os.replace(f"{path}.new", path)


def _link(path: str, target: str) -> None:
    """Make a symbolic link, in the place of whatever is there."""
    with contextlib.suppress(FileExistsError):
        os.symlink(target, path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}.new")  # of a runtime that was killed
    os.symlink(target, f"{path}.new")
    os.replace(f"{path}.new", path)


def _fill(directory: str, links: Iterable[str], program: str, scripts: Mapping[str, str]) -> str:
    """Make a directory with links to a program and with scripts, whatever is in it from an earlier start."""
    os.makedirs(directory, exist_ok=True)
    for name in links:
        _link(os.path.join(directory, name), program)
    for name, content in scripts.items():
        _replace(os.path.join(directory, name), content)
    for name in set(os.listdir(directory)).difference(links, scripts):
        os.unlink(os.path.join(directory, name))
    return directory


def _write_scripts(directory: str, lacking: dict[str, str]) -> str:
    """Write a script for each missing program; those of an earlier start are removed."""
    shutil.rmtree(directory, ignore_errors=True)
    if not lacking:
        return ""
    os.makedirs(directory)
    for tool, package in lacking.items():
        path = os.path.join(directory, tool)
        message = f"{tool}: this stand-in has it only if the machine does (Debian: apt-get install {package})"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho '{message}' >&2\nexit 127\n")
        os.chmod(path, 0o755)
    return directory
