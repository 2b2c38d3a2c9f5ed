"""netinet/tcp.h: flags of TCP segments."""

from typing import Final

TH_FIN: Final = 0x1
TH_SYN: Final = 0x2
TH_RST: Final = 0x4
TH_ACK: Final = 0x10
