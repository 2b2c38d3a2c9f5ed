"""Lesson: ExternalName.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Question, Step, Text

LESSON = Lesson(
    name="external-name",
    title=Text(en="ExternalName: another name in the DNS", zh="ExternalName：DNS 里的别名"),
    steps=(
        Step(
            text=Text(
                en="A Service of type ExternalName stands for a name, usually one outside of the cluster. Here it is"
                " that of the Service web, since a lab has no names from outside.",
                zh="ExternalName 类型的服务代表一个域名，通常在集群外部。实验环境里没有外部域名，所以这里用服务 web"
                " 的域名。",
            ),
            command="kubectl -n tour create service externalname alias --external-name=web.tour.svc.cluster.local"
            " && kubectl -n tour get service alias",
            after=Text(
                en="It has no cluster IP, no selector and no endpoints.",
                zh="它没有 ClusterIP，没有标签选择器，也没有端点。",
            ),
            expected=r"alias\s+ExternalName\s+<none>\s+web\.tour",
        ),
        Step(
            text=Text(en="The DNS answers with a CNAME record.", zh="DNS 返回一条 CNAME 记录。"),
            command="kubectl -n tour exec client -- nslookup alias.tour.svc.cluster.local",
            expected=r"canonical name = web\.tour\.svc\.cluster\.local",
            waits=True,
        ),
        Step(
            text=Text(
                en="The client follows it and connects to the address that the other name has.",
                zh="客户端沿着它继续解析，并连接到目标域名对应的地址。",
            ),
            command="kubectl -n tour exec client -- wget -T 3 -qO- http://alias",
            expected=r"ServerName",
            waits=True,
        ),
    ),
    question=Question(
        text=Text(
            en="An ExternalName Service has `port: 8080`, and the external server listens on 80. What happens?",
            zh="ExternalName 服务写了 `port: 8080`，而外部服务器监听 80 端口，会怎样？",
        ),
        choices=(
            Choice(
                Text(en="kube-proxy translates 8080 to 80", zh="kube-proxy 把 8080 转换为 80"),
                Text(en="No: there are no rules at all for it.", zh="不对：它根本没有规则，不做流量转发。"),
            ),
            Choice(
                Text(en="The API server rejects the Service", zh="API Server 拒绝创建该服务"),
                Text(en="No: the port is accepted, and has no effect.", zh="不对：可以写端口，只是不起作用。"),
            ),
            Choice(
                Text(en="The client has to use port 80", zh="客户端必须使用 80 端口"),
                Text(
                    en="Right: a CNAME is only a name. A certificate, or a virtual host, also has to fit the name that"
                    " the client used.",
                    zh="正确：CNAME 只在 DNS 层起作用。另外，TLS 证书和虚拟主机也必须与客户端使用的域名一致。",
                ),
            ),
        ),
        right=2,
    ),
)
