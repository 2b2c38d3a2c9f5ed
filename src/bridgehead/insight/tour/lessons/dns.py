"""Lesson: names of Services.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Question, Step, Text

LESSON = Lesson(
    name="dns",
    title=Text(en="DNS: Services have names", zh="DNS：通过名称访问服务"),
    steps=(
        Step(
            text=Text(
                en="The cluster's DNS is a Service, too. It watches the API and has a name for each Service:"
                " NAME.NAMESPACE.svc.cluster.local.",
                zh="集群的 DNS 本身也是一个服务。它监视 API，为每个服务提供一个域名："
                "服务名.命名空间.svc.cluster.local。",
            ),
            command="kubectl -n tour exec client -- nslookup web.tour.svc.cluster.local",
            after=Text(
                en="The answer is the cluster IP. It stays the same when pods come and go, so clients may keep it.",
                zh="解析结果是 ClusterIP。Pod 增减时它不变，所以客户端可以缓存它。",
            ),
            expected=r"web\.tour\.svc\.cluster\.local",
            waits=True,
        ),
        Step(
            text=Text(
                en="Programs write shorter names. The kubelet gives each pod a search list, beginning with its own"
                " namespace.",
                zh="程序里通常写更短的名称。kubelet 为每个 Pod 设置了搜索域，第一个就是 Pod 自己的命名空间。",
            ),
            command="kubectl -n tour exec client -- cat /etc/resolv.conf",
            after=Text(
                en="A name with fewer dots than ndots is tried with each suffix of the list first.",
                zh="点的个数少于 ndots 的名称，会先依次加上各个搜索域进行查询。",
            ),
            expected=r"search tour\.svc",
        ),
        Step(
            text=Text(en="So the name of the Service is enough here.", zh="所以在这里只写服务名就够了。"),
            command="kubectl -n tour exec client -- wget -qO- http://web",
            expected=r"ServerName",
            waits=True,
        ),
        Step(
            text=Text(
                en="A short name means a Service of the same namespace. There is no `kubernetes` in `tour`.",
                zh="短名称只表示同一命名空间里的服务。命名空间 `tour` 里没有 `kubernetes` 这个服务。",
            ),
            command="kubectl -n tour exec client -- wget -T 3 -qO- http://kubernetes",
            after=Text(
                en="With its namespace, `kubernetes.default`, it would be found.",
                zh="加上命名空间，写成 `kubernetes.default`，就能找到。",
            ),
            fails=True,
        ),
    ),
    question=Question(
        text=Text(
            en="A pod in the namespace `shop` wants to call the Service `web` of the namespace `tour`. Which name"
            " works?",
            zh="命名空间 `shop` 里的 Pod 要访问命名空间 `tour` 里的服务 `web`，应该用哪个名称？",
        ),
        choices=(
            Choice(
                Text(en="web", zh="web"),
                Text(
                    en="No: that is a Service `web` in `shop`, if there is one.",
                    zh="不对：那是 `shop` 里名为 `web` 的服务。",
                ),
            ),
            Choice(
                Text(en="tour.web", zh="tour.web"),
                Text(
                    en="No: the name of the Service comes first, as in web.tour.svc.cluster.local.",
                    zh="不对：服务名在前，例如 web.tour.svc.cluster.local。",
                ),
            ),
            Choice(
                Text(en="web.tour", zh="web.tour"),
                Text(
                    en="Right: with the suffix svc.cluster.local of the search list it becomes the full name.",
                    zh="正确：加上搜索域 svc.cluster.local 就成为完整的域名。",
                ),
            ),
        ),
        right=2,
    ),
)
