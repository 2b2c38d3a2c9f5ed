"""linux/netfilter/nf_conntrack_tcp.h: states of tracked TCP connections."""

from typing import Final

TCP_CONNTRACK_SYN_SENT: Final = 1
TCP_CONNTRACK_SYN_RECV: Final = 2
TCP_CONNTRACK_ESTABLISHED: Final = 3
TCP_CONNTRACK_FIN_WAIT: Final = 4
TCP_CONNTRACK_CLOSE_WAIT: Final = 5
TCP_CONNTRACK_LAST_ACK: Final = 6
TCP_CONNTRACK_TIME_WAIT: Final = 7
TCP_CONNTRACK_CLOSE: Final = 8
TCP_CONNTRACK_SYN_SENT2: Final = 9
