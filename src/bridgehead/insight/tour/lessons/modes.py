"""Lesson: the modes of the service proxy.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Need, Question, Step, Text

_LAB = frozenset({Need.LAB})
_RULES = "bridgehead rules service/web -n tour --node @node@ --mode"

LESSON = Lesson(
    name="modes",
    title=Text(en="Proxy modes: the same Service in other rules", zh="代理模式：同一个服务，不同的规则"),
    steps=(
        Step(
            text=Text(
                en="The mode of the service proxy is a setting of the whole cluster, in the ConfigMap kube-proxy.",
                zh="服务代理的模式是整个集群的设置，保存在 ConfigMap kube-proxy 里。",
            ),
            command="kubectl -n kube-system get configmap kube-proxy -o yaml | grep mode:",
            after=Text(
                en="The tour does not change it: `--mode` shows the rules that another mode would write.",
                zh="本教程不会修改它：用 `--mode` 可以查看其他模式会写入的规则。",
            ),
            expected=r"mode:",
            needs=_LAB,
        ),
        Step(
            text=Text(
                en="iptables: a chain for each Service, KUBE-SVC-*, which jumps to the chain of an endpoint,"
                " KUBE-SEP-*, by probability.",
                zh="iptables：每个服务一条 KUBE-SVC-* 链，按概率（statistic 模块）跳转到各个端点的 KUBE-SEP-* 链，再做"
                " DNAT。",
            ),
            command=f"{_RULES} iptables | grep -F tour/web:",
            expected=r"KUBE-SVC-\w+[\s\S]*KUBE-SEP-\w+",
            needs=_LAB,
        ),
        Step(
            text=Text(
                en="ipvs: a virtual server for the cluster IP, with a real server for each endpoint. All cluster IPs"
                " are on the interface kube-ipvs0.",
                zh="ipvs：ClusterIP 对应一个虚拟服务器，每个端点是一个 RealServer。所有 ClusterIP 都配置在 kube-ipvs0"
                " 接口上。",
            ),
            command=f"{_RULES} ipvs",
            expected=r"TCP +[\d.]+:80 rr[\s\S]*kube-ipvs0",
            needs=_LAB,
        ),
        Step(
            text=Text(
                en="nftables: chains that all Services share, and an element of a map for each Service and endpoint.",
                zh="nftables：所有服务共用的链，每个服务和端点只是 map 里的一个元素。",
            ),
            command=f"{_RULES} nftables | grep -F @web_ip@",
            expected=r"[\d.]+ \. tcp \. 80",
            needs=_LAB,
        ),
    ),
    question=Question(
        text=Text(
            en="A cluster has 10,000 Services. In which mode does the first packet of a connection pass a long list of"
            " rules?",
            zh="集群里有 10000 个服务。在哪种模式下，连接的第一个报文要逐条匹配很长的规则列表？",
        ),
        choices=(
            Choice(
                Text(en="iptables", zh="iptables"),
                Text(
                    en="Right: KUBE-SERVICES has a rule for each Service, compared one after the other. ipvs looks"
                    " into a hash table, nftables into a map.",
                    zh="正确：KUBE-SERVICES 链里每个服务都有规则，要一条一条地匹配。ipvs 查哈希表，nftables 查 map。",
                ),
            ),
            Choice(
                Text(en="ipvs", zh="ipvs"),
                Text(
                    en="No: it finds the virtual server in a hash table, however many there are.",
                    zh="不对：它在哈希表里查找虚拟服务器，与数量无关。",
                ),
            ),
            Choice(
                Text(en="nftables", zh="nftables"),
                Text(
                    en="No: it finds the Service in a map, with one lookup.", zh="不对：它在 map 里查找服务，一次就够。"
                ),
            ),
        ),
        right=0,
    ),
)
