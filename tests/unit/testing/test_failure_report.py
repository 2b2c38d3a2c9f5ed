from bridgehead.testing.failure_report import bounded, logs_of, render_events, render_pod


def event(number, **fields):
    time = f"2026-01-01T10:{number:02}:00Z"
    involved = {"kind": "Pod", "name": f"p{number}"}
    return {
        "metadata": {},
        "type": "Warning",
        "reason": "BackOff",
        "involvedObject": involved,
        "lastTimestamp": time,
    } | fields


def test_events_are_in_the_order_of_their_times():
    events = [event(2, message="two\nlines", count=3), event(1, lastTimestamp=None, eventTime="2026-01-01T10:01:00.5Z")]
    assert list(render_events(events)) == [
        "10:01:00 Warning BackOff pod/p1: ",
        "10:02:00 Warning BackOff pod/p2: two lines (x3)",
    ]


def test_the_last_events_are_shown():
    first, *others = render_events([event(number) for number in range(40)])
    assert first == "(10 earlier ones)"
    assert len(others) == 30
    assert "pod/p39:" in others[-1]


def pod(*states, node="node1", phase="Running"):
    statuses = [
        {"name": f"c{number}", "ready": "running" in state, "restartCount": restarts, "state": state}
        for number, (state, restarts) in enumerate(states)
    ]
    return {
        "metadata": {"name": "web"},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


def test_pods():
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    shown = render_pod(pod(({"running": {}}, 0), (waiting, 4)))
    assert shown == "web: Running (CrashLoopBackOff), 1 of 2 ready, 4 restarts, on node1"
    assert render_pod({"metadata": {"name": "new"}}) == "new: Unknown, 0 of 0 ready, 0 restarts, on no node"


def test_logs_are_of_containers_that_ran():
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert list(logs_of(pod(({"running": {}}, 0), (waiting, 4), ({"terminated": {}}, 1)))) == [
        ("c0", False),
        ("c1", True),
        ("c2", True),
        ("c2", False),
    ]
    assert list(logs_of({"metadata": {}})) == []


def test_the_text_is_bounded():
    assert bounded("short") == "short"
    assert len(bounded("x" * 1_000_000)) < 21_000
    assert bounded("x" * 20_005).endswith("(5 characters more)")
