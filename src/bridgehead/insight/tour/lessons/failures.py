"""Lesson: a Service that does not work, and the way to its cause.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.insight.tour.lesson import Choice, Lesson, Need, Question, Step, Text

LESSON = Lesson(
    name="failures",
    title=Text(en="When it does not work", zh="服务不通时怎么办"),
    steps=(
        Step(
            text=Text(
                en="A Service with a mistake: the selector should be app=web.",
                zh="下面的服务有一个错误：标签选择器本应是 app=web。",
            ),
            command="kubectl -n tour expose deployment web --name=broken --port=80 --selector=app=wbe",
            expected=r"broken exposed",
        ),
        Step(
            text=Text(en="The name is resolved, and the connection fails.", zh="名称可以解析，但连接失败。"),
            command="kubectl -n tour exec client -- wget -T 3 -qO- http://broken",
            after=Text(
                en="`Connection refused` at a cluster IP means: the Service has no endpoint.",
                zh="访问 ClusterIP 时出现 `Connection refused`，说明该服务没有端点。",
            ),
            expected=r"refused",
            waits=True,
            fails=True,
        ),
        Step(
            text=Text(
                en="Look at the endpoints first, then compare the selector with the labels of the pods.",
                zh="首先查看端点，然后把标签选择器与 Pod 的标签进行对照。",
            ),
            command="kubectl -n tour get endpointslices -l kubernetes.io/service-name=broken"
            " && kubectl -n tour get service broken -o wide && kubectl -n tour get pods --show-labels",
            expected=r"<unset>[\s\S]*app=wbe[\s\S]*app=web",
        ),
        Step(
            text=Text(
                en="After ten seconds, the Service has an Event with the cause and the fix.",
                zh="十秒钟后，该服务的 Events 里会出现原因和解决办法。",
            ),
            command="kubectl -n tour get events --field-selector reason=SelectorMatchesNothing"
            " -o custom-columns=REASON:.reason,MESSAGE:.message",
            expected=r"SelectorMatchesNothing",
            waits=True,
            needs=frozenset({Need.WARNINGS}),
        ),
        Step(
            text=Text(
                en="`bridgehead doctor` compares further: it names the label that is nearly right, and the command"
                " that repairs it.",
                zh="`bridgehead doctor` 会进一步比较：指出只差一点的标签，并给出修复命令。",
            ),
            command="bridgehead doctor -n tour service/broken",
            expected=r"broken[\s\S]*app=web",
            fails=True,
        ),
        Step(
            text=Text(en="The fix:", zh="修复："),
            command="kubectl -n tour set selector service broken app=web",
            expected=r"selector updated",
        ),
        Step(
            text=Text(en="It works, and the Event is gone soon.", zh="恢复正常，上面的事件很快也会消失。"),
            command="kubectl -n tour exec client -- wget -T 3 -qO- http://broken",
            expected=r"ServerName",
            waits=True,
        ),
    ),
    question=Question(
        text=Text(
            en="A connection to a cluster IP is refused at once. What do you look at first?",
            zh="访问 ClusterIP 时连接立即被拒绝，首先应该检查什么？",
        ),
        choices=(
            Choice(
                Text(en="The endpoints of the Service", zh="服务的端点"),
                Text(
                    en="Right: without ready endpoints kube-proxy rejects connections. Mostly the selector is wrong,"
                    " or the pods are not ready.",
                    zh="正确：没有就绪的端点时，kube-proxy 会拒绝连接。多数情况是标签选择器写错，或 Pod 没有就绪。",
                ),
            ),
            Choice(
                Text(en="The DNS", zh="DNS"),
                Text(
                    en="No: the name was resolved already. If it were not, the error would be about the name.",
                    zh="不对：名称已经解析成功了；否则报错会是关于名称的。",
                ),
            ),
            Choice(
                Text(en="The routes of the node", zh="节点的路由"),
                Text(
                    en="No: a missing route is a time-out or `No route to host`.",
                    zh="不对：路由有问题时会超时，或者提示 `No route to host`。",
                ),
            ),
        ),
        right=0,
    ),
)
