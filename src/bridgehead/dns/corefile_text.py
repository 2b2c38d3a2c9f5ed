"""A Corefile's text as server blocks and their directives: quotes, braces, variables, snippets, other files.

`corefile.py` calls this and gives the directives their meaning. Source: the Caddyfile as CoreDNS' manual describes it
("Configuration", and the plugin `import`).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from .errors import ConfigInvalid

_WORD = re.compile(r'\s*(?:(#.*)|"((?:\\.|[^"\\])*)"|(\S+))')
_VARIABLE = re.compile(r"\{\$([^{}\s]+)\}|\{%([^{}\s]+)%\}")
_DEEPEST = 8  # files and snippets that bring in others


@dataclass(frozen=True)
class Directive:
    """One line: its words, and the lines of its block. `line` is its number, or "3 of custom/a.override"."""

    line: int | str
    words: tuple[str, ...]
    block: tuple[Directive, ...] = ()
    has_block: bool = False  # be it an empty one

    @property
    def name(self) -> str:
        return self.words[0]

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.words[1:]

    def invalid(self, text: str) -> ConfigInvalid:
        """What is wrong with the line, to be raised."""
        return invalid(self.line, text)


def invalid(line: int | str, text: str) -> ConfigInvalid:
    """What is wrong with a line that is no directive yet, to be raised."""
    return ConfigInvalid(f"Corefile, line {line}: {text}")


def _read_text(path: str) -> str:
    return Path(path).read_text(errors="replace")


def _find(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern))


@dataclass(frozen=True)
class Surroundings:
    """What a Corefile may refer to: files, by paths that begin in `directory`, and variables.

    `read` may raise OSError; `find` gives the paths that a pattern fits.
    """

    directory: str = ""
    read: Callable[[str], str] = _read_text
    find: Callable[[str], list[str]] = _find
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)


def parse(text: str, around: Surroundings) -> tuple[Directive, ...]:
    """The server blocks: `words` are a block's keys, `block` its directives. Raises ConfigInvalid.

    A file with one server needs no braces around its directives.
    """
    lines = _read(text, "", around)
    if lines and not lines[0].has_block and lines[0].name != "import":
        inside = _Expander(around).expand(lines[1:], inside=True)
        return (Directive(lines[0].line, lines[0].words, tuple(inside), has_block=True),)
    servers = tuple(_Expander(around).expand(lines))
    for server in servers:
        if not server.has_block:
            raise server.invalid(f"{' '.join(server.words)!r} is in no server block")
    return servers


def _read(text: str, origin: str, around: Surroundings) -> tuple[Directive, ...]:
    """Lines and blocks as they stand there. Braces open at a line's end and close on a line of their own."""
    open_blocks: list[tuple[int | str, tuple[str, ...], list[Directive]]] = [(0, (), [])]
    keys: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{number} of {origin}" if origin else number
        words = (*keys, *(_with_variables(word, place, around.variables) for word in _words(line, place)))
        keys = ()
        if not words:
            continue
        if len(open_blocks) == 1 and words[-1].endswith(","):
            keys = words  # the keys of a server go on in the next line
        elif words == ("}",):
            if len(open_blocks) == 1:
                raise invalid(place, "a brace is closed that was not opened")
            begun, its_words, inside = open_blocks.pop()
            open_blocks[-1][2].append(Directive(begun, its_words, tuple(inside), has_block=True))
        elif words[-1] == "{":
            if len(words) == 1:
                raise invalid(place, "a block without a name")
            open_blocks.append((place, words[:-1], []))
        elif words[-2:] == ("{", "}") and len(words) > 2:
            open_blocks[-1][2].append(Directive(place, words[:-2], has_block=True))
        elif "{" in words or "}" in words:
            raise invalid(place, "a brace in the middle of a line")
        else:
            open_blocks[-1][2].append(Directive(place, words))
    if len(open_blocks) > 1:
        raise invalid(open_blocks[-1][0], "a brace is opened and not closed")
    if keys:
        raise ConfigInvalid(f"Corefile: {' '.join(keys)!r} at the end is not followed by a server block")
    return tuple(open_blocks[0][2])


def _words(line: str, place: int | str) -> list[str]:
    """A line's words without its comment. In quotes a word may have spaces, and \\" is a quote."""
    words = []
    for found in _WORD.finditer(line):
        comment, quoted, plain = found.groups()
        if comment is not None:
            break
        if plain is not None and plain.startswith('"'):
            raise invalid(place, "a quotation that does not end in its line")
        words.append(plain if quoted is None else quoted.replace('\\"', '"'))
    return words


def _with_variables(word: str, place: int | str, variables: Mapping[str, str]) -> str:
    """`{$NAME}` and `{%NAME%}` are the environment's. One that is not set would leave a hole in the sentence."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if not variables.get(name):
            raise invalid(place, f"the environment has no {name}: set it, or write its value here")
        return variables[name]

    return _VARIABLE.sub(value, word)


class _Expander:
    """Puts snippets and other files where `import` wants them. A snippet is known from where it stands on."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._snippets: dict[str, tuple[Directive, ...]] = {}

    def expand(self, lines: tuple[Directive, ...], depth: int = 0, *, inside: bool = False) -> Iterator[Directive]:
        for line in lines:
            if line.name == "import":
                yield from self._imported(line, depth, inside=inside)
            elif not inside and len(line.words) == 1 and re.fullmatch(r"\(.+\)", line.name):
                if line.name[1:-1] in self._snippets:
                    raise line.invalid(f"a second snippet {line.name}")
                self._snippets[line.name[1:-1]] = line.block
            else:
                yield replace(line, block=tuple(self.expand(line.block, depth, inside=True)))

    def _imported(self, line: Directive, depth: int, *, inside: bool) -> Iterator[Directive]:
        if len(line.arguments) != 1:
            raise line.invalid("import takes a snippet's name, or a file's")
        if depth == _DEEPEST:
            raise line.invalid("import goes round in a circle, or too deep")
        wanted = line.arguments[0]
        if wanted in self._snippets:
            yield from self.expand(self._snippets[wanted], depth + 1, inside=inside)
            return
        # A pattern that fits no file brings nothing: so distributions leave a place for their users' files.
        pattern = os.path.join(self._around.directory, wanted)
        for path in self._around.find(pattern) if glob.has_magic(wanted) else [pattern]:
            try:
                text = self._around.read(path)
            except OSError as error:
                raise line.invalid(f"import {path}: {error.strerror}") from error
            yield from self.expand(_read(text, path, self._around), depth + 1, inside=inside)
