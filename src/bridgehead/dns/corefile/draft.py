"""The configuration while a Corefile is read, and tables of what may be written in it.

Pure: no I/O, no clock, no randomness. The caller's `Sources` reads files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from bridgehead.dns.config import Address, CacheSettings, DnsConfig, Server, parse_address
from bridgehead.dns.messages.domain_names import as_zones
from bridgehead.objects.times import parse_duration
from bridgehead.suggestions import most_similar

from .parser import Directive
from .referenced_files import Sources

LARGEST_NUMBER = 2**31 - 1  # that of a TTL (RFC 2181, section 8), and more than any other setting needs
_SIMILAR = 0.75  # difflib's ratio, from which on a name is suggested


class Where(Enum):
    """The server blocks in which a directive may stand."""

    ANY = "any"
    CLUSTER = "that of `kubernetes`"
    CLUSTER_OR_ROOT = "that of `kubernetes`, or one for `.`"


class ServerBlock(NamedTuple):
    """The zones and ports of one server block. `is_cluster`: the block has the `kubernetes` directive."""

    zones: tuple[str, ...]
    ports: tuple[int, ...]
    is_cluster: bool

    @property
    def is_root(self) -> bool:
        return "" in self.zones

    def allows(self, where: Where) -> bool:
        """Whether a directive of this kind may stand in the block."""
        return self.is_cluster or where is Where.ANY or (where is Where.CLUSTER_OR_ROOT and self.is_root)


@dataclass
class Draft:
    """The settings so far, and what can be decided only at the end of the file."""

    config: DnsConfig
    sources: Sources
    stubs: list[tuple[str, tuple[Server, ...]]] = field(default_factory=list)
    excepted: list[str] = field(default_factory=list)  # domains that `forward .` leaves out
    denied: list[tuple[str, int]] = field(default_factory=list)  # domains and their response codes
    concurrency_limits: list[int] = field(default_factory=list)
    has_cluster: bool = False
    bound: list[str] = field(default_factory=list)  # addresses of `bind`
    host_blocks: list[ServerBlock] = field(default_factory=list)  # of each of `config.hosts`
    template_blocks: list[ServerBlock] = field(default_factory=list)  # of each of `config.templates`
    caches: dict[ServerBlock, CacheSettings] = field(default_factory=dict)  # `cache` directives
    unsupported: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def set(self, **changes: object) -> None:
        """Change settings of `config`."""
        self.config = replace(self.config, **changes)  # type: ignore[arg-type]

    def set_zone(self, **changes: object) -> None:
        """Change settings of `config.zone`."""
        self.set(zone=replace(self.config.zone, **changes))  # type: ignore[arg-type]

    def remark(self, directive: Directive, text: str) -> None:
        """Record for the log what has no effect here."""
        self.remarks.append(f"line {directive.line}: {text}")

    def add_cache(self, block: ServerBlock, settings: CacheSettings) -> None:
        """Record the `cache` directive of a block, of which the last one counts."""
        self.caches[block] = settings

    def reject(self, directive: Directive, text: str, advice: str = "") -> None:
        """Record what is not supported. The error at the end names everything that was rejected."""
        self.unsupported.append(f"{text} (line {directive.line}{': ' if advice else ''}{advice})")


Target = TypeVar("Target")


class WrongArguments(Exception):
    """A parser's way to refuse a line; `read_line` raises ConfigInvalid with the line and its usage."""


class Spec(NamedTuple, Generic[Target]):
    """One directive or option: how it is written, what it does, its parser, and where it may stand.

    `read` raises WrongArguments and ConfigInvalid. Its second argument is what the line belongs to: for a directive the
    server block, for an option the values of its directive. `has_options`: `read` reads the lines of a block; other
    directives have none, and every line is refused.
    """

    usage: str
    doc: str
    read: Callable[[Draft, Target, Directive], None]
    where: Where = Where.ANY
    has_options: bool = False


Table = Mapping[str, Spec[Target]]

