"""agnhost's commands that print and end: its command line, the pod's DNS settings and hosts, and generated logs."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from typing import Final

from bridgehead.objects.times import parse_duration
from bridgehead.standins.standin import Launch

from .flags import CommandLine

_RESOLV_CONF: Final = "/etc/resolv.conf"
_METHODS: Final = ("GET", "POST", "PUT")
_NAMESPACES: Final = ("kube-system", "default", "ns")
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def print_command(launch: Launch, line: CommandLine) -> int:
    launch.started()
    sys.stdout.write(f"[{' '.join(launch.argv)}]\n")
    return 0


def print_hosts(launch: Launch, line: CommandLine) -> int:
    launch.started()
    with open("/etc/hosts", encoding="utf-8", errors="replace") as file:
        sys.stdout.write(file.read())
    return 0


def print_dns_suffixes(launch: Launch, line: CommandLine) -> int:
    return _print_setting(launch, "search")


def print_dns_servers(launch: Launch, line: CommandLine) -> int:
    return _print_setting(launch, "nameserver")


def _print_setting(launch: Launch, name: str) -> int:
    launch.started()
    with open(_RESOLV_CONF, encoding="utf-8", errors="replace") as file:
        sys.stdout.write(",".join(find_settings(file.read(), name)))
    return 0


def find_settings(resolv_conf: str, name: str) -> list[str]:
    """The values of a setting of resolv.conf, of all its lines."""
    lines = [line.split() for line in resolv_conf.splitlines()]
    return [value for fields in lines if fields and fields[0] == name for value in fields[1:]]


def generate_logs(launch: Launch, line: CommandLine) -> int:
    """Write lines to standard error, evenly over a duration, in klog's format."""
    launch.started()
    total, duration = int(line.flags.get("log-lines-total", "0")), parse_duration(line.flags.get("run-duration", "0"))
    if total <= 0 or duration <= 0:
        raise ValueError("a number of lines and a duration are required: --log-lines-total, --run-duration")
    for text in log_lines(total, random.Random()):
        now = time.time()
        stamp = time.strftime("%m%d %H:%M:%S", time.gmtime(now))
        sys.stderr.write(f"I{stamp}.{int(now % 1 * 1_000_000):06}       1 logs_generator.go:76] {text}\n")
        sys.stderr.flush()
        time.sleep(duration / total)
    return 0


def log_lines(total: int, chance: random.Random) -> Iterator[str]:
    """Lines as of an API server's log, numbered from 0."""
    for number in range(total):
        pod = "".join(chance.choices(_LETTERS, k=chance.randint(3, 4)))
        path = f"/api/v1/namespaces/{chance.choice(_NAMESPACES)}/pods/{pod}"
        yield f"{number} {chance.choice(_METHODS)} {path} {chance.randint(200, 599)}"
