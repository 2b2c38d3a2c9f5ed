"""linux/filter.h: offsets of classic BPF programs into a packet's headers."""

from typing import Final

SKF_NET_OFF: Final = -0x100000
