"""The user of this process, for programs that demand a user's name."""

from __future__ import annotations

import os
import pwd


def existing_user_name() -> str:
    """Return this user's name, or that of another user of this machine if this one has none, as in containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return pwd.getpwall()[0].pw_name
