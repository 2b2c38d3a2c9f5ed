"""linux/netfilter/nfnetlink_conntrack.h: connection tracking over netlink."""

from typing import Final

IPCTNL_MSG_CT_GET: Final = 1
IPCTNL_MSG_CT_DELETE: Final = 2
IPCTNL_MSG_CT_GET_STATS: Final = 5
CTA_TUPLE_ORIG: Final = 1
CTA_TUPLE_REPLY: Final = 2
CTA_STATUS: Final = 3
CTA_PROTOINFO: Final = 4
CTA_ID: Final = 12
CTA_ZONE: Final = 18
CTA_FILTER: Final = 25
CTA_STATUS_MASK: Final = 26
CTA_TUPLE_IP: Final = 1
CTA_TUPLE_PROTO: Final = 2
CTA_TUPLE_ZONE: Final = 3
CTA_IP_V4_SRC: Final = 1
CTA_IP_V4_DST: Final = 2
CTA_IP_V6_SRC: Final = 3
CTA_IP_V6_DST: Final = 4
CTA_PROTO_NUM: Final = 1
CTA_PROTO_SRC_PORT: Final = 2
CTA_PROTO_DST_PORT: Final = 3
CTA_PROTOINFO_SCTP: Final = 3
CTA_PROTOINFO_SCTP_STATE: Final = 1
CTA_FILTER_ORIG_FLAGS: Final = 1
CTA_FILTER_REPLY_FLAGS: Final = 2
CTA_STATS_GLOBAL_ENTRIES: Final = 1
