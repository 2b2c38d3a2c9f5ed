"""Command lines of agnhost. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bridgehead.standins.programs.disclosures import Abilities

# Flags without a value, so that the next one is an argument.
_SWITCHES = frozenset(("alsologtostderr", "close", "http", "json-response", "logtostderr", "tcp", "udp"))
_SHORT = {"t": "log-lines-total", "d": "run-duration"}


class CommandLine(msgspec.Struct, frozen=True):
    """`agnhost netexec --http-port=80 --udp-port 81` has a subcommand and two flags."""

    subcommand: str
    flags: Mapping[str, str]
    arguments: tuple[str, ...] = ()

    def port(self, flag: str, default: int) -> int:
        """The port of a flag, negative for none. Raises ValueError."""
        number = int(self.flags.get(flag, default))
        if number > 65535:
            raise ValueError(f"--{flag}: {number} is no port")
        return number


def parse_command_line(argv: tuple[str, ...]) -> CommandLine:
    """Parse the arguments after the program's name; without any, agnhost pauses."""
    positional: list[str] = []
    flags: dict[str, str] = {}
    wanted = ""
    for word in argv:
        if wanted:
            flags[wanted], wanted = word, ""
        elif word.startswith("-") and word != "-":
            name, equals, value = word.lstrip("-").partition("=")
            name = _SHORT.get(name, name)
            flags[name] = value if equals else "true"
            wanted = "" if equals or name in _SWITCHES else name
        else:
            positional.append(word)
    return CommandLine(positional[0] if positional else "pause", flags, tuple(positional[1:]))


def describe(line: CommandLine, used: tuple[str, ...], ports: tuple[str, ...] = ()) -> Abilities:
    """The abilities of a server that listens on `ports` ("80/TCP") and follows the flags in `used`."""
    return Abilities(
        role=f"a server with agnhost's {line.subcommand}",
        ports=ports,
        ignored_arguments=tuple(f"--{flag}" for flag in line.flags if flag not in used),
    )
