"""Independent pieces of work, side by side on the cores there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], on_done: Callable[[], object] = lambda: None
) -> list[Result]:
    """``work`` of every item, in their order; ``on_done`` is called after each.

    POT and compiled JAX programs release the GIL, so threads suffice.
    """
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        futures = [pool.submit(work, item) for item in items]
        for future in as_completed(futures):
            future.result()
            on_done()
    finally:
        # Not waited for: after an interrupt work that still goes on must not keep the user waiting.
        pool.shutdown(wait=False, cancel_futures=True)
    return [future.result() for future in futures]
