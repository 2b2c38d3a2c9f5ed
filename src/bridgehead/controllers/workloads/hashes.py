"""The short hash that names a revision of a pod template (`pod-template-hash`, `controller-revision-hash`).

Called by the Deployment and DaemonSet controllers. Kubernetes hashes a dump of its Go structs, so the digits can't be
equal to its own; everything else is: 32-bit FNV-1a, a collision count mixed in, and the decimal digits spelled in an
alphabet without vowels and look-alikes (`k8s.io/apimachinery/pkg/util/rand.SafeEncodeString`).
"""

from __future__ import annotations

import msgspec

from bridgehead.objects.meta import PodTemplate

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193


def fnv1a_32(data: bytes) -> int:
    """The 32-bit FNV-1a hash of `data`."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


def safe_encode(text: str) -> str:
    """`text` with every character replaced by a consonant or a digit that can't form or be mistaken for a word."""
    return "".join(_ALPHABET[ord(character) % len(_ALPHABET)] for character in text)


def template_hash(template: PodTemplate, collision_count: int | None = None) -> str:
    """One to ten characters that name `template`; equal templates have equal hashes, whatever their key order.

    `collision_count` is None until two different templates once got the same hash; each further value gives another.
    """
    data = msgspec.json.encode(template, order="deterministic")
    if collision_count is not None:
        data += collision_count.to_bytes(8, "little")
    return safe_encode(str(fnv1a_32(data)))
