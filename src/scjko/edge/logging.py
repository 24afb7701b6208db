"""The package's logger and its progress bar."""

from __future__ import annotations

import logging
from typing import Any

from tqdm.auto import tqdm

logger = logging.getLogger("scjko")


def progress_bar(total: int, description: str, *, enabled: bool) -> Any:
    """A progress bar over ``total`` items, silent when not ``enabled`` or when the logger is set above info.

    Only a level set on the ``scjko`` logger itself silences it: the root logger stands at warning by default, and
    that says nothing about progress bars.
    """
    return tqdm(total=total, desc=description, disable=not enabled or logger.level > logging.INFO, leave=False)
