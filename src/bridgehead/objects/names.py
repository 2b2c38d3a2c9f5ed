"""Validation of names, label keys and values, and ports.

Each `check_` function returns the reasons why `value` is invalid, in the text of the API, and none for a valid one.
Source: Kubernetes "Object Names and IDs", `apimachinery/pkg/util/validation`; RFC 1123.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re

_DNS1123_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN = rf"{_DNS1123_LABEL}(\.{_DNS1123_LABEL})*"
_DNS1035_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_PORT_NAME = r"[-a-z0-9]+"

# Compiled: `re` looks a pattern up at each call, and every write checks several names.
_is_dns1123_label = re.compile(_DNS1123_LABEL).fullmatch
_is_dns1123_subdomain = re.compile(_DNS1123_SUBDOMAIN).fullmatch
_is_dns1035_label = re.compile(_DNS1035_LABEL).fullmatch
_is_qualified_name = re.compile(_QUALIFIED_NAME).fullmatch
_is_label_value = re.compile(_LABEL_VALUE).fullmatch
_is_port_name = re.compile(_PORT_NAME).fullmatch


def _regex_error(what: str, example: str, pattern: str) -> str:
    return f"{what} (e.g. {example}, regex used for validation is '{pattern}')"


def _examples(*values: str) -> str:
    return ",  or ".join(f"'{value}'" for value in values)


def check_dns1123_label(value: str) -> list[str]:
    errors = []
    if len(value) > 63:
        errors.append("must be no more than 63 bytes")
    if _is_dns1123_label(value):
        return errors
    if _is_dns1123_subdomain(value):
        errors.append("must not contain dots")
    else:
        errors.append(
            _regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
                "start and end with an alphanumeric character",
                _examples("my-name", "123-abc"),
                _DNS1123_LABEL,
            )
        )
    return errors


def check_dns1123_subdomain(value: str) -> list[str]:
    errors = []
    if len(value) > 253:
        errors.append("must be no more than 253 bytes")
    if not _is_dns1123_subdomain(value):
        errors.append(
            _regex_error(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
                "and must start and end with an alphanumeric character",
                _examples("example.com"),
                _DNS1123_SUBDOMAIN,
            )
        )
    return errors


def check_dns1035_label(value: str) -> list[str]:
    """Check a label that begins with a letter, as names of kinds and resources do."""
    errors = []
    if len(value) > 63:
        errors.append("must be no more than 63 bytes")
    if not _is_dns1035_label(value):
        errors.append(
            _regex_error(
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
                "alphabetic character, and end with an alphanumeric character",
                _examples("my-name", "abc-123"),
                _DNS1035_LABEL,
            )
        )
    return errors


def check_qualified_name(value: str) -> list[str]:
    """Check a label or annotation key: an optional DNS prefix and a slash, then a name of at most 63 characters."""
    prefix, slash, name = value.rpartition("/")
    errors = []
    if "/" in prefix:
        return [
            _regex_error(
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
                "with an alphanumeric character",
                _examples("MyName", "my.name", "123-abc"),
                _QUALIFIED_NAME,
            )
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash:
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            errors.extend(f"prefix part {reason}" for reason in check_dns1123_subdomain(prefix))
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _is_qualified_name(name):
        errors.append(
            "name part "
            + _regex_error(
                "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
                "alphanumeric character",
                _examples("MyName", "my.name", "123-abc"),
                _QUALIFIED_NAME,
            )
        )
    return errors


def check_label_value(value: str) -> list[str]:
    errors = []
    if len(value) > 63:
        errors.append("must be no more than 63 bytes")
    if not _is_label_value(value):
        errors.append(
            _regex_error(
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
                "must start and end with an alphanumeric character",
                _examples("MyValue", "my_value", "12345"),
                _LABEL_VALUE,
            )
        )
    return errors


def check_port_name(value: str) -> list[str]:
    """Check an IANA_SVC_NAME: at most 15 characters, at least one letter, no consecutive hyphens (RFC 6335)."""
    errors = []
    if len(value) > 15:
        errors.append("must be no more than 15 bytes")
    if not _is_port_name(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def check_port_number(value: int) -> list[str]:
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def check_wildcard_dns1123_subdomain(value: str) -> list[str]:
    """Check the name of a wildcard host, such as `*.example.com`."""
    pattern = rf"\*\.{_DNS1123_SUBDOMAIN}"
    if len(value) <= 253 and re.fullmatch(pattern, value):
        return []
    errors = ["must be no more than 253 bytes"] if len(value) > 253 else []
    if not re.fullmatch(pattern, value):
        errors.append(
            _regex_error(
                "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must "
                "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
                _examples("*.example.com"),
                pattern,
            )
        )
    return errors


def check_path_segment(value: str) -> list[str]:
    """Check a name that becomes one segment of a URL's path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{one}'" for one in ("/", "%") if one in value]
