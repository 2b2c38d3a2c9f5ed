"""linux/netfilter/ipset/ip_set.h: IP sets."""

from typing import Final

IPSET_PROTOCOL_MIN: Final = 6  # the version of the messages that every kernel understands
IPSET_CMD_CREATE: Final = 2
IPSET_CMD_DESTROY: Final = 3
IPSET_CMD_FLUSH: Final = 4
IPSET_CMD_SWAP: Final = 6
IPSET_CMD_LIST: Final = 7
IPSET_CMD_ADD: Final = 9
IPSET_CMD_DEL: Final = 10
IPSET_CMD_TYPE: Final = 13

# of a message
IPSET_ATTR_PROTOCOL: Final = 1
IPSET_ATTR_SETNAME: Final = 2
IPSET_ATTR_TYPENAME: Final = 3
IPSET_ATTR_SETNAME2: Final = 3  # of the other set of a swap
IPSET_ATTR_REVISION: Final = 4
IPSET_ATTR_FAMILY: Final = 5
IPSET_ATTR_FLAGS: Final = 6
IPSET_ATTR_DATA: Final = 7
IPSET_ATTR_ADT: Final = 8
IPSET_ATTR_LINENO: Final = 9

# of a set's properties and of an element
IPSET_ATTR_IP: Final = 1
IPSET_ATTR_PORT: Final = 4
IPSET_ATTR_PORT_TO: Final = 5
IPSET_ATTR_PROTO: Final = 7
IPSET_ATTR_CADT_FLAGS: Final = 8
IPSET_ATTR_MAXELEM: Final = 19
IPSET_ATTR_ELEMENTS: Final = 24
IPSET_ATTR_IP2: Final = 20
IPSET_ATTR_CIDR2: Final = 21
IPSET_ATTR_SKBMARK: Final = 27
IPSET_ATTR_IPADDR_IPV4: Final = 1
IPSET_ATTR_IPADDR_IPV6: Final = 2
IPSET_FLAG_LIST_HEADER: Final = 4
IPSET_FLAG_WITH_SKBINFO: Final = 64

# errors, beyond those of errno.h
IPSET_ERR_PROTOCOL: Final = 4097
IPSET_ERR_FIND_TYPE: Final = 4098
IPSET_ERR_MAX_SETS: Final = 4099
IPSET_ERR_BUSY: Final = 4100
IPSET_ERR_EXIST: Final = 4103
