"""The source of the product as syntax trees, and the constants in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "bridgehead"
_QUOTED = re.compile(r'"([^"\n]+)"')


@dataclass(frozen=True)
class Module:
    """One module: its path below src/bridgehead, its text, its tree, which is parsed when it is needed."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def part(self) -> str:
        """The package that has it: `controllers/jobs`, `proxy`."""
        first, _, rest = self.path.partition("/")
        return f"{first}/{rest.partition('/')[0]}" if first == "controllers" and "/" in rest else first


@cache
def modules() -> tuple[Module, ...]:
    """Return every module of the product, without generated ones."""
    paths = (path for path in sorted(SOURCE.rglob("*.py")) if not path.stem.endswith("_pb2"))
    return tuple(Module(path.relative_to(SOURCE).as_posix(), path.read_text("utf-8")) for path in paths)


def text_of(node: ast.AST | None, constants: Mapping[str, str] | None = None) -> str | None:
    """Return the value of a constant text, with `{EXPRESSION}` for what is filled in; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) if constants and name in constants:
            return constants[name]
        case ast.JoinedStr(values=parts):
            return "".join(_part(part, constants or {}) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = text_of(left, constants), text_of(right, constants)
            return None if first is None or second is None else first + second
    return None


def _part(part: ast.expr, constants: Mapping[str, str]) -> str:
    if not isinstance(part, ast.FormattedValue):
        return text_of(part) or ""
    if isinstance(part.value, ast.Name) and part.value.id in constants:
        return constants[part.value.id]
    return "{" + _name_of(part.value) + "}"


def _name_of(value: ast.expr) -> str:
    """Return a short name for what an expression fills in: `pod.metadata.name` is a pod's name, or just `pod`."""
    names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name) and node.id != "self"]
    attributes = [node.attr for node in ast.walk(value) if isinstance(node, ast.Attribute)]
    found = attributes[0] if isinstance(value, ast.Attribute) else next(iter([*names[-1:], *attributes]), "...")
    return found.strip("_")


def constants_of(tree: ast.Module) -> dict[str, str]:
    """Return the constant texts that a module has names for, also those that it imports from modules beside it."""
    found: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            others = _own_constants(statement.module.rpartition(".")[2])
            found |= {
                alias.asname or alias.name: others[alias.name] for alias in statement.names if alias.name in others
            }
    return found | _assigned(tree, found)


@cache
def _own_constants(name: str) -> Mapping[str, str]:
    """Return the constant texts of all modules with a name."""
    found: dict[str, str] = {}
    for module in modules():
        if module.path.endswith((f"/{name}.py", f"/{name}/__init__.py")):
            found |= _assigned(module.tree, {})
    return found


def _assigned(tree: ast.Module, known: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pairs = [(name, value)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pairs = [(name, value)]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = [
                    (name.id, value) for name, value in zip(names, values, strict=False) if isinstance(name, ast.Name)
                ]
            case _:
                continue
        for name, value in pairs:
            text = text_of(value, {**known, **found})
            if text is not None:
                found[name] = text
    return found


def texts_in(text: str) -> Iterator[str]:
    """Yield the texts between quotes on one line of a module, without parsing it."""
    return (match[1] for match in _QUOTED.finditer(text))
