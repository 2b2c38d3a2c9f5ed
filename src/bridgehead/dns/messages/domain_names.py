"""Domain names as text: lower-case, absolute, without the last dot; "" is the root.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

LONGEST_NAME = 253  # characters, without the last dot


def as_domain(text: str) -> str:
    """Return a configured or stored name in the form that this package uses."""
    return text.rstrip(".").lower()


def as_domains(texts: Iterable[str]) -> tuple[str, ...]:
    """Return several names in the form that this package uses."""
    return tuple(map(as_domain, texts))


def as_zones(texts: Iterable[str]) -> tuple[str, ...]:
    """Return configured zones in the form that this package uses.

    A range of addresses stands for the reverse zones that it fills: 10.0.0.0/8 for 10.in-addr.arpa, 10.1.0.0/23 for two
    zones. IPv4 zones end at whole octets, IPv6 zones at nibbles.
    """
    return tuple(zone for text in texts for zone in (_reverse_zones(text) or (as_domain(text),)))


def _reverse_zones(text: str) -> tuple[str, ...]:
    """Return the reverse zones of a range of addresses; () for a text that is none."""
    try:
        network = ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        network = None
    if network is None:
        return ()
    bits = 8 if network.version == 4 else 4  # of an address, for each label
    labels = -(-network.prefixlen // bits)
    outer = 2  # of "in-addr.arpa" and "ip6.arpa"
    return tuple(
        ".".join(part.network_address.reverse_pointer.split(".")[-outer - labels :])
        for part in network.subnets(new_prefix=labels * bits)
    )


def is_name(text: str) -> bool:
    """Whether the text can be encoded (RFC 1035, section 3.1): labels of 1 to 63 bytes, 255 bytes in all."""
    if not text or not text.isascii() or len(text) > LONGEST_NAME:
        return False
    return all(0 < len(label) <= 63 for label in text.split("."))


def is_label(text: str | None) -> bool:
    """Whether the text can be encoded as one label."""
    return text is not None and is_name(text) and "." not in text


def is_within(name: str, domain: str) -> bool:
    """Whether the name equals the domain or is below it. Every name is within the root."""
    return not domain or f".{name}".endswith(f".{domain}")


def is_in_any(name: str, domains: Iterable[str]) -> bool:
    """Whether the name is within one of the domains."""
    return any(is_within(name, domain) for domain in domains)


def dashed(address: str) -> str:
    """Return the label that spells an address: 10.244.1.2 -> 10-244-1-2, fd00::1 -> fd00--1."""
    return address.replace(".", "-").replace(":", "-")


def reverse_name(address: str) -> str:
    """Return the name of an address's PTR records: 10.96.0.1 -> 1.0.96.10.in-addr.arpa."""
    return ipaddress.ip_address(address).reverse_pointer


def address_of_reverse(name: str) -> str | None:
    """Return the address, in canonical form, of whose PTR records this is the name; None for any other name."""
    if name.endswith(".in-addr.arpa"):
        labels = name.split(".")[:-2]
        text = ".".join(reversed(labels)) if len(labels) == 4 else ""
    else:
        digits = name.split(".")[-3::-1]
        is_whole = name.endswith(".ip6.arpa") and len(digits) == 32 and all(len(digit) == 1 for digit in digits)
        text = ":".join("".join(digits[at : at + 4]) for at in range(0, 32, 4)) if is_whole else ""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
