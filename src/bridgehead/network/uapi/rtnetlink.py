"""linux/rtnetlink.h: messages about links, addresses, routes, neighbours and rules."""

from typing import Final

RTM_NEWLINK: Final = 16
RTM_DELLINK: Final = 17
RTM_GETLINK: Final = 18
RTM_NEWADDR: Final = 20
RTM_DELADDR: Final = 21
RTM_GETADDR: Final = 22
RTM_NEWROUTE: Final = 24
RTM_DELROUTE: Final = 25
RTM_GETROUTE: Final = 26
RTM_NEWNEIGH: Final = 28
RTM_NEWRULE: Final = 32

# multicast groups, as a bit mask for bind()
RTMGRP_LINK: Final = 1
RTMGRP_IPV4_IFADDR: Final = 0x10
RTMGRP_IPV4_ROUTE: Final = 0x40
RTMGRP_IPV6_IFADDR: Final = 0x100
RTMGRP_IPV6_ROUTE: Final = 0x400

# routes
RTA_DST: Final = 1
RTA_OIF: Final = 4
RTA_GATEWAY: Final = 5
RTA_PRIORITY: Final = 6
RTA_PREFSRC: Final = 7
RTA_MULTIPATH: Final = 9
RTA_TABLE: Final = 15
RTA_VIA: Final = 18
RT_TABLE_DEFAULT: Final = 253
RT_TABLE_MAIN: Final = 254
RT_TABLE_LOCAL: Final = 255
RTN_UNICAST: Final = 1
RTN_LOCAL: Final = 2
RTN_BROADCAST: Final = 3
RTN_ANYCAST: Final = 4
RTN_MULTICAST: Final = 5
RTN_BLACKHOLE: Final = 6
RTN_UNREACHABLE: Final = 7
RTN_PROHIBIT: Final = 8
RTN_THROW: Final = 9
RTM_F_CLONED: Final = 0x200
RTPROT_STATIC: Final = 4
RT_SCOPE_UNIVERSE: Final = 0
RT_SCOPE_LINK: Final = 253
RT_SCOPE_HOST: Final = 254
RTNH_F_ONLINK: Final = 4
