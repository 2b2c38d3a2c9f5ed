"""Names of drivers, and names of attributes and capacities: a C identifier, with the domain of a driver or without.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/resource/validation`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_dns1123_subdomain

MAX_QUALIFIED_NAME = 63 + 1 + 32
_MAX_DRIVER, _MAX_IDENTIFIER = 63, 32
_NOT_AN_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)
_NO_DOMAIN = "a fully qualified name must be a domain and a name separated by a slash"


def validate_driver(path: str, name: str) -> list[FieldError]:
    errors = [] if name else [field.required(path)]
    if len(name) > _MAX_DRIVER:
        errors.append(field.too_long(path, _MAX_DRIVER))
    return [*errors, *field.invalid_for(path, name, check_dns1123_subdomain(name.lower()))]


def validate_qualified(path: str, name: str) -> list[FieldError]:
    """Validate the name of an attribute or a capacity. As in Kubernetes, one with several slashes passes."""
    domain, slash, identifier = name.rpartition("/")
    if not slash:
        return _validate_identifier(path, name)
    if "/" in domain:
        return []
    errors = validate_driver(path, domain) if domain else [field.invalid(path, "", "the domain must not be empty")]
    if not identifier:
        return [*errors, field.invalid(path, "", "the name must not be empty")]
    return errors + _validate_identifier(path, identifier)


def validate_full_name(path: str, name: str) -> list[FieldError]:
    """Validate the name of an attribute that must have a domain."""
    return validate_qualified(path, name) + ([] if "/" in name else [field.invalid(path, name, _NO_DOMAIN)])


def _validate_identifier(path: str, name: str) -> list[FieldError]:
    errors = [field.too_long(path, _MAX_IDENTIFIER)] if len(name.encode()) > _MAX_IDENTIFIER else []
    if not (name.isascii() and name.isidentifier()):
        errors.append(field.invalid(path, name, _NOT_AN_IDENTIFIER))
    return errors


def shorten_key(key: str, limit: int) -> str:
    """Return a key for the path of an error, without its middle if it is longer than `limit`."""
    kept = limit - len("...")
    return key if len(key) <= limit else f"{key[: (kept + 1) // 2]}...{key[len(key) - kept // 2 :]}"
