"""Independent pieces of work, side by side: on the cores of this machine, or on a Dask cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from .limits import n_cores

Item = TypeVar("Item")
Result = TypeVar("Result")

#: How often a piece of work is tried again after the worker that did it died.
RETRIES = 3


class _Limits:
    """How many threads linear algebra may use: one while anybody needs it to be one, as before when nobody does.

    The number is one of the whole process. If threads that overlap each restored what they found, the last one would
    restore the limit of another. OpenMP has a number for each thread, which has to restore it itself.
    """

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.limit: Any = None

    @contextmanager
    def one(self) -> Iterator[None]:
        """Within it linear algebra uses one thread."""
        with self.lock:
            if not self.users:
                self.limit = _libraries().limit(limits=1, user_api="blas")
            self.users += 1
        try:
            with _libraries().limit(limits=1, user_api="openmp"):
                yield
        finally:
            with self.lock:
                self.users -= 1
                if not self.users:
                    self.limit.restore_original_limits()


_LIMITS = _Limits()


def one_thread() -> AbstractContextManager[None]:
    """Within it linear algebra uses one thread: for small matrices, and for work that is side by side itself."""
    return _LIMITS.one()


@cache
def _libraries() -> ThreadpoolController:
    """The libraries with threads of their own. To find them takes 5 ms, longer than many a small matrix: hence once."""
    return ThreadpoolController()


def side_by_side(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    on_done: Callable[[], object] = lambda: None,
    *,
    at_once: int | None = None,
    client: Any = None,
) -> list[Result]:
    """``work`` of every item, in their order; ``on_done`` is called after each.

    At most ``at_once`` of them are under way at a time, by default as many as the cores that this process may use; on
    a cluster, if a ``distributed.Client`` is given, as many as it has room for. POT and compiled JAX programs release
    the GIL, so threads suffice here.
    """
    if client is not None:
        return _on_cluster(client, work, items, on_done)
    pool = ThreadPoolExecutor(at_once or n_cores())
    try:
        futures = [pool.submit(work, item) for item in items]
        for future in as_completed(futures):
            future.result()
            on_done()
    finally:
        # Not waited for: after an interrupt work that still goes on must not keep the user waiting.
        pool.shutdown(wait=False, cancel_futures=True)
    return [future.result() for future in futures]


def _on_cluster(
    client: Any, work: Callable[[Item], Result], items: Iterable[Item], on_done: Callable[[], object]
) -> list[Result]:
    from distributed import as_completed as completed  # there is no client without it

    with warnings.catch_warnings():
        # The data travel with the work, and not apart from it, so that they are not lost with a worker that holds them.
        warnings.filterwarnings("ignore", "Sending large graph")
        futures = [client.submit(work, item, pure=False, retries=RETRIES) for item in items]
    try:
        for future in completed(futures):
            future.result()
            on_done()
        return list(client.gather(futures))
    finally:
        client.cancel(futures)


def check_client(client: Any) -> None:
    """Raise unless ``client`` is one of a Dask cluster whose workers can do our work."""
    if client is None:
        return
    if not all(hasattr(client, name) for name in ("submit", "gather", "run", "scheduler_info")):
        raise TypeError(f"client must be a distributed.Client, not {type(client).__name__}.")

    def has_package() -> bool:  # local, so that it travels to workers that do not have the module it stands in
        import importlib.util

        return importlib.util.find_spec("scjko") is not None

    answers = client.run(has_package)
    if not answers:
        raise ValueError("client is one of a cluster without workers; add some, or leave client out.")
    lacking = [worker for worker, there in answers.items() if not there]
    if lacking:
        raise ValueError(
            f"scjko is not installed on {len(lacking)} of {len(answers)} workers of the client, such as {lacking[0]}; "
            "install it there."
        )
