"""The subcommands of the stand-in for agnhost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.standins.programs.pause import pause
from bridgehead.standins.programs.stream_server import fail
from bridgehead.standins.standin import Launch

from . import (
    connect,
    guestbook,
    health_service,
    issuer_discovery,
    mounttest,
    netexec,
    port_forward_tester,
    reports,
    small_servers,
    webhooks,
)
from .flags import CommandLine, parse_command_line


def _pause(launch: Launch, line: CommandLine) -> int:
    sys.stdout.write("Paused\n")
    sys.stdout.flush()
    return pause(msgspec.structs.replace(launch, argv=(launch.argv[0], *(f"--{flag}" for flag in line.flags))))


# Run until their work or a signal to end, and return the exit code. OSError and ValueError are the user's errors.
COMMANDS: Final[dict[str, Callable[[Launch, CommandLine], int]]] = {
    "connect": connect.run,
    "crd-conversion-webhook": webhooks.serve_conversions,
    "dns-server-list": reports.print_dns_servers,
    "dns-suffix": reports.print_dns_suffixes,
    "entrypoint-tester": reports.print_command,
    "etc-hosts": reports.print_hosts,
    "grpc-health-checking": health_service.serve,
    "guestbook": guestbook.serve,
    "liveness": small_servers.serve_liveness,
    "logs-generator": reports.generate_logs,
    "mounttest": mounttest.run,
    "netexec": netexec.serve,
    "nettest": small_servers.serve_reports,
    "pause": _pause,
    "port-forward-tester": port_forward_tester.run,
    "porter": small_servers.serve_ports,
    "serve-hostname": small_servers.serve_hostname,
    "test-service-account-issuer-discovery": issuer_discovery.run,
    "test-webserver": small_servers.serve_files,
    "webhook": webhooks.serve_admission,
}


def run(launch: Launch) -> int:
    line = parse_command_line(launch.argv[1:])
    command = COMMANDS.get(line.subcommand)
    if command is None:
        known = ", ".join(COMMANDS)
        return fail(f"unknown command {line.subcommand!r} for the stand-in of agnhost: it has {known}")
    try:
        return command(launch, line)
    except (OSError, ValueError) as error:
        return fail(f"{line.subcommand}: {error}")
