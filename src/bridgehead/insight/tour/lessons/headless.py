"""Lesson: headless Services.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Need, Question, Step, Text

LESSON = Lesson(
    name="headless",
    title=Text(en="Headless Services: names without a cluster IP", zh="无头服务：没有 ClusterIP 的服务"),
    steps=(
        Step(
            text=Text(
                en="With clusterIP: None a Service has a name and endpoints, but no address of its own.",
                zh="设置 clusterIP: None 后，服务有名称和端点，但没有自己的入口 IP。",
            ),
            command="kubectl -n tour expose deployment web --name=web-headless --port=80 --cluster-ip=None"
            " && kubectl -n tour get service web-headless",
            expected=r"web-headless\s+ClusterIP\s+None",
        ),
        Step(
            text=Text(
                en="The DNS answers with the addresses of all ready pods.",
                zh="DNS 会返回所有就绪 Pod 的 IP，就好像有多条 A 记录。",
            ),
            command="kubectl -n tour exec client -- nslookup web-headless.tour.svc.cluster.local",
            expected=r"(?s:.*Name:\s+web-headless){2}",
            waits=True,
        ),
        Step(
            text=Text(
                en="The kernel has no rule for it.",
                zh="内核里没有它的规则。",
            ),
            command="bridgehead rules service/web-headless -n tour --node @node@",
            expected=r"no rule",
            needs=frozenset({Need.LAB}),
        ),
    ),
    question=Question(
        text=Text(
            en="Who decides which pod a client of a headless Service connects to?",
            zh="访问无头服务时，由谁决定连接哪个 Pod？",
        ),
        choices=(
            Choice(
                Text(en="kube-proxy", zh="kube-proxy"),
                Text(
                    en="No: without a cluster IP there is nothing for kube-proxy to translate.",
                    zh="不对：没有 ClusterIP，kube-proxy 就没有什么可转换的，也就没有负载均衡。",
                ),
            ),
            Choice(
                Text(en="The client, from the addresses of the answer", zh="客户端，从解析到的地址中选择"),
                Text(
                    en="Right: databases and StatefulSets use it, whose pods are not interchangeable, and clients with"
                    " a load balancing of their own.",
                    zh="正确：数据库和 StatefulSet 会用到它，因为它们的 Pod 不能互相替代；自带负载均衡的客户端也用它。",
                ),
            ),
            Choice(
                Text(en="The kubelet of the client's node", zh="客户端所在节点的 kubelet"),
                Text(en="No: the kubelet has no part in connections.", zh="不对：kubelet 不参与连接的转发。"),
            ),
        ),
        right=1,
    ),
)
