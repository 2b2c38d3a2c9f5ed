"""The tour's own texts, in both languages.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from .lesson import Need, Text

WELCOME = Text(
    en="A tour of Kubernetes Services, in the cluster of {cluster}. It works in the namespace `tour`, which is deleted"
    " at the end. In another terminal you can try commands of your own: {environment}",
    zh="Kubernetes 服务入门，在{cluster}的集群中进行。所有操作都在命名空间 `tour` 里，结束时会删除它。"
    "可以在另一个终端里自己试一试：{environment}",
)
LAB = Text(en='the lab "{name}"', zh="实验环境 “{name}” ")
OTHER_CLUSTER = Text(en="{file}", zh=" {file} ")
PREPARING = Text(
    en="Preparing: a Deployment of two pods, its Service, and a pod for the client.",
    zh="准备：一个包含两个 Pod 的 Deployment、它的服务，以及一个作为客户端的 Pod。",
)
LESSON = Text(en="Lesson {number} of {count}: {title}", zh="第 {number} 课（共 {count} 课）：{title}")
RUN = Text(en="Enter runs it, n goes to the next lesson, q quits: ", zh="回车执行，n 进入下一课，q 退出： ")
ANSWER = Text(en="Your answer (1-{count}; Enter skips): ", zh="请选择（1-{count}；直接回车跳过）： ")
QUESTION = Text(en="Question: {question}", zh="问题：{question}")
SKIPPED = Text(en="Skipped: {reason}", zh="跳过：{reason}")
SKIPPED_SUMMARY = Text(en="What this cluster or machine lacks:", zh="当前集群或机器缺少：")
UNEXPECTED = Text(
    en="This is not what the lesson promised: the command failed, or printed something else (exit code {code}).",
    zh="结果与本课的预期不符：命令失败，或输出不同（退出码 {code}）。",
)
RIGHT_ANSWERS = Text(en="Right at the first try: {right} of {asked}.", zh="一次答对：{right} / {asked}。")
END = Text(en="That was the tour.", zh="课程到此结束。")
REMOVING = Text(en="Deleting the namespace `tour` ...", zh="正在删除命名空间 `tour` ……")
REMOVING_LAB = Text(en='Removing the lab "{name}" ...', zh="正在删除实验环境 “{name}” ……")
START_LAB = Text(
    en='No lab is running. Start one called "{name}" for the tour? [Y/n] ',
    zh="没有正在运行的实验环境。为本教程启动一个名为 “{name}” 的实验环境吗？[Y/n] ",
)
STARTING_LAB = Text(en='Starting the lab "{name}" ...', zh="正在启动实验环境 “{name}” ……")
REMOVE_LAB = Text(
    en='Remove the lab "{name}", which the tour started? [Y/n] ', zh="删除本教程启动的实验环境 “{name}” 吗？[Y/n] "
)
CONFIRM_CLUSTER = Text(
    en="The tour creates the namespace `tour` in the cluster of {file}, and deletes it at the end. Go on? [y/N] ",
    zh="本教程会在 {file} 的集群中创建命名空间 `tour`，并在结束时删除。继续吗？[y/N] ",
)

MISSING: dict[Need, Text] = {
    Need.LAB: Text(
        en="commands in the network of nodes, which only a lab has", zh="在节点网络里执行的命令，只有实验环境才支持"
    ),
    Need.BALANCER: Text(
        en="a load balancer (`bridgehead up --balancer`)", zh="负载均衡器（`bridgehead up --balancer`）"
    ),
    Need.EMPTY_NODE: Text(en="a node without a pod of `web`", zh="没有运行 `web` Pod 的节点"),
    Need.WARNINGS: Text(
        en="Bridgehead's controllers, which warn of Services in trouble",
        zh="Bridgehead 的控制器，由它对有问题的服务发出警告",
    ),
    Need.CURL: Text(en="the program curl", zh="程序 curl"),
}
