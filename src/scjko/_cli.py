"""The command line: ``scjko demo``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from ._demo import run_demo


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that ``arguments`` name; the exit code."""
    parser = argparse.ArgumentParser(prog="scjko", description="Learn the energy behind a time-course experiment.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="fit a simulated differentiation and compare with its known truth")
    demo.add_argument("-o", "--output", type=Path, default=Path("demo"), help="folder to write to (default: demo)")
    demo.add_argument("--n-cells", type=int, default=3000, help="number of simulated cells (default: 3000)")
    parser.add_argument("--version", action="version", version=version("scjko"))
    parsed = parser.parse_args(arguments)
    if parsed.n_cells < 100:
        parser.error(f"--n-cells {parsed.n_cells}: a landscape needs at least 100 cells")
    try:
        run_demo(parsed.output, n_cells=parsed.n_cells)
    except OSError as error:
        parser.error(f"cannot write to {parsed.output}: {error.strerror or error}")
    return 0
