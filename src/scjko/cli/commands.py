"""``scjko fit``, ``validate``, ``predict`` and ``report``: the tools for pipelines, from file to file."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import tl
from ..edge.logging import logger
from ..edge.storage import files
from ..edge.validation.earlier import DEFAULT_KEY, earlier_options
from ..edge.validation.protocols import PROTOCOLS
from ..reporting._report import report
from .options import add_flags, check_names, fit_options


def add_fit(commands: Any) -> None:
    """``scjko fit``."""
    fit = _command(commands, "fit", "fit an energy to a time course and write it into a copy of the file")
    fit.add_argument("--time-key", required=True, metavar="NAME", help="column of obs with the time of each cell")
    add_flags(fit)
    fit.add_argument("--key-added", default="jko", metavar="NAME", help="name of the fit (default: jko)")
    fit.set_defaults(run=_fit)


def add_validate(commands: Any) -> None:
    """``scjko validate``."""
    help_ = "hold out cells or time points and say whether an energy predicts them better than baselines do"
    errors = "a .csv or .json file for the errors"
    validate = _command(commands, "validate", help_, output=errors, required=False)
    validate.add_argument(
        "--time-key", metavar="NAME", help="column of obs with the time of each cell (default: the fit's)"
    )
    add_flags(validate)
    validate.add_argument(
        "--key",
        default=DEFAULT_KEY,
        metavar="NAME",
        help="fit in the file whose options are the defaults (default: jko)",
    )
    validate.add_argument("--no-fit", action="store_true", help="take no options from a fit in the file")
    validate.add_argument("--protocol", choices=PROTOCOLS, default=PROTOCOLS[0], help=f"default: {PROTOCOLS[0]}")
    validate.add_argument("--n-splits", type=int, default=5, metavar="N", help="random splits (default: 5)")
    validate.add_argument("--test-size", type=float, default=0.4, metavar="F", help="fraction held out (default: 0.4)")
    validate.set_defaults(run=_validate)


def add_predict(commands: Any) -> None:
    """``scjko predict``."""
    predict = _command(commands, "predict", "predict cells at another time from a fitted file")
    predict.add_argument("--time", type=float, metavar="T", help="the time (default: every cell's next time point)")
    predict.add_argument("--source", type=float, metavar="T", help="the time point whose cells are moved")
    predict.add_argument("--interpolate", action="store_true", help="from both sides of a time that was not measured")
    predict.add_argument("--key", default="jko", metavar="NAME", help="name of the fit (default: jko)")
    predict.add_argument("--random-state", type=int, default=0, metavar="SEED", help="default: 0")
    predict.set_defaults(run=_predict)


def add_report(commands: Any) -> None:
    """``scjko report``."""
    report = _command(commands, "report", "write what is known of a fit into one HTML file", output="an .html file")
    report.add_argument("--key", default="jko", metavar="NAME", help="name of the fit (default: jko)")
    report.add_argument("--title", metavar="TEXT", help="title of the report (default: the name of the input)")
    report.add_argument("--basis", metavar="NAME", help="embedding to draw on (default: the fitted components)")
    report.add_argument("--cluster-key", metavar="NAME", help="column of obs with cell types")
    report.set_defaults(run=_report)


def _command(
    commands: Any, name: str, help_: str, output: str = "an .h5ad file or a .zarr store", required: bool = True
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.")
    made.add_argument("input", type=Path, help="an .h5ad file or a .zarr store; it is never changed")
    made.add_argument("-o", "--output", type=Path, required=required, metavar="FILE", help=output)
    made.add_argument("--force", action="store_true", help="replace the output if it exists")
    made.add_argument("--json", action="store_true", help="log lines and the result as JSON, one object to a line")
    return made


def _fit(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    with _told(parsed, parser):
        files.check_output(parsed.output, parsed.input, parsed.force)
        options = fit_options(parsed)
        adata = files.read(parsed.input)
        tl.fit_energy(adata, parsed.time_key, key_added=parsed.key_added, progress=not parsed.json, **options)
        files.write(adata, parsed.output)
        stored = adata.uns[parsed.key_added]
        _result(
            parsed,
            f"Fitted {adata.n_obs} cells at {len(stored['times'])} time points. Written: {parsed.output}",
            output=str(parsed.output),
            n_cells=adata.n_obs,
            times=[float(t) for t in stored["times"]],
            explained=[float(e) for e in stored["diagnostics"]["explained"]],
        )


def _validate(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    with _told(parsed, parser):
        if parsed.output is not None:
            if parsed.output.suffix not in (".csv", ".json"):
                raise ValueError(f"{parsed.output} must end in .csv or .json")
            files.check_free(parsed.output, parsed.force)
        check_names(parsed)
        adata, key = files.read(parsed.input), None if parsed.no_fit else parsed.key
        options = fit_options(parsed, earlier_options(adata, key, parsed.time_key))
        held_out = {"protocol": parsed.protocol, "n_splits": parsed.n_splits, "test_size": parsed.test_size}
        frame = tl.validate(adata, parsed.time_key, key=key, progress=not parsed.json, **held_out, **options)
        if parsed.output is not None:
            text = frame.to_csv(index=False) if parsed.output.suffix == ".csv" else frame.to_json(orient="records")
            files.write_text(text, parsed.output)
        means = frame.groupby("method")["emd"].mean().sort_values()
        shown = means.to_string(float_format="{:.4g}".format)
        where = "" if parsed.output is None else f"\n\nWritten: {parsed.output}"
        _result(
            parsed,
            f"{shown}\n\n{frame.attrs['verdict']}{where}",
            protocol=parsed.protocol,
            verdict=frame.attrs["verdict"],
            emd={str(name): float(value) for name, value in means.items()},
        )


def _predict(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    with _told(parsed, parser):
        files.check_output(parsed.output, parsed.input, parsed.force)
        seeded = {"key": parsed.key, "random_state": parsed.random_state}
        if parsed.interpolate:
            if parsed.time is None or parsed.source is not None:
                raise ValueError("--interpolate needs --time, and takes no --source: it uses both sides")
            made = tl.interpolate(files.read(parsed.input), parsed.time, **seeded)
        else:
            made = tl.predict(files.read(parsed.input), parsed.time, source=parsed.source, **seeded)
        files.write(made, parsed.output)
        told = f"Predicted {made.n_obs} cells. Written: {parsed.output}"
        _result(parsed, told, output=str(parsed.output), n_cells=made.n_obs)


def _report(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    with _told(parsed, parser):
        files.check_free(parsed.output, parsed.force)
        title = parsed.input.name if parsed.title is None else parsed.title
        options = {"key": parsed.key, "basis": parsed.basis, "cluster_key": parsed.cluster_key}
        report(files.read(parsed.input), parsed.output, title=title, **options)
        _result(parsed, f"Written: {parsed.output}", output=str(parsed.output))


def _result(parsed: argparse.Namespace, text: str, **fields: Any) -> None:
    print(json.dumps({"command": parsed.command, **fields}) if parsed.json else text)


def _stop(parsed: argparse.Namespace, parser: argparse.ArgumentParser, code: int, message: str) -> None:
    """Leave with this exit code, and say why in one line."""
    as_json = json.dumps({"command": parsed.command, "error": message})
    parser.exit(code, f"{as_json if parsed.json else f'{parser.prog} {parsed.command}: error: {message}'}\n")


def _as_flags(message: str, parsed: argparse.Namespace) -> str:
    """A message of Python with its arguments as they are called here: ``--n-pcs 99`` for ``n_pcs=99``."""
    message = message.replace("key=None", "--no-fit")
    for name in vars(parsed):
        flag = f"--{name.replace('_', '-')}"
        # Not what stands in quotes, in a call or in a path; and words such as "time" only where they have a value.
        outside = rf"(?<![\w.('\"/-])(?<!, ){name}"
        message = re.sub(f"{outside}=", f"{flag} ", message)
        message = re.sub(rf"{outside}(?![\w./-])", flag, message) if "_" in name else message
    return message


class _AsJson(logging.Formatter):
    """A log line as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"time": record.created, "level": record.levelname.lower(), "message": record.getMessage()})


@contextmanager
def _told(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> Iterator[None]:
    """Log lines to the error stream, and what a user can fix as one line and exit code 2, without a traceback."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_AsJson() if parsed.json else logging.Formatter("%(message)s"))
    # The verdict of a validation is part of its result.
    handler.addFilter(lambda record: parsed.json or not hasattr(record, "verdict"))
    level, loggers = logger.level, (logger, logging.getLogger("py.warnings"))
    for each in loggers:
        each.addHandler(handler)
    logging.captureWarnings(True)
    logger.setLevel(logging.INFO)
    try:
        yield
    except KeyboardInterrupt:
        _stop(parsed, parser, 130, "interrupted")
    except (OSError, ValueError, TypeError, KeyError, MemoryError, RuntimeError, FloatingPointError) as error:
        # KeyError shows its message in quotes.
        message = _as_flags(str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error), parsed)
        _stop(parsed, parser, 2, message)
    finally:
        for each in loggers:
            each.removeHandler(handler)
        logging.captureWarnings(False)
        logger.setLevel(level)
