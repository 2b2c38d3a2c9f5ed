"""Rules and elements as `nft list` prints them, from `nft --json list`.

Pure: no I/O, no clock, no randomness. Total: a statement of an unknown kind is shown as JSON. Source:
libnftables-json(5), nftables 1.0.6 (src/json.c, and the print functions of src/statement.c and src/expression.c).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

_MARKS = frozenset(("mark",))  # keys of meta and ct whose values are printed in hexadecimal
_UNQUALIFIED = frozenset(
    ("iif", "iifname", "iifgroup", "iiftype", "oif", "oifname", "oifgroup", "oiftype")
)  # keys of meta that are printed without "meta"; their values are names in quotes
_BITWISE = ("&", "|", "^", "<<", ">>")
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def rule_text(rule: Mapping[str, Any]) -> str:
    """Return the text of a rule object: its statements, and its comment."""
    text = " ".join(map(_statement, rule.get("expr") or ()))
    comment = rule.get("comment")
    return f'{text} comment "{comment}"' if comment else text


def counter_of(rule: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return packets and bytes of the first counter in a rule; None without one."""
    for statement in rule.get("expr") or ():
        counter = statement.get("counter") if isinstance(statement, dict) else None
        if isinstance(counter, dict):
            packets, size = counter.get("packets"), counter.get("bytes")
            if isinstance(packets, int) and isinstance(size, int):
                return packets, size
    return None


def targets_of(rule: Mapping[str, Any]) -> list[str]:
    """Return the chains that a rule jumps or goes to, also by the elements of a map without a name."""
    return list(_find_targets(rule.get("expr")))


def _find_targets(value: Any) -> list[str]:
    found: list[str] = []
    if isinstance(value, dict):
        for name, content in value.items():
            if name in ("jump", "goto") and isinstance(content, dict):
                found.append(str(content.get("target", "")))
            else:
                found += _find_targets(content)
    elif isinstance(value, list):
        for each in value:
            found += _find_targets(each)
    return found


def element_text(element: Any) -> str:
    """Return the text of an element of a set, or of a map: a list of key and value."""
    if isinstance(element, list) and len(element) == 2:
        key, value = element
        return f"{expression(key)} : {expression(value)}"
    return expression(element)


