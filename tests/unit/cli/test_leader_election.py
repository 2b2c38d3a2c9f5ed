"""The options of leader election."""

from __future__ import annotations

import pytest

from bridgehead.cli.leader_election import LeaderElectionOptions, parse_election
from bridgehead.client import ElectionTimings
from bridgehead.objects.meta import ObjectKey


def test_the_defaults_are_those_of_kubernetes():
    one, two = (parse_election(LeaderElectionOptions(), "controllers", "kube-scheduler", "kube-system") for _ in "12")
    assert one is not None
    assert two is not None
    assert one.key == ObjectKey("kube-system", "kube-scheduler")
    assert one.timings == ElectionTimings(15.0, 10.0, 2.0)
    assert one.identity != two.identity


def test_without_an_election_nothing_is_checked():
    options = LeaderElectionOptions(leader_elect=False, leader_elect_retry_period="x")
    assert parse_election(options, "controllers", "a", "b") is None


def test_another_lease_and_other_times():
    options = LeaderElectionOptions(
        leader_elect_lease_duration="1m",
        leader_elect_renew_deadline="1500ms",
        leader_elect_retry_period="1s",
        leader_elect_resource_name="mine",
        leader_elect_resource_namespace="here",
    )
    election = parse_election(options, "controllers", "a", "b")
    assert election is not None
    assert election.key == ObjectKey("here", "mine")
    assert election.timings == ElectionTimings(60.0, 1.5, 1.0)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("lease_duration", "10s", "leaseDuration must be greater than renewDeadline"),
        ("retry_period", "x", "--leader-elect-retry-period: 'x' is not a duration such as 30s"),
        ("resource_lock", "endpoints", "--leader-elect-resource-lock: 'endpoints' is not supported, only leases"),
    ],
)
def test_options_that_cannot_be_obeyed_are_one_line(field, value, error, capsys):
    options = LeaderElectionOptions(**{f"leader_elect_{field}": value})
    with pytest.raises(SystemExit) as ended:
        parse_election(options, "controllers", "a", "b")
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1
