from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.dashboard.history import HELD_STEPS, History


def test_figures_are_held_for_a_while():
    history = History(step=2.0, points=100)
    history.record("a", 0.0, 1.0)
    history.record("a", 40.0, 2.0)
    times, [values] = history.read(["a"], 41.0)
    assert times[0] == 0.0
    assert times[-1] == 40.0
    assert values[: HELD_STEPS + 1] == [1.0] * (HELD_STEPS + 1)
    assert values[HELD_STEPS + 1 : -1] == [None] * (20 - HELD_STEPS - 1)
    assert values[-1] == 2.0


def test_series_have_the_same_times():
    history = History()
    history.record("a", 100.0, 1.0)
    history.record("b", 104.0, 2.0)
    times, columns = history.read(["a", "b", "none"], 104.0)
    assert [len(column) for column in columns] == [len(times)] * 3 == [3, 3, 3]
    assert columns[1] == [None, None, 2.0]
    assert columns[2] == [None, None, None]


def test_without_figures_there_are_no_times():
    assert History().read(["a"], 5.0) == ([], [[]])


def test_the_series_that_changed_least_recently_is_forgotten():
    history = History(series=2)
    for name in ("a", "b", "a", "c"):
        history.record(name, 10.0, 1.0)
    assert history.read(["b"], 10.0) == ([], [[]])
    assert history.read(["a"], 10.0)[1] == [[1.0]]


@given(st.lists(st.tuples(st.floats(0, 1e6), st.one_of(st.none(), st.floats(0, 1e9))), max_size=60), st.floats(0, 1e6))
def test_any_figures_give_columns_of_one_length_that_are_bounded(figures, now):
    history = History(points=20)
    for at, value in figures:
        history.record("a", at, value)
    times, [values] = history.read(["a"], now)
    assert len(times) == len(values) <= 20
    assert times == sorted(times)
