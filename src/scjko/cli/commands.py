"""``scjko fit``, ``scjko validate`` and ``scjko predict``: the tools for pipelines, from file to file."""

from __future__ import annotations

import argparse
import inspect
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import tl
from ..core.condition import SCHEMES
from ..core.transport.couplings import SOLVERS
from ..edge.logging import logger
from . import files as _files

#: Options of a fit with a flag of their own; others go through ``--set``.
FLAGS: dict[str, dict[str, Any]] = {
    "n_pcs": {"type": int, "metavar": "N", "help": "components to use (default: all)"},
    "use_rep": {"metavar": "NAME", "help": "representation in obsm (default: the PCA)"},
    "weight_key": {"metavar": "NAME", "help": "column of obs with the weight of each cell"},
    "terms": {"nargs": "+", "metavar": "TERM", "help": "potential, interaction, internal (default: potential)"},
    "parametrization": {"choices": ["neural", "linear"], "help": "default: neural"},
    "scheme": {"choices": SCHEMES, "help": "default: both"},
    "whiten": {"action": "store_true", "help": "standardise each component"},
    "coupling": {"choices": ("auto", *SOLVERS), "help": "default: auto"},
    "memory_limit": {
        "type": float,
        "metavar": "GB",
        "help": "memory for couplings (default: a quarter of the machine's)",
    },
    "epochs": {"type": int, "metavar": "N", "help": "passes over the data (default: about 4000 updates)"},
    "random_state": {"type": int, "metavar": "SEED", "help": "default: 0"},
}

#: Options of a fit that make no sense from file to file.
NOT_HERE = ("adata", "progress", "copy", "couplings", "client")


def add_fit(commands: Any) -> None:
    """``scjko fit``."""
    fit = _command(commands, "fit", "fit an energy to a time course and write it into a copy of the file", output=True)
    _fit_flags(fit)
    fit.add_argument("--key-added", default="jko", metavar="NAME", help="name of the fit (default: jko)")
    fit.set_defaults(run=_fit)


def add_validate(commands: Any) -> None:
    """``scjko validate``."""
    help_ = "hold out cells or time points and say whether an energy predicts them better than no training does"
    validate = _command(commands, "validate", help_, output=False)
    _fit_flags(validate)
    validate.add_argument("--protocol", choices=["cells", "times"], default="cells", help="default: cells")
    validate.add_argument("--n-splits", type=int, default=5, metavar="N", help="random splits (default: 5)")
    validate.add_argument("--test-size", type=float, default=0.4, metavar="F", help="fraction held out (default: 0.4)")
    validate.set_defaults(run=_validate)


def add_predict(commands: Any) -> None:
    """``scjko predict``."""
    predict = _command(commands, "predict", "predict cells at another time from a fitted file", output=True)
    predict.add_argument("--time", type=float, metavar="T", help="the time (default: every cell's next time point)")
    predict.add_argument("--source", type=float, metavar="T", help="the time point whose cells are moved")
    predict.add_argument("--interpolate", action="store_true", help="from both sides of a time that was not measured")
    predict.add_argument("--key", default="jko", metavar="NAME", help="name of the fit (default: jko)")
    predict.add_argument("--random-state", type=int, default=0, metavar="SEED", help="default: 0")
    predict.set_defaults(run=_predict)


def _command(commands: Any, name: str, help_: str, output: bool) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.")
    made.add_argument("input", type=Path, help="an .h5ad file or a .zarr store; it is never changed")
    kind = "an .h5ad file or a .zarr store" if output else "a .csv or .json file for the errors"
    made.add_argument("-o", "--output", type=Path, required=output, metavar="FILE", help=kind)
    made.add_argument("--force", action="store_true", help="replace the output if it is there")
    made.add_argument("--json", action="store_true", help="log lines and the result as JSON, one object to a line")
    return made


def _fit_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--time-key", required=True, metavar="NAME", help="column of obs with the time of each cell")
    for name, options in FLAGS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **options)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="any other option of a fit; values are JSON"
    )


def _options(parsed: argparse.Namespace) -> dict[str, Any]:
    """Options of a fit that the command line names."""
    options = {name: getattr(parsed, name) for name in FLAGS if getattr(parsed, name) is not None}
    flags = {*FLAGS, "time_key", "key_added"}
    known = set(inspect.signature(tl.fit_energy).parameters) - flags - set(NOT_HERE)
    for one in parsed.set:
        told, _, value = one.partition("=")
        name = told.replace("-", "_")
        if name in flags:
            raise ValueError(f"--set {one}: it has a flag of its own, --{name.replace('_', '-')}")
        if name not in known or not value:
            raise ValueError(f"--set {one}: give NAME=VALUE, with one of {', '.join(sorted(known))}")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def _fit(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    with _told(parsed, parser):
        _files.check_output(parsed.output, parsed.input, parsed.force)
        options = _options(parsed)
        adata = _files.read(parsed.input)
        tl.fit_energy(adata, parsed.time_key, key_added=parsed.key_added, progress=not parsed.json, **options)
        _files.write(adata, parsed.output)
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
            _files.check_free(parsed.output, parsed.force)
        options = {"protocol": parsed.protocol, "n_splits": parsed.n_splits, "test_size": parsed.test_size}
        adata = _files.read(parsed.input)
        frame = tl.validate(adata, parsed.time_key, progress=not parsed.json, **options, **_options(parsed))
        if parsed.output is not None:
            text = frame.to_csv(index=False) if parsed.output.suffix == ".csv" else frame.to_json(orient="records")
            _files.write_text(text, parsed.output)
        means = frame.groupby("method")["emd"].mean().sort_values()
        shown = means.to_string(float_format="{:.4g}".format)
        where = "" if parsed.output is None else f"\n\nWritten: {parsed.output}"
        _result(
            parsed,
            f"{shown}\n\n{frame.attrs['verdict']}{where}",
            verdict=frame.attrs["verdict"],
            emd={str(name): float(value) for name, value in means.items()},
        )


def _predict(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    with _told(parsed, parser):
        _files.check_output(parsed.output, parsed.input, parsed.force)
        seeded = {"key": parsed.key, "random_state": parsed.random_state}
        if parsed.interpolate:
            if parsed.time is None or parsed.source is not None:
                raise ValueError("--interpolate needs --time, and takes no --source: it uses both sides")
            made = tl.interpolate(_files.read(parsed.input), parsed.time, **seeded)
        else:
            made = tl.predict(_files.read(parsed.input), parsed.time, source=parsed.source, **seeded)
        _files.write(made, parsed.output)
        told = f"Predicted {made.n_obs} cells. Written: {parsed.output}"
        _result(parsed, told, output=str(parsed.output), n_cells=made.n_obs)


def _result(parsed: argparse.Namespace, text: str, **fields: Any) -> None:
    print(json.dumps({"command": parsed.command, **fields}) if parsed.json else text)


def _stop(parsed: argparse.Namespace, parser: argparse.ArgumentParser, code: int, message: str) -> None:
    """Leave with this exit code, and say why in one line."""
    as_json = json.dumps({"command": parsed.command, "error": message})
    parser.exit(code, f"{as_json if parsed.json else f'{parser.prog} {parsed.command}: error: {message}'}\n")


def _as_flags(message: str, parsed: argparse.Namespace) -> str:
    """A message of Python with its arguments as they are called here: ``--n-pcs 99`` for ``n_pcs=99``."""
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
    """Log lines to the error stream, and what a user can mend as one line and exit code 2, without a traceback."""
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
