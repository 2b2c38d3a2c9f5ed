"""Names of drivers, and names of attributes and capacities: a C identifier, with the domain of a driver or without.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/resource/validation`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import check_dns1123_subdomain

MAX_QUALIFIED_NAME = 63 + 1 + 32
_MAX_DRIVER, _MAX_IDENTIFIER = 63, 32
_NOT_AN_IDENTIFIER = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)
_NO_DOMAIN = "a fully qualified name must be a domain and a name separated by a slash"


def validate_driver(driver: Field) -> None:
    driver.must_be_set()
    if len(driver.value) > _MAX_DRIVER:
        driver.too_long(_MAX_DRIVER)
    driver.must_pass(lambda name: check_dns1123_subdomain(name.lower()))


def validate_qualified(name: Field) -> None:
    """Validate the name of an attribute or a capacity. As in Kubernetes, one with several slashes passes."""
    domain, slash, identifier = name.value.rpartition("/")
    if not slash:
        _validate_identifier(name)
        return
    if "/" in domain:
        return
    if domain:
        validate_driver(name.showing(domain))
    else:
        name.showing("").invalid("the domain must not be empty")
    if identifier:
        _validate_identifier(name.showing(identifier))
    else:
        name.showing("").invalid("the name must not be empty")


def validate_full_name(name: Field) -> None:
    """Validate the name of an attribute that must have a domain."""
    validate_qualified(name)
    if "/" not in name.value:
        name.invalid(_NO_DOMAIN)


def _validate_identifier(name: Field) -> None:
    name.must_have_at_most_bytes(_MAX_IDENTIFIER)
    if not (name.value.isascii() and name.value.isidentifier()):
        name.invalid(_NOT_AN_IDENTIFIER)


def shorten_key(key: str, limit: int) -> str:
    """Return a key for the path of an error, without its middle if it is longer than `limit`."""
    kept = limit - len("...")
    return key if len(key) <= limit else f"{key[: (kept + 1) // 2]}...{key[len(key) - kept // 2 :]}"
