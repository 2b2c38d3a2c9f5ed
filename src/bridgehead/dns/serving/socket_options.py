"""Socket options that Python 3.11's `socket` lacks, under the names of linux/in.h and linux/in6.h."""

from typing import Final

# linux/in.h, level IPPROTO_IP
IP_PKTINFO: Final = 8
IP_FREEBIND: Final = 15

# linux/in6.h, level IPPROTO_IPV6
IPV6_FREEBIND: Final = 78
