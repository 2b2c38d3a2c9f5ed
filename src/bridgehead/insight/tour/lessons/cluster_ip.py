"""Lesson: a cluster IP stands for pods whose addresses change.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Need, Question, Step, Text

LESSON = Lesson(
    name="cluster-ip",
    title=Text(en="ClusterIP: one address for many pods", zh="ClusterIP：一组 Pod 的统一访问入口"),
    steps=(
        Step(
            text=Text(
                en="Two pods run the same web server. Each has an address of its own, which is lost when the pod is"
                " replaced: no client can rely on it.",
                zh="两个 Pod 运行同一个 Web 服务器。每个 Pod 都有自己的 IP，但 Pod 重建后 IP 就会变化，"
                "客户端不能依赖它。",
            ),
            command="kubectl -n tour get pods -l app=web -o wide",
            expected=r"web-.*\d+\.\d+\.\d+\.\d+",
        ),
        Step(
            text=Text(
                en="A Service gives them one address that stays, the cluster IP. It was made by `kubectl expose"
                " deployment web --port=80`.",
                zh="服务（Service）为它们提供一个固定的虚拟 IP，即 ClusterIP。创建它的命令是 `kubectl expose"
                " deployment web --port=80`。",
            ),
            command="kubectl -n tour get service web",
            expected=r"web\s+ClusterIP\s+[\d.]+",
        ),
        Step(
            text=Text(
                en="A client in another pod calls the Service four times. ServerName is the pod that answered.",
                zh="另一个 Pod 里的客户端访问该服务四次。ServerName 是应答的 Pod。",
            ),
            command="kubectl -n tour exec client -- sh -c 'for i in 1 2 3 4; do wget -qO- http://@web_ip@; done'",
            after=Text(
                en="Each connection goes to a pod chosen at random. Compare ServerIP with the list of pods above.",
                zh="每个连接都随机转发到一个后端 Pod。可以将 ServerIP 与上面的 Pod 列表对照。",
            ),
            expected=r"(?s:.*ServerName){4}",
            waits=True,
        ),
        Step(
            text=Text(
                en="No process listens on the cluster IP. kube-proxy has written rules into the kernel of every node;"
                " these are the lines of one node, with their meaning.",
                zh="没有任何进程监听 ClusterIP。kube-proxy 在每个节点的内核里写入了规则；"
                "下面是某个节点上的规则和含义。",
            ),
            command="bridgehead rules service/web -n tour --node @node@",
            after=Text(
                en="The first packet of a connection is translated (DNAT) to the address and port of one pod; the"
                " kernel remembers the choice for all further packets.",
                zh="连接的第一个报文经 DNAT 被转换到某个 Pod 的 IP 和端口；内核会记住这个选择，后续报文都照此转发。",
            ),
            expected=r"tour/web",
            needs=frozenset({Need.LAB}),
        ),
        Step(
            text=Text(
                en="The whole way of one connection: the name, the rule, the translation, the route, and whether the"
                " pod listens. A real connection is made and followed through the kernel.",
                zh="一个连接的完整路径：名称、规则、地址转换、路由，以及 Pod 是否在监听。该命令会真的建立一个连接，"
                "并在内核里跟踪它。",
            ),
            command="bridgehead trace -n tour --from pod/client service/web",
            expected=r"tour/web",
            needs=frozenset({Need.LAB}),
        ),
    ),
    question=Question(
        text=Text(
            en="Which network interface has the cluster IP, in the modes iptables and nftables?",
            zh="在 iptables 和 nftables 模式下，ClusterIP 配置在哪个网络接口上？",
        ),
        choices=(
            Choice(
                Text(en="eth0 of every node", zh="每个节点的 eth0"),
                Text(
                    en="No: `ip address` on a node does not list it. The address only occurs in rules.",
                    zh="不对：在节点上执行 `ip address` 看不到它，这个地址只出现在规则里。",
                ),
            ),
            Choice(
                Text(en="None: only rules in the kernel know it", zh="没有：只有内核里的规则认识它"),
                Text(
                    en="Right. The mode ipvs is the exception: it adds the address to the interface kube-ipvs0, which"
                    " carries no traffic.",
                    zh="正确。ipvs 模式是个例外：它会把该地址加到 kube-ipvs0 接口上，但这个接口并不承载流量。",
                ),
            ),
            Choice(
                Text(en="eth0 of each pod of the Service", zh="该服务每个 Pod 的 eth0"),
                Text(
                    en="No: a pod has its own address only, and sees the packet after its translation.",
                    zh="不对：Pod 只有自己的 IP，它看到的是转换之后的报文。",
                ),
            ),
        ),
        right=1,
    ),
)
