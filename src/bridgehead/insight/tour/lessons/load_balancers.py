"""Lesson: Services of type LoadBalancer.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Need, Question, Step, Text

_BALANCER = frozenset({Need.BALANCER})

LESSON = Lesson(
    name="load-balancers",
    title=Text(en="LoadBalancer: an address for clients outside", zh="LoadBalancer：供外部访问的地址"),
    steps=(
        Step(
            text=Text(
                en="Type LoadBalancer is NodePort and an external address. A cloud gives it; elsewhere MetalLB,"
                " OpenELB or, in a lab, Bridgehead's balancer does.",
                zh="LoadBalancer 建立在 NodePort 之上，再加一个外部地址。公有云会分配它；在私有环境里由 MetalLB、"
                "OpenELB 分配，实验环境里则由 Bridgehead 的 balancer 分配。",
            ),
            command="kubectl -n tour expose deployment web --name=web-lb --port=80 --type=LoadBalancer",
            expected=r"web-lb exposed",
        ),
        Step(
            text=Text(
                en="EXTERNAL-IP is `<pending>` until the balancer has assigned an address.",
                zh="在分配地址之前，EXTERNAL-IP 显示为 `<pending>`。",
            ),
            command="kubectl -n tour get service web-lb",
            expected=r"web-lb\s+LoadBalancer\s+\S+\s+[\d.]+\s",
            waits=True,
            needs=_BALANCER,
        ),
        Step(
            text=Text(en="A client outside of the nodes uses it:", zh="节点之外的客户端访问它："),
            command="bridgehead exec -- curl -sS -m 5 http://@external_ip@",
            expected=r"ServerName",
            waits=True,
            needs=_BALANCER | {Need.LAB, Need.CURL},
        ),
        Step(
            text=Text(
                en="One node announces the address: it answers the ARP requests for it (layer 2).",
                zh="其中一个节点通告这个地址：由它应答对该地址的 ARP 请求（Layer2 模式）。",
            ),
            command="bridgehead balancer status",
            after=Text(
                en="If this node fails, another one takes over the address. With BGP, routers would spread the"
                " connections over several nodes.",
                zh="如果该节点故障，其他节点会接管这个地址。使用 BGP 模式时，路由器可以把连接分散到多个节点。",
            ),
            expected=r"tour/web-lb",
            needs=_BALANCER | {Need.LAB},
        ),
    ),
    question=Question(
        text=Text(
            en="In a new cluster, EXTERNAL-IP stays `<pending>`. What is the most common cause?",
            zh="在新建的集群里，EXTERNAL-IP 一直是 `<pending>`，最常见的原因是什么？",
        ),
        choices=(
            Choice(
                Text(en="No pod is ready", zh="没有就绪的 Pod"),
                Text(en="No: an address is assigned without any pod.", zh="不对：即使没有 Pod，也会分配地址。"),
            ),
            Choice(
                Text(en="Nothing in the cluster assigns addresses", zh="集群里没有分配地址的组件"),
                Text(
                    en="Right: Kubernetes has no load balancer of its own. `kubectl describe service` shows an Event"
                    " with the reason. The node port works meanwhile.",
                    zh="正确：Kubernetes 本身没有负载均衡器。`kubectl describe service` 会在 Events 里显示原因。"
                    "在此期间仍可以使用节点端口。",
                ),
            ),
            Choice(
                Text(en="The DNS does not run", zh="DNS 没有运行"),
                Text(en="No: addresses have nothing to do with the DNS.", zh="不对：地址分配与 DNS 无关。"),
            ),
        ),
        right=1,
    ),
)
