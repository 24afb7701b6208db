"""The command line: ``scjko demo``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that ``arguments`` name; the exit code."""
    parser = argparse.ArgumentParser(prog="scjko", description="Learn the energy behind a time-course experiment.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="fit a simulated differentiation and compare with its known truth")
    demo.add_argument("-o", "--output", type=Path, default=Path("demo"), help="folder to write to (default: demo)")
    demo.add_argument("--n-cells", type=int, default=3000, help="number of simulated cells (default: 3000)")
    parsed = parser.parse_args(arguments)

    from ._demo import run_demo  # after parsing, so that --help answers at once

    run_demo(parsed.output, n_cells=parsed.n_cells)
    return 0
