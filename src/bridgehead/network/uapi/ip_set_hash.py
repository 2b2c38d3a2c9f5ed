"""linux/netfilter/ipset/ip_set_hash.h: errors of IP sets of the hash types."""

from typing import Final

IPSET_ERR_HASH_FULL: Final = 4352
