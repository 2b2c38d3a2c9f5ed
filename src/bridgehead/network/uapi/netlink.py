"""linux/netlink.h: netlink's message headers, attributes and socket options."""

from typing import Final

# protocols
NETLINK_NETFILTER: Final = 12
NETLINK_GENERIC: Final = 16

# message flags
NLM_F_REQUEST: Final = 0x1
NLM_F_ACK: Final = 0x4
NLM_F_DUMP_INTR: Final = 0x10
NLM_F_DUMP: Final = 0x300
NLM_F_REPLACE: Final = 0x100
NLM_F_EXCL: Final = 0x200
NLM_F_CREATE: Final = 0x400
NLM_F_APPEND: Final = 0x800

# message types
NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3

# attributes
NLA_F_NESTED: Final = 0x8000
NLA_F_NET_BYTEORDER: Final = 0x4000
NLA_TYPE_MASK: Final = ~(NLA_F_NESTED | NLA_F_NET_BYTEORDER)

# socket options, of level SOL_NETLINK
NETLINK_ADD_MEMBERSHIP: Final = 1
NETLINK_DROP_MEMBERSHIP: Final = 2
NETLINK_CAP_ACK: Final = 10
