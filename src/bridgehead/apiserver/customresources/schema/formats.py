"""String formats that schemas of custom resources may name. Other formats are ignored.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apiserver/validation/formats.go; kube-openapi/pkg/validation/strfmt.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable
from datetime import date

from bridgehead.objects.quantities import parse_quantity

_HEX = "[0-9a-f]"
_UUID = f"^{_HEX}{{8}}-?{_HEX}{{4}}-?%s-?%s-?{_HEX}{{12}}$"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_CREDIT_CARD = (
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}"
    r"|6[27][0-9]{14})$"
)
_RGB_PART = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
# The quantifiers of what a client may repeat are possessive: a long text that does not match takes linear time.
_GO_DURATION = re.compile(r"[+-]?(0|((\d++\.?\d*+|\.\d++)(ns|us|µs|μs|ms|s|m|h))++)")
_SCALA_DURATION = re.compile(r"\s*+(?:\d++\s*+[A-Za-zµ]++\s*+)++")
_SCALA_UNITS = re.compile(r"\d+\s*([A-Za-zµ]+)")
# Units of a duration: whole names, and prefixes of longer ones.
_UNITS = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_UNIT_PREFIXES = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_AUTHORITY = re.compile(r"(?:[^@\s]*@)?(?:\[[^\[\]\s]*\]|[^\s\[\]<>\"^`{|}\\:]*)(?::\d*)?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010ffff-]++"
_QUOTED = r'"(?:[^"\\\r\n]|\\[ -~])*"'
_ADDRESS = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\[\]\s]*\])"
_EMAIL = re.compile(rf"\s*(?:{_ADDRESS}|(?:(?:{_ATOM}|{_QUOTED}|\.)\s*+)*+<\s*{_ADDRESS}\s*>)\s*")
# Letters and symbols of any script count as letters.
_HOSTNAME = re.compile(
    r"[a-z0-9](?:-?[a-z0-9]{0,62})?|(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:-?[a-z0-9]){1,62}"
)


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern.replace("$", r"\Z"), flags)
    return lambda text: compiled.match(text) is not None


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # Go's net.ParseIP has no zones


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    if not slash or not _is_ip(address) or not re.fullmatch(r"0|[1-9][0-9]{0,2}", length):
        return False
    return int(length) <= (128 if ":" in address else 32)


def _is_mac(text: str) -> bool:
    for separator, digits in ((":", 2), ("-", 2), (".", 4)):
        parts = text.split(separator)
        if len(parts) > 1:
            octets = len(parts) * digits // 2
            return octets in (6, 8, 20) and all(re.fullmatch(f"[0-9A-Fa-f]{{{digits}}}", part) for part in parts)
    return False


def _is_hostname(text: str) -> bool:
    if len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split(".")):
        return False
    plain = "".join("a" if unicodedata.category(character)[0] in "LS" else character for character in text)
    return _HOSTNAME.fullmatch(plain) is not None


def _is_uri(text: str) -> bool:
    """Whether Go's url.ParseRequestURI accepts it: an absolute URI, or an absolute path."""
    if not text or _CONTROL.search(text):
        return False
    if text == "*":
        return True
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    if not rest.startswith("/"):
        return scheme is not None
    rest, _, _ = rest.partition("?")
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        if not _AUTHORITY.fullmatch(authority):
            return False
        rest = slash + path
    return not _BAD_ESCAPE.search(rest)


def _digits(text: str) -> str:
    return re.sub(r"[\s-]", "", text)


def _is_isbn10(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"[0-9]{9}X|[0-9]{10}", digits):
        return False
    total = sum((index + 1) * int(digit) for index, digit in enumerate(digits[:9]))
    return (total + 10 * (10 if digits[9] == "X" else int(digits[9]))) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = _digits(text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    total = sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not re.match(_CREDIT_CARD, digits):
        return False
    doubled = (2 * int(digit) if index % 2 else int(digit) for index, digit in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _is_date(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    day, found, time = text.lower().partition("t")
    parts = _TIME.match(time) if found and _is_date(day) else None
    return parts is not None and parts[1] <= "23" and parts[2] <= "59" and parts[3] <= "59"


def _is_duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    if not _SCALA_DURATION.fullmatch(text):
        return False
    units = (unit.lower() for unit in _SCALA_UNITS.findall(text))
    return any(unit in _UNITS or unit.startswith(_UNIT_PREFIXES) for unit in units)


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except (ValueError, ArithmeticError):
        return False
    return True


def _short(pattern: str, limit: int) -> Callable[[str], bool]:
    matches = _matches(pattern)
    return lambda text: len(text) <= limit and matches(text)


# Checks by the format's name without hyphens.
_CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("^[0-9A-Fa-f]{24}$"),
    "uri": _is_uri,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and _is_ip(text),
    "ipv6": lambda text: ":" in text and _is_ip(text),
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _matches(_UUID % (f"{_HEX}{{4}}", f"{_HEX}{{4}}"), re.IGNORECASE),
    "uuid3": _matches(_UUID % (f"3{_HEX}{{3}}", f"{_HEX}{{4}}"), re.IGNORECASE),
    "uuid4": _matches(_UUID % (f"4{_HEX}{{3}}", f"[89ab]{_HEX}{{3}}"), re.IGNORECASE),
    "uuid5": _matches(_UUID % (f"5{_HEX}{{3}}", f"[89ab]{_HEX}{{3}}"), re.IGNORECASE),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _matches(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$", re.ASCII),
    "hexcolor": _matches("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    "rgbcolor": _matches(rf"^rgb\({_RGB_PART},{_RGB_PART},{_RGB_PART}\)$", re.ASCII),
    "byte": _matches(_BASE64),
    "password": lambda text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "quantity": _is_quantity,
    "k8sshortname": _short(f"^{_LABEL}$", 63),
    "k8slongname": _short(rf"^{_LABEL}(\.{_LABEL})*$", 253),
}


def format_check(name: str) -> Callable[[str], bool] | None:
    """Return the check of a string's format; None for a format that Kubernetes does not know."""
    return _CHECKS.get(name.replace("-", ""))


def unrecognized_format(type: str, format: str) -> bool:
    """Whether a schema's format is ignored, for which creating the CRD gives a warning."""
    match type:
        case "" | "string":
            return format_check(format) is None
        case "integer":
            return format not in ("int32", "int64")
        case "number":
            return format not in ("float", "double")
    return True