# Directives and options of CoreDNS that are not supported, and what to do instead.
_INSTEAD = {
    "proxy": "write forward",
    "endpoint": "use --kubeconfig",
    "kubeconfig": "use --kubeconfig",
    "file": "forward the zone to a server that has it",
    "auto": "forward the zones to a server that has them",
    "secondary": "forward the zone to a server that has it",
    "upstream": "CoreDNS 1.7 removed it: delete the line",
    "resyncperiod": "CoreDNS 1.7 removed it: delete the line",
    "debug": "start the server with -v 1",
    "multisocket": "start the server with --processes",
    "pprof": "it shows the insides of CoreDNS: delete the line",
    **dict.fromkeys(
        ("startup_timeout", "apiserver_qps", "apiserver_burst", "apiserver_max_inflight"),
        "it tunes the API client of CoreDNS: delete the line",
    ),
}


def read_line(draft: Draft, target: Target, line: Directive, table: Table[Target]) -> None:
    """Read one line by the table of what may stand there. Raises ConfigInvalid."""
    spec = table.get(line.name)
    if spec is None:
        draft.reject(line, line.name, _INSTEAD.get(line.name) or did_you_mean(line.name, table))
        return
    for option in line.block if not spec.has_options else ():
        draft.reject(option, f"{option.name} of {line.name}")
    try:
        spec.read(draft, target, line)
    except WrongArguments:
        raise line.invalid(f"usage: {spec.usage}") from None


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return "did you mean X?" for the known word that is most similar; "" if none is."""
    similar = most_similar(text, known, ratio=_SIMILAR)
    return f"did you mean {similar}?" if similar is not None else ""


def one_argument(directive: Directive) -> str:
    """Return the only argument. Raises WrongArguments."""
    if len(directive.arguments) != 1:
        raise WrongArguments
    return directive.arguments[0]


def no_argument(directive: Directive) -> None:
    """Raise WrongArguments if there is an argument."""
    if directive.arguments:
        raise WrongArguments


def one_of(directive: Directive, text: str, known: Iterable[str]) -> str:
    """Return the text, which has to be one of the known ones. Raises ConfigInvalid."""
    choices = list(known)
    if text not in choices:
        problem = f"{directive.name} {text!r}: one of {', '.join(choices)}"
        raise directive.invalid(f"{problem}; {advice}" if (advice := did_you_mean(text, choices)) else problem)
    return text


def number(directive: Directive) -> int:
    """Return the only argument as a number. Raises ConfigInvalid."""
    arguments = directive.arguments
    if len(arguments) != 1 or not arguments[0].isdecimal():
        raise directive.invalid(f"{directive.name} takes a number")
    return bounded(directive, arguments[0])


def bounded(directive: Directive, digits: str) -> int:
    """Return the number that decimal digits are, at most LARGEST_NUMBER. Raises ConfigInvalid."""
    if len(digits) > len(str(LARGEST_NUMBER)) or int(digits) > LARGEST_NUMBER:
        raise directive.invalid(f"{directive.name}: {digits[:20]} is larger than {LARGEST_NUMBER}")
    return int(digits)


def seconds(directive: Directive) -> float:
    """Return the first argument, a duration as Go writes it (30s, 1h30m, 500ms). Raises ConfigInvalid."""
    try:
        return parse_duration(directive.arguments[0] if directive.arguments else "")
    except ValueError as error:
        raise directive.invalid(str(error)) from error


def page_address(directive: Directive, port: int, host: str = "") -> Address:
    """Return the address of a page; `port` and `host` are the defaults. Raises WrongArguments and ConfigInvalid."""
    text = one_argument(directive) if directive.arguments else host
    return parse_address(f"Corefile, line {directive.line}", text, port)


def fallthrough_zones(directive: Directive) -> tuple[str, ...]:
    """Return the zones of `fallthrough [ZONE...]`; without arguments the root: all zones."""
    return as_zones(directive.arguments) or ("",)


def ignore(draft: Draft, target: object, directive: Directive) -> None:
    """Read a directive without arguments that describes what this server does anyway."""
    no_argument(directive)
