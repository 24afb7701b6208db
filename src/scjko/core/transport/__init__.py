"""Transport: couplings of consecutive snapshots and their solvers."""
