"""net/netfilter/nf_internals.h: which parts of a CTA_FILTER count. The header is in the kernel's source only."""

from typing import Final

CTA_FILTER_F_CTA_IP_SRC: Final = 1 << 0
CTA_FILTER_F_CTA_IP_DST: Final = 1 << 1
CTA_FILTER_F_CTA_PROTO_NUM: Final = 1 << 3
CTA_FILTER_F_CTA_PROTO_SRC_PORT: Final = 1 << 4
CTA_FILTER_F_CTA_PROTO_DST_PORT: Final = 1 << 5
