"""linux/icmp.h: types of ICMP messages."""

from typing import Final

ICMP_REDIRECT: Final = 5
