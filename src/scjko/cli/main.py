"""The command line: ``scjko demo``, ``fit``, ``validate``, ``predict``, ``report`` and ``bench``."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from .. import benchmarks
from .commands import add_fit, add_predict, add_report, add_validate
from .demo import run_demo


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that ``arguments`` name; the exit code."""
    parser = argparse.ArgumentParser(prog="scjko", description="Learn the energy behind a time-course experiment.")
    parser.add_argument("--version", action="version", version=version("scjko"))
    commands = parser.add_subparsers(dest="command", required=True)
    for add in (_add_demo, add_fit, add_validate, add_predict, add_report, _add_bench):
        add(commands)
    parsed = parser.parse_args(arguments)
    try:
        parsed.run(parsed, parser)
    except OSError as error:
        writing = error.filename is not None and str(error.filename).startswith(str(parsed.output))
        parser.error(f"cannot write to {parsed.output}: {error.strerror}" if writing else str(error))
    return 0


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser("demo", help="fit a simulated differentiation and compare with its known truth")
    demo.add_argument("-o", "--output", type=Path, default=Path("demo"), help="folder to write to (default: demo)")
    demo.add_argument("--n-cells", type=int, default=3000, help="number of simulated cells (default: 3000)")
    demo.set_defaults(run=_demo)


def _demo(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if parsed.n_cells < 100:
        parser.error(f"--n-cells {parsed.n_cells}: a landscape needs at least 100 cells")
    run_demo(parsed.output, n_cells=parsed.n_cells)


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    bench = commands.add_parser(
        "bench",
        help="check the method against known truth",
        description="Run an experiment of the paper, print its table, and write results (JSON, CSV) and a figure. What "
        "is finished is not computed again: delete the JSON file to start anew.",
    )
    names = list(benchmarks.experiments)
    bench.add_argument("experiment", choices=names, metavar="experiment", help=f"one of {', '.join(names)}")
    size = bench.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="a small size (the default): under two minutes, of real data longer"
    )
    size.add_argument("--full", action="store_true", help="the paper's size")
    bench.add_argument("-o", "--output", type=Path, default=Path("bench"), help="folder to write to (default: bench)")
    bench.add_argument("--functionals", nargs="+", metavar="NAME", help="only these functionals")
    bench.add_argument("--models", nargs="+", metavar="NAME", help="only these models, or rivals such as jkonet")
    bench.add_argument("--n-particles", nargs="+", type=int, metavar="N", help="numbers of particles")
    bench.add_argument("--n-cells", nargs="+", type=int, metavar="N", help="numbers of cells (speed, solvers)")
    bench.add_argument("--n-dims", nargs="+", type=int, metavar="D", help="numbers of dimensions")
    bench.add_argument("--n-seeds", type=int, metavar="N", help="number of data sets")
    bench.add_argument(
        "--path",
        type=Path,
        metavar="FILE",
        help="local copy of the data (embryoid, solvers), or a folder with several (data, solvers)",
    )
    bench.set_defaults(run=_bench)


def _bench(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    experiment = benchmarks.experiments[parsed.experiment]
    names = ("functionals", "models", "n_particles", "n_cells", "n_dims", "n_seeds", "path")
    options = {name: getattr(parsed, name) for name in names if getattr(parsed, name) is not None}
    for name in options:
        if name not in inspect.signature(experiment.run).parameters:
            parser.error(f"{parsed.experiment} takes no --{name.replace('_', '-')}")
    try:
        frame = experiment.run(parsed.output, full=parsed.full, **options)
    except (ValueError, ImportError) as error:
        parser.error(str(error))
    with pd.option_context("display.width", 200, "display.max_columns", 50):
        print(experiment.table(frame).to_string(float_format="{:.4g}".format, na_rep=""))
    print("\nWritten:")
    for kind in ("csv", "png", "json"):
        print(f"  {parsed.output / parsed.experiment}.{kind}")