def expression(value: Any, *, is_hex: bool = False) -> str:
    """Return the text of an expression. `is_hex`: a number is a mark."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for name, content in value.items():
            render = _EXPRESSIONS.get(name)
            if render is not None:
                return render(content)
            if content is None:  # a verdict
                return str(name)
        return _as_json(value)
    if isinstance(value, bool):
        return "exists" if value else "missing"
    if isinstance(value, int):
        return f"0x{value & 0xFFFFFFFF:08x}" if is_hex else str(value)
    if isinstance(value, list):
        return ",".join(expression(one, is_hex=is_hex) for one in value)
    return str(value)


def _bitwise(operator: str, operands: Any) -> str:
    if not isinstance(operands, list):
        return _as_json({operator: operands})
    is_hex = any(map(_is_mark, operands))
    return f" {operator} ".join(expression(one, is_hex=is_hex) for one in operands)


def _is_mark(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if any(map(_is_mark, value.get("&") or value.get("|") or value.get("^") or ())):
        return True
    key = value.get("meta") or value.get("ct")
    return isinstance(key, dict) and key.get("key") in _MARKS


def _meta(content: Any) -> str:
    key = str(content["key"])
    return key if key in _UNQUALIFIED else f"meta {key}"


def _ct(content: Any) -> str:
    direction = f"{content['dir']} " if content.get("dir") else ""
    return f"ct {direction}{content['key']}"


def _fib(content: Any) -> str:
    flags = content.get("flags") or ()
    flags = [flags] if isinstance(flags, str) else flags
    return f"fib {' . '.join(map(str, flags))} {content['result']}"


def _numgen(content: Any) -> str:
    offset = f" offset {content['offset']}" if content.get("offset") else ""
    return f"numgen {content['mode']} mod {content['mod']}{offset}"


def _jhash(content: Any) -> str:
    seed = f" seed {content['seed']:#x}" if content.get("seed") else ""
    offset = f" offset {content['offset']}" if content.get("offset") else ""
    return f"jhash {expression(content['expr'])} mod {content['mod'] & 0xFFFFFFFF}{seed}{offset}"


def _payload(content: Any) -> str:
    if "protocol" in content:
        return f"{content['protocol']} {content['field']}"
    return f"@{content['base']},{content['offset']},{content['len']}"


def _element(content: Any) -> str:
    parts = [expression(content["val"])]
    counter = content.get("counter")
    if isinstance(counter, dict):
        parts.append(f"counter packets {counter.get('packets')} bytes {counter.get('bytes')}")
    parts += (f"{name} {duration(content[name])}" for name in ("timeout", "expires") if content.get(name))
    if content.get("comment"):
        parts.append(f'comment "{content["comment"]}"')
    return " ".join(parts)


def _map_lookup(content: Any) -> str:
    return f"{expression(content['key'])} map {expression(content['data'])}"


def _set(content: Any) -> str:
    return f"{{ {', '.join(map(element_text, content if isinstance(content, list) else [content]))} }}"


_EXPRESSIONS: dict[str, Callable[[Any], str]] = {
    "meta": _meta,
    "ct": _ct,
    "fib": _fib,
    "numgen": _numgen,
    "jhash": _jhash,
    "payload": _payload,
    "elem": _element,
    "map": _map_lookup,
    "set": _set,
    "concat": lambda parts: " . ".join(map(expression, parts)),
    "prefix": lambda one: f"{expression(one['addr'])}/{one['len']}",
    "range": lambda both: "-".join(map(expression, both)),
    "goto": lambda one: f"goto {one['target']}",
    "jump": lambda one: f"jump {one['target']}",
    **{operator: partial(_bitwise, operator) for operator in _BITWISE},
}


def duration(seconds: int) -> str:
    """Return a time in seconds as nft prints it: 2h58m."""
    if not isinstance(seconds, int) or seconds <= 0:
        return str(seconds)
    text = ""
    for size, unit in _UNITS:
        number, seconds = divmod(seconds, size)
        text += f"{number}{unit}" if number else ""
    return text


# --- Statements ------------------------------------------------------------------------------------------


def _statement(statement: Any) -> str:
    if not isinstance(statement, dict):
        return str(statement)  # nft 1.0.6 has no JSON of updates of a map, and prints their text
    for name, content in statement.items():
        render = _STATEMENTS.get(name)
        try:
            if render is not None:
                return render(content)
            if content is None:
                return str(name)
        except (KeyError, TypeError, AttributeError, ValueError):
            break
        return expression(statement)
    return _as_json(statement)


def _match(content: Any) -> str:
    operator, left, right = content["op"], content["left"], content["right"]
    if operator == "==" and isinstance(left, dict) and "&" in left:
        field, mask = left["&"]
        if isinstance(mask, dict) and "|" in mask:  # from nft 1.1 on, in JSON and in text
            return f"{expression(field)} & ({expression(mask)}) == {expression(right)}"
        if isinstance(field, dict) and "payload" in field and not isinstance(mask, int):
            return f"{expression(field)} {expression(right)} / {expression(mask)}"  # flags of TCP
        return f"{expression(left)} == {expression(right, is_hex=_is_mark(left))}"
    sign = "" if operator in ("==", "in") else f"{operator} "
    text = expression(right, is_hex=_is_mark(left))
    meta = left.get("meta") if isinstance(left, dict) else None
    if isinstance(meta, dict) and meta.get("key") in _UNQUALIFIED and isinstance(right, str):
        text = f'"{text}"'
    return f"{expression(left)} {sign}{text}"


def _mangle(content: Any) -> str:
    return f"{expression(content['key'])} set {expression(content['value'], is_hex=_is_mark(content['key']))}"


def _nat(kind: str, content: Any) -> str:
    if content is None:
        return kind
    parts = [kind]
    if "addr" in content or "port" in content:
        if content.get("family"):
            parts.append(str(content["family"]))
        address, port = expression(content.get("addr", "")), content.get("port")
        if port is None:
            parts.append(f"to {address}")
        else:
            parts.append(f"to [{address}]:{expression(port)}" if ":" in address else f"to {address}:{expression(port)}")
    flags = content.get("flags") or ()
    flags = [flags] if isinstance(flags, str) else flags
    return " ".join((*parts, *([",".join(map(str, flags))] if flags else ())))


def _reject(content: Any) -> str:
    if not isinstance(content, dict) or content.get("expr") == "port-unreachable":
        return "reject"
    expr = f" {expression(content['expr'])}" if "expr" in content else ""
    return f"reject with {content['type']}{expr}"


def _update(content: Any) -> str:
    container = content.get("set") or content.get("map")
    data = f" : {expression(content['data'])}" if "data" in content else ""
    return f"{content['op']} {expression(container)} {{ {expression(content['elem'])}{data} }}"


def _log(content: Any) -> str:
    prefix = f' prefix "{content["prefix"]}"' if isinstance(content, dict) and "prefix" in content else ""
    return f"log{prefix}"


def _counter(content: Any) -> str:
    if isinstance(content, dict):
        return f"counter packets {content['packets']} bytes {content['bytes']}"
    return f'counter name "{content}"' if content else "counter"


_STATEMENTS: dict[str, Callable[[Any], str]] = {
    "match": _match,
    "mangle": _mangle,
    "counter": _counter,
    "reject": _reject,
    "log": _log,
    "set": _update,
    "map": _update,
    "vmap": lambda one: f"{expression(one['key'])} vmap {expression(one['data'])}",
    **{kind: partial(_nat, kind) for kind in ("dnat", "snat", "masquerade", "redirect")},
}


def _as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
