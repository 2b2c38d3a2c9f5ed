"""sys/socket.h: levels and options of sockets that Python's `socket` module lacks, and address families.

The families are for modules that open no sockets.
"""

from typing import Final

AF_ALG: Final = 38
AF_VSOCK: Final = 40

SOL_NETLINK: Final = 270
SO_ATTACH_FILTER: Final = 26
SO_SNDBUFFORCE: Final = 32
SO_RCVBUFFORCE: Final = 33
