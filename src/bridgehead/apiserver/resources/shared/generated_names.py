"""Random names: of objects with generateName, and of volumes that admission adds.

Source: apimachinery/pkg/util/rand, apiserver/pkg/storage/names.
"""

from __future__ import annotations

import random

# Lower-case letters and digits without vowels and look-alikes.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 5
_MAX_BASE = 63 - _LENGTH


def random_suffix() -> str:
    return "".join(random.choices(_ALPHABET, k=_LENGTH))


def generate_name(base: str) -> str:
    return base[:_MAX_BASE] + random_suffix()
