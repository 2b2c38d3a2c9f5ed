"""Lesson: traffic policies.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Need, Question, Step, Text

_LAB = frozenset({Need.LAB, Need.CURL})

LESSON = Lesson(
    name="policies",
    title=Text(en="Traffic policies: Cluster and Local", zh="流量策略：Cluster 与 Local"),
    steps=(
        Step(
            text=Text(
                en="externalTrafficPolicy: Local keeps connections from outside on the node that they reach: only its"
                " own pods get them.",
                zh="externalTrafficPolicy: Local 表示来自集群外部的连接只由它到达的节点处理：只转发给本节点上的 Pod。",
            ),
            command="kubectl -n tour expose deployment web --name=web-local --port=80 --type=NodePort"
            ' && kubectl -n tour patch service web-local -p \'{"spec":{"externalTrafficPolicy":"Local"}}\'',
            expected=r"web-local patched",
        ),
        Step(
            text=Text(
                en="A node with a pod answers. Look at ClientIP: the source address is not translated.",
                zh="有 Pod 的节点能够应答。注意 ClientIP：源地址没有被转换。",
            ),
            command="bridgehead exec -- curl -sS -m 5 http://@pod_node_ip@:@local_port@",
            after=Text(
                en="This is the client itself: the lab's own address, which ends in 1. With the policy Cluster it was"
                " a node's.",
                zh="以 1 结尾的实验环境自身的地址，就是客户端的真实 IP。在 Cluster 策略下，看到的是节点的地址。",
            ),
            expected=r"ClientIP: \S*[.:]1,",
            waits=True,
            needs=_LAB,
        ),
        Step(
            text=Text(en="A node without a pod drops the packets.", zh="没有 Pod 的节点会丢弃报文。"),
            command="bridgehead exec -- curl -sS -m 2 http://@empty_node_ip@:@local_port@",
            after=Text(
                en="This is the usual cause of a node port that works on some nodes only.",
                zh="NodePort 在有的节点上通、有的节点上不通，常常就是这个原因。",
            ),
            fails=True,
            needs=_LAB | {Need.EMPTY_NODE},
        ),
        Step(
            text=Text(
                en="`trace` finds the place where it ended, and why.", zh="`trace` 可以找出它在哪里中断，以及为什么。"
            ),
            command="bridgehead trace -n tour --from outside @empty_node_ip@:@local_port@",
            expected=r"Local",
            fails=True,
            needs=frozenset({Need.LAB, Need.EMPTY_NODE}),
        ),
        Step(
            text=Text(
                en="internalTrafficPolicy is the same for clients inside the cluster. Its default is Cluster.",
                zh="internalTrafficPolicy 对集群内部的客户端起同样的作用，默认值是 Cluster。",
            ),
            command="kubectl -n tour get services"
            " -o custom-columns=NAME:.metadata.name,EXTERNAL:.spec.externalTrafficPolicy,"
            "INTERNAL:.spec.internalTrafficPolicy",
            expected=r"web-local\s+Local\s+Cluster",
        ),
    ),
    question=Question(
        text=Text(
            en="Why do load balancers often use externalTrafficPolicy: Local?",
            zh="为什么负载均衡器经常配合 externalTrafficPolicy: Local 使用？",
        ),
        choices=(
            Choice(
                Text(en="It spreads connections more evenly over the pods", zh="连接在各个 Pod 之间分配得更均匀"),
                Text(
                    en="No: rather less, if nodes have different numbers of pods.",
                    zh="不对：如果各节点上的 Pod 数量不同，反而更不均匀。",
                ),
            ),
            Choice(
                Text(en="Node ports become unnecessary", zh="不再需要节点端口"),
                Text(
                    en="No: that is allocateLoadBalancerNodePorts.",
                    zh="不对：那是 allocateLoadBalancerNodePorts 的作用。",
                ),
            ),
            Choice(
                Text(
                    en="Pods see the client's address, and a hop is saved", zh="Pod 能看到客户端真实 IP，并且少一次转发"
                ),
                Text(
                    en="Right. The load balancer asks each node (healthCheckNodePort) whether it has pods, and avoids"
                    " those without.",
                    zh="正确。负载均衡器通过 healthCheckNodePort 查询每个节点是否有 Pod，并绕开没有 Pod 的节点。",
                ),
            ),
        ),
        right=2,
    ),
)
