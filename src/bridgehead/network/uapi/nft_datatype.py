"""include/datatype.h of nftables: the types by which nft shows a set's keys. The kernel only stores them.

A key of several fields has the types of its fields one after the other, TYPE_BITS bits each.
"""

from typing import Final

TYPE_IPADDR: Final = 7
TYPE_IP6ADDR: Final = 8
TYPE_INET_SERVICE: Final = 13
TYPE_BITS: Final = 6
