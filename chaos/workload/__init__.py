"""Users of the lab during a run: clients of Services, writers, and the churn of Services and pods."""
