"""The text of a Corefile: server blocks and directives, with quotes, variables, snippets and imports resolved.

Pure: no I/O, no clock, no randomness. The caller's `Sources` reads imported files.

Source of the syntax: the Caddyfile as CoreDNS' manual describes it ("Configuration", and the plugin `import`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bridgehead.dns.errors import ConfigInvalid

from .referenced_files import Sources

_WORD = re.compile(r'\s*(?:(#.*)|"((?:\\.|[^"\\])*)"|(\S+))')
_VARIABLE = re.compile(r"\{\$([^{}\s]+)\}|\{%([^{}\s]+)%\}")
_MAX_IMPORT_DEPTH = 8


@dataclass(frozen=True)
class Directive:
    """One line: its tokens, and the lines of its block.

    `line` is the line's number, or "3 of custom/a.override" in an imported file.
    """

    line: int | str
    tokens: tuple[str, ...]
    block: tuple[Directive, ...] = ()
    has_block: bool = False  # true for an empty block, too

    @property
    def name(self) -> str:
        return self.tokens[0]

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.tokens[1:]

    @property
    def text(self) -> str:
        """All tokens of the line."""
        return " ".join(self.tokens)

    def invalid(self, problem: str) -> ConfigInvalid:
        """Return an error to raise, which names the line."""
        return invalid(self.line, problem)


def invalid(line: int | str, problem: str) -> ConfigInvalid:
    """Return an error to raise, which names the line."""
    return ConfigInvalid(f"Corefile, line {line}: {problem}")


def parse(text: str, sources: Sources) -> tuple[Directive, ...]:
    """Return the server blocks: `tokens` are the keys of a block, `block` its directives. Raises ConfigInvalid.

    A file with one server block may leave out the braces around its directives.
    """
    lines = _parse_lines(text, "", sources.variables)
    if lines and not lines[0].has_block and lines[0].name != "import":
        directives = _Expander(sources).expand(lines[1:], in_block=True)
        return (Directive(lines[0].line, lines[0].tokens, tuple(directives), has_block=True),)
    servers = tuple(_Expander(sources).expand(lines))
    for server in servers:
        if not server.has_block:
            raise server.invalid(f"{server.text!r} is in no server block")
    return servers


def _parse_lines(text: str, origin: str, variables: Mapping[str, str]) -> tuple[Directive, ...]:
    """Return lines and blocks before imports are resolved.

    A brace opens at the end of a line and closes on a line of its own.
    """
    open_blocks: list[tuple[int | str, tuple[str, ...], list[Directive]]] = [(0, (), [])]
    keys: tuple[str, ...] = ()
    for number, content in enumerate(text.splitlines(), 1):
        line = f"{number} of {origin}" if origin else number
        tokens = (*keys, *(_substitute(word, line, variables) for word in _split(content, line)))
        keys = ()
        if not tokens:
            continue
        if len(open_blocks) == 1 and tokens[-1].endswith(","):
            keys = tokens  # the keys of a server block continue on the next line
        elif tokens == ("}",):
            if len(open_blocks) == 1:
                raise invalid(line, "a brace is closed that was not opened")
            first_line, block_tokens, directives = open_blocks.pop()
            open_blocks[-1][2].append(Directive(first_line, block_tokens, tuple(directives), has_block=True))
        elif tokens[-1] == "{":
            if len(tokens) == 1:
                raise invalid(line, "a block without a name")
            open_blocks.append((line, tokens[:-1], []))
        elif tokens[-2:] == ("{", "}") and len(tokens) > 2:
            open_blocks[-1][2].append(Directive(line, tokens[:-2], has_block=True))
        elif "{" in tokens or "}" in tokens:
            raise invalid(line, "a brace in the middle of a line")
        else:
            open_blocks[-1][2].append(Directive(line, tokens))
    if len(open_blocks) > 1:
        raise invalid(open_blocks[-1][0], "a brace is opened and not closed")
    if keys:
        raise ConfigInvalid(f"Corefile: {' '.join(keys)!r} at the end is not followed by a server block")
    return tuple(open_blocks[0][2])


def _split(content: str, line: int | str) -> list[str]:
    """Return the tokens of a line without its comment. A quoted word may contain spaces, and \\" for a quote."""
    tokens = []
    for match in _WORD.finditer(content):
        comment, quoted, plain = match.groups()
        if comment is not None:
            break
        if plain is not None and plain.startswith('"'):
            raise invalid(line, "a quote is opened and not closed on its line")
        tokens.append(plain if quoted is None else quoted.replace('\\"', '"'))
    return tokens


def _substitute(word: str, line: int | str, variables: Mapping[str, str]) -> str:
    """Replace `{$NAME}` and `{%NAME%}` by environment variables. An unset or empty variable is an error."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not variables.get(name):
            raise invalid(line, f"environment variable {name} is not set: set it, or write its value here")
        return variables[name]

    return _VARIABLE.sub(value, word)


class _Expander:
    """Replaces `import` lines by snippets and files. A snippet can be imported below its definition only."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._snippets: dict[str, tuple[Directive, ...]] = {}

    def expand(self, lines: tuple[Directive, ...], depth: int = 0, *, in_block: bool = False) -> Iterator[Directive]:
        for line in lines:
            if line.name == "import":
                yield from self._import(line, depth, in_block=in_block)
            elif not in_block and len(line.tokens) == 1 and re.fullmatch(r"\(.+\)", line.name):
                if line.name[1:-1] in self._snippets:
                    raise line.invalid(f"a second snippet {line.name}")
                self._snippets[line.name[1:-1]] = line.block
            else:
                yield replace(line, block=tuple(self.expand(line.block, depth, in_block=True)))

    def _import(self, line: Directive, depth: int, *, in_block: bool) -> Iterator[Directive]:
        if len(line.arguments) != 1:
            raise line.invalid("import takes the name of a snippet or of a file")
        if depth == _MAX_IMPORT_DEPTH:
            raise line.invalid(f"import is circular, or nested more than {_MAX_IMPORT_DEPTH} deep")
        name = line.arguments[0]
        if name in self._snippets:
            yield from self.expand(self._snippets[name], depth + 1, in_block=in_block)
            return
        for path in self._sources.paths(name):
            try:
                text = self._sources.read(path)
            except OSError as error:
                raise line.invalid(f"import {path}: {error.strerror}") from error
            yield from self.expand(_parse_lines(text, path, self._sources.variables), depth + 1, in_block=in_block)
