"""Names of nodes where fewer characters are allowed than in the name of a Node.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import hashlib
from typing import Final

LABEL_CHARACTERS: Final = 63  # in the value of a label
NAME_CHARACTERS: Final = 253  # in the name of an object
_DIGITS: Final = 12  # of the hash in the place of a longer name's end


def shortened(name: str, characters: int = LABEL_CHARACTERS) -> str:
    """Return the name if it has at most so many characters; else its beginning with a hash of all of it."""
    if len(name) <= characters:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{name[: characters - _DIGITS - 1].rstrip('-._')}-{digest}"
