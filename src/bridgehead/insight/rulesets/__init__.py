"""The rules of a node's service proxy, read from its kernel and explained line by line.

entries             a line with its Service, and all lines of a node
reading             reads all mechanisms: `read_rules`
own_tables          this project's tables of nftables, with the listeners of mode userspace
kube_proxy_tables   kube-proxy's table of nftables
chains              KUBE-* chains of iptables
virtual_servers     virtual servers of IPVS, and IP sets
expected_frontends  the Frontends that explain a line
rule_descriptions   a sentence for each kind of rule
nft_listing         tables, chains and elements in nft's JSON; nft_text: their text
report              rules as text and as JSON
rendering           the rules of a mode that is not in use
comparison          the differences to the rules that a node should have: `compare`; ipvs_comparison: of mode ipvs
"""
