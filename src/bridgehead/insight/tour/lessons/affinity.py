"""Lesson: session affinity.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Need, Question, Step, Text

LESSON = Lesson(
    name="affinity",
    title=Text(en="Session affinity: a client keeps its pod", zh="会话保持：同一个客户端总是访问同一个 Pod"),
    steps=(
        Step(
            text=Text(
                en="With sessionAffinity: ClientIP, connections of one client address go to one pod. A client that was"
                " away for three hours (10800 s) is assigned anew.",
                zh="设置 sessionAffinity: ClientIP 后，来自同一个客户端 IP 的连接总是转发到同一个 Pod。超过 3"
                " 小时（10800 秒）没有访问，才会重新调度。",
            ),
            command="kubectl -n tour expose deployment web --name=web-sticky --port=80 --session-affinity=ClientIP"
            " && kubectl -n tour get service web-sticky"
            " -o jsonpath='{.spec.sessionAffinity}, {.spec.sessionAffinityConfig.clientIP.timeoutSeconds} "
            's{"\\n"}\'',
            expected=r"ClientIP, 10800 s",
        ),
        Step(
            text=Text(en="Four connections, one ServerName:", zh="四个连接，同一个 ServerName："),
            command="kubectl -n tour exec client -- sh -c 'for i in 1 2 3 4; do wget -qO- http://web-sticky; done'",
            expected=r"ServerName: (\S+),(?s:.*?ServerName: \1,){3}",
            waits=True,
        ),
        Step(
            text=Text(
                en="The kernel of the client's node remembers the client and its pod. The connections that it still"
                " knows are all at one backend.",
                zh="客户端所在节点的内核记住了客户端和它对应的 Pod。从内核仍记录着的连接可以看到，"
                "它们都在同一个后端上。",
            ),
            command="bridgehead flows service/web-sticky -n tour",
            expected=r"web-sticky",
            needs=frozenset({Need.LAB}),
        ),
    ),
    question=Question(
        text=Text(
            en="A thousand users share one NAT router. How are their connections spread?",
            zh="一千个用户共用一台 NAT 路由器，他们的连接会怎样分配？",
        ),
        choices=(
            Choice(
                Text(en="Evenly: each user has a session", zh="平均分配：每个用户有自己的会话"),
                Text(
                    en="No: a Service works on addresses and ports, and knows no users or cookies.",
                    zh="不对：服务工作在四层，只认 IP 和端口，不认用户或 Cookie。",
                ),
            ),
            Choice(
                Text(en="All go to one pod", zh="全部转发到同一个 Pod"),
                Text(
                    en="Right: they have one source address. That is why this affinity is used with care.",
                    zh="正确：它们的源 IP 相同，会被识别为同一个客户端，调度效果不佳，所以要谨慎使用。",
                ),
            ),
            Choice(
                Text(en="By the source port", zh="按源端口分配"),
                Text(
                    en="No: the source port plays no part in ClientIP affinity.",
                    zh="不对：ClientIP 方式的会话保持与源端口无关。",
                ),
            ),
        ),
        right=1,
    ),
)
