"""The loader for all YAML that Bridgehead reads, and the bounds of YAML that is a manifest of an object.

libyaml's loader takes a tenth of the time of PyYAML's own and less memory, but PyYAML may be built without it. Import
this module only where YAML is read: parts inside a cluster never load PyYAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

try:
    from yaml import CSafeLoader as Loader
except ImportError:
    from yaml import SafeLoader as Loader  # type: ignore[assignment]

__all__ = ["Loader", "TextLoader", "UnusableYaml", "load_object"]

# Bounds the size of a document whose aliases are expanded many times.
_MAX_NODES: Final = 1_000_000
_MAX_EVENTS: Final = 150_000  # about two seconds of work; no real object comes near
_MAX_DEPTH: Final = 200


class UnusableYaml(ValueError):
    """The document has a syntax error, has no equivalent in JSON or is beyond a bound. The message is one line."""


def _keep_texts(loader: Any, *types: str) -> None:
    """Make a loader keep scalars of these types (of YAML 1.1) as texts."""
    tags = {f"tag:yaml.org,2002:{type_}" for type_ in types}
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in tags]
        for first, resolvers in Loader.yaml_implicit_resolvers.items()
    }


class _ObjectLoader(Loader):
    """A loader that reads numbers as Go's library does, and keeps timestamps as text: JSON has no timestamps.

    YAML 1.1 also reads 12:30 as a number (of base 60), and 1e3 as a text. Source: gopkg.in/yaml.v2.
    """


class TextLoader(Loader):
    """A loader that keeps numbers and timestamps as text, for formats whose fields decide what a scalar is."""


_FIRST_DIGITS: Final = list("-+0123456789")
_INTEGER: Final = re.compile("[-+]?(?:0b[01][01_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0(?:o?[0-7][0-7_]*)?|[1-9][0-9_]*)$")
_FLOAT: Final = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
for loader in (_ObjectLoader, TextLoader):
    _keep_texts(loader, "timestamp", "int", "float")
_ObjectLoader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, _FIRST_DIGITS)
_ObjectLoader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, [*_FIRST_DIGITS, "."])


def load_object(text: bytes) -> Any:
    """Load the first document, which stands for JSON. Raises `UnusableYaml`.

    A small document can expand to a very large value, so its size is checked before it is built.
    """
    try:
        _check_shape(yaml.parse(text, Loader=_ObjectLoader))
        loader: Any = _ObjectLoader(text)  # its methods have no types
        try:
            document = loader.get_data() if loader.check_data() else None
        finally:
            loader.dispose()
        _count_nodes(document, {}, set())
    except UnusableYaml:
        raise
    except yaml.YAMLError as error:
        raise UnusableYaml(_go_text(error)) from None
    except (RecursionError, ValueError) as error:  # ValueError: not UTF-8, thousands of digits
        raise UnusableYaml(" ".join(str(error).split())) from None
    return document


def _go_text(error: yaml.YAMLError) -> str:
    """Return the text of Go's library for an error of libyaml, whose problems both share."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"yaml: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem:
        return " ".join(f"yaml: {error}".split())
    marks = (error.context_mark, error.problem_mark)
    line = next((mark.line for mark in marks if mark is not None and mark.line), 0)
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


def _check_shape(events: Iterable[Any]) -> None:
    """Refuse documents that are nested too deeply (libyaml would exhaust the stack) or too large."""
    depth = 0
    for count, event in enumerate(events):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise UnusableYaml(f"yaml: exceeded max depth of {_MAX_DEPTH}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentEndEvent):
            return
        if count > _MAX_EVENTS:
            raise UnusableYaml("yaml: the document has too many nodes; send it as JSON")


def _count_nodes(node: Any, sizes: dict[int, int], open_nodes: set[int]) -> int:
    """Return the number of nodes with aliases expanded; refuse too many or infinitely many. Keys become texts."""
    if not isinstance(node, dict | list):
        return 1
    identity = id(node)
    if identity in sizes:
        return sizes[identity]
    if identity in open_nodes:
        raise UnusableYaml("an anchor contains itself")
    open_nodes.add(identity)
    if isinstance(node, dict) and not all(isinstance(key, str) for key in node):
        items = [(_key_text(key), value) for key, value in node.items()]
        node.clear()
        node.update(items)
    children = node.values() if isinstance(node, dict) else node
    size = 1 + sum(_count_nodes(child, sizes, open_nodes) for child in children)
    if size > _MAX_NODES:
        raise UnusableYaml("yaml: document contains excessive aliasing")
    open_nodes.discard(identity)
    sizes[identity] = size
    return size


def _key_text(key: Any) -> str:
    """Return the key of a mapping as JSON has it. Source: sigs.k8s.io/yaml (convertToJSONableObject)."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise UnusableYaml("a key is neither a text nor a number nor a boolean")
