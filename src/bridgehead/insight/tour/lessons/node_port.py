"""Lesson: a node port opens a Service on every node.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Need, Question, Step, Text

_LAB = frozenset({Need.LAB, Need.CURL})

LESSON = Lesson(
    name="node-port",
    title=Text(en="NodePort: the same port on every node", zh="NodePort：所有节点上的同一个端口"),
    steps=(
        Step(
            text=Text(
                en="A cluster IP works inside the cluster only. Type NodePort adds a port, from 30000 to 32767, at the"
                " addresses of all nodes.",
                zh="ClusterIP 只能在集群内部访问。NodePort 类型会在所有节点的地址上再开放一个端口，范围是"
                " 30000~32767。",
            ),
            command="kubectl -n tour expose deployment web --name=web-node --port=80 --type=NodePort"
            " && kubectl -n tour get service web-node",
            expected=r"web-node\s+NodePort.*80:\d+/TCP",
        ),
        Step(
            text=Text(
                en="A client outside of the nodes calls each node.",
                zh="节点之外的客户端依次访问每个节点。",
            ),
            command="for node in @node_ips@; do bridgehead exec -- curl -sS -m 5 http://$node:@node_port@; done",
            after=Text(
                en="Every node answers, also nodes without a pod of the Service. ClientIP, whom the pod sees as its"
                " client, is the node and not the client itself.",
                zh="每个节点都能应答，包括没有该服务 Pod 的节点。ClientIP 是 Pod 看到的客户端，它是节点的地址，而不是"
                "客户端自己的地址。",
            ),
            expected=r"ServerName",
            waits=True,
            needs=_LAB,
        ),
        Step(
            text=Text(
                en="The rules of one node that lead from the port to the Service:",
                zh="某个节点上从该端口通往服务的规则：",
            ),
            command="bridgehead rules service/web-node -n tour --node @node@",
            expected=r"tour/web-node",
            needs=frozenset({Need.LAB}),
        ),
    ),
    question=Question(
        text=Text(
            en="Why does the pod see the node's address as its client?", zh="为什么 Pod 看到的客户端地址是节点的地址？"
        ),
        choices=(
            Choice(
                Text(en="So that its reply comes back through the same node", zh="为了让应答经由同一个节点返回"),
                Text(
                    en="Right: the node also translates the source (SNAT). The pod, maybe on another node, answers to"
                    " it, and it translates the reply back. externalTrafficPolicy: Local avoids that.",
                    zh="正确：节点同时转换了源地址（SNAT）。Pod 可能在另一个节点上，它把应答发回给该节点，"
                    "由该节点转换回去。externalTrafficPolicy: Local 可以避免这一点。",
                ),
            ),
            Choice(
                Text(en="The pod cannot have connections from outside", zh="Pod 不能接受来自外部的连接"),
                Text(
                    en="No: with externalTrafficPolicy: Local it sees the client's own address.",
                    zh="不对：设置 externalTrafficPolicy: Local 后，它能看到客户端的真实 IP。",
                ),
            ),
            Choice(
                Text(en="A proxy process on the node accepts the connection", zh="节点上的代理进程接受了连接"),
                Text(
                    en="No, only in the old mode userspace: in the others the kernel forwards the packets.",
                    zh="不对，只有旧的 userspace 模式是这样：其他模式都由内核直接转发报文。",
                ),
            ),
        ),
        right=0,
    ),
)
