"""The lines in a stand-in's log about what it does not do: configuration, ports, variables, arguments without effect.

Pure: no I/O, no clock, no randomness. `announcing` writes the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bridgehead.standins.standin import Setup


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """The abilities of a built-in program, which may be less than those of its image.

    `role` completes "a stand-in for IMAGE:". `ports` are open ("80/TCP"). `configuration` are the files and directories
    that the image's own program reads. `ignored_arguments` are those without an effect on this program;
    `used_variables` are those of the environment that have one.
    """

    role: str
    ports: tuple[str, ...] = ()
    configuration: tuple[str, ...] = ()
    ignored_arguments: tuple[str, ...] = ()
    used_variables: tuple[str, ...] = ()


def describe_start(setup: Setup, abilities: Abilities) -> list[str]:
    """Return the lines for the start of a program; the first one names it as a stand-in."""
    image = setup.image or "its image"
    lines = [f"This is Bridgehead's stand-in for {image}, not the image itself: {abilities.role}"]
    closed = [port for port in setup.ports if port not in abilities.ports]
    if closed:
        used = f"it listens on {_join(abilities.ports)} only" if abilities.ports else "it listens on no port"
        lines.append(f"stand-in: nothing listens on containerPort {_join(closed)}: {used}")
    variables = [name for name in setup.variables if name not in abilities.used_variables]
    if variables:
        lines.append(f"stand-in: environment variables have no effect: {_join(variables)}")
    if abilities.ignored_arguments:
        lines.append(f"stand-in: arguments have no effect: {' '.join(abilities.ignored_arguments)}")
    return lines


def find_configuration_mounts(setup: Setup, abilities: Abilities) -> tuple[str, ...]:
    """Return the mounts that have configuration of the image's program: at, below or above one of its paths."""
    return tuple(
        mount
        for mount in setup.mounts
        if any(_contains(path, mount) or _contains(mount, path) for path in abilities.configuration)
    )


def describe_configuration(mount: str, files: Sequence[str]) -> str:
    """Return the line about a mount that has configuration: the names of its files, none if it is a file itself."""
    names = f" ({_join(files)})" if files else ""
    return f"stand-in: the configuration in {mount}{names} has no effect: a stand-in reads none"


def _contains(directory: str, path: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{directory.rstrip('/')}/")


def _join(names: Iterable[str]) -> str:
    return ", ".join(names)
