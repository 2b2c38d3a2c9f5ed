"""Lesson: environment variables of Services.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Question, Step, Text

LESSON = Lesson(
    name="variables",
    title=Text(en="Environment variables: the older service discovery", zh="环境变量：较早的服务发现方式"),
    steps=(
        Step(
            text=Text(
                en="The kubelet gives each container the addresses of the Services of its namespace, as environment"
                " variables.",
                zh="kubelet 会把同一命名空间里各个服务的 IP 与端口，以环境变量的方式传递给容器。",
            ),
            command="kubectl -n tour exec client -- sh -c 'env | grep ^WEB_ | sort'",
            expected=r"WEB_SERVICE_HOST=",
        ),
        Step(
            text=Text(
                en="That happens once, when the container starts. This Service is younger than the pod `client`:",
                zh="这只在容器启动时发生一次。下面的服务创建得比 Pod `client` 晚：",
            ),
            command="kubectl -n tour expose deployment web --name=late --port=80"
            " && kubectl -n tour exec client -- sh -c 'env | grep ^LATE_'",
            after=Text(en="There are no variables LATE_*.", zh="没有以 LATE_ 开头的环境变量。"),
            fails=True,
        ),
        Step(
            text=Text(en="The DNS knows it.", zh="但 DNS 能解析它。"),
            command="kubectl -n tour exec client -- wget -T 3 -qO- http://late",
            expected=r"ServerName",
            waits=True,
        ),
    ),
    question=Question(
        text=Text(
            en="What gives the client the variables of the Service `late`?",
            zh="怎样才能让客户端得到服务 `late` 的环境变量？",
        ),
        choices=(
            Choice(
                Text(en="Replacing the pod", zh="重建这个 Pod"),
                Text(
                    en="Right: Services have to exist before the pods that use their variables. Headless Services have"
                    " none at all. For both reasons, use the DNS.",
                    zh="正确：服务必须先于使用其环境变量的 Pod 创建，而且无头服务根本没有环境变量。因此推荐使用 DNS。",
                ),
            ),
            Choice(
                Text(en="Waiting for some seconds", zh="等待几秒钟"),
                Text(
                    en="No: the environment of a running process does not change.",
                    zh="不对：正在运行的进程，其环境变量不会改变。",
                ),
            ),
            Choice(
                Text(en="Another label on the pod", zh="给 Pod 加一个标签"),
                Text(
                    en="No: labels decide which pods a Service sends to, not which Services a pod knows.",
                    zh="不对：标签决定服务把流量转发给哪些 Pod，而不是 Pod 知道哪些服务。",
                ),
            ),
        ),
        right=0,
    ),
)
