"""The measurements of `make bench`. Each module has `run()`, which returns rows (what, value) for the table."""
