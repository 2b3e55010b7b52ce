"""Many replays: recordings under all combinations of policies, memory and settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from . import _framewright
from ._errors import TraceError, warn_hollow
from ._recording import Recording, path_of, reopened
from ._sizes import STARTS, WATERMARKS, Size, all_of, distinct, frames_of, jobs_of, policy_names, share_of, words_of
from ._table import Rows
from ._tables import policies as all_policies


@dataclass(frozen=True)
class _Source:
    """A recording of a sweep, by its file; a process that has it keeps it."""

    name: str
    path: str
    state: str | None
    memory_limit: int | None
    digest: str | None


@dataclass(frozen=True)
class _Combination:
    """What to replay a recording under. ``size`` is frames that are ``"held"`` back, or frames that are ``"left"``, or
    thousandths, a ``"share"`` of what is free at every moment, to hold back."""

    policy: str
    kind: str
    size: int
    start: str
    watermarks: str

    def squeeze(self, recording: Recording) -> int:
        if self.kind == "left":
            return recording._squeeze(0, self.size)
        return recording._share(self.size) if self.kind == "share" else self.size

    def replay(self, recording: Recording, name: str) -> Rows:
        return recording._figures(name, self.policy, self.squeeze(recording), self.start, self.watermarks)


def _size_of(size: Any, is_left: bool) -> tuple[str, int]:
    if is_left:
        return "left", frames_of(size, "memories")
    share = share_of(size, "squeezes")
    return ("held", frames_of(size, "squeezes")) if share is None else ("share", share)


def _replay_there(source: _Source, combination: _Combination, version: str) -> Rows:
    """A task: runs wherever a scheduler puts it."""
    if version != _framewright.__version__:
        raise RuntimeError(f"this worker has framewright {_framewright.__version__}, expected {version} as its client has")
    recording = reopened(source.path, source.state, source.memory_limit, source.digest)
    return combination.replay(recording, source.name)


def sweep(
    recordings: object,
    policies: object = None,
    client: Any = None,
    *,
    squeezes: object = 0,
    memories: object = None,
    starts: object = "imposed",
    watermarks: object = "off",
    jobs: int | None = None,
) -> Rows:
    """Replays each recording under each policy, with each size of memory and each setting.

    ``recordings``: paths, or what ``load`` has made; one or several.
    ``policies``: as ``Recording.replay`` takes them.
    ``client``: a Dask client, or an executor of ``concurrent.futures``. Its workers read the recordings by their paths, so they
    need the same files under the same names. Without it threads of this process do the work, ``jobs`` at once, and one
    recording after another is in memory.
    ``squeezes`` or ``memories``: sizes to hold back, or sizes that are left; one or several. A squeeze ``"97.5%"`` is a share
    of what is free at every moment of a recording: the same for recordings with unequal memory.
    ``starts``, ``watermarks``: one or several, as ``Recording.replay`` takes them.

    The rows come in the order of the arguments, whichever way the work is done: recordings, sizes, starts, watermarks,
    policies, metrics. They have the figures that ``framewright sweep`` has.
    """
    given = all_of(recordings, "recordings")
    names = policy_names([p for p in all_policies() if p.is_compared] if policies is None else policies)
    is_left = memories is not None
    if is_left and squeezes != 0:
        raise ValueError("squeezes and memories say the same in two ways, expected one of them")
    what = "memories" if is_left else "squeezes"
    sizes = distinct([_size_of(size, is_left) for size in all_of(memories if is_left else squeezes, what)])
    combinations = [
        _Combination(policy, kind, size, start, admission)
        for kind, size in sizes
        for start in words_of(starts, STARTS, "starts")
        for admission in words_of(watermarks, WATERMARKS, "watermarks")
        for policy in names
    ]
    at_once = jobs_of(jobs)
    loaded = [one if isinstance(one, Recording) else None for one in given]
    paths = [one.path if isinstance(one, Recording) else path_of(one, "recordings") for one in given]
    sources = []
    for name, path, recording in zip(_framewright.case_names(paths), paths, loaded, strict=True):
        if recording is None:
            sources.append(_Source(name, path, None, None, None))
        else:
            sources.append(_Source(name, *recording._given, recording.digest))
    if client is None:
        parts = _here(sources, loaded, combinations, at_once)
    else:
        parts = _there(sources, combinations, client)
    return Rows.concat(_each_once(_of_one_trace(parts)))


def _each_once(parts: Iterator[Rows]) -> Iterator[Rows]:
    """Passes each combination's rows on once: a share may come to as many frames as another size."""
    seen = set()
    for part in parts:
        columns = ("recording", "squeeze", "start", "watermarks", "variant")
        of = tuple(tuple(part[column][:1]) for column in columns)
        if of not in seen:
            seen.add(of)
            yield part


def _of_one_trace(parts: Iterator[Rows]) -> Iterator[Rows]:
    """Passes rows on, unless a file was exchanged under the sweep's hands."""
    digests: dict[str, str] = {}
    for part in parts:
        for name, digest in zip(part["recording"][:1], part["digest"][:1], strict=True):
            if digests.setdefault(name, digest) != digest:
                raise TraceError(name, None, f"has changed meanwhile, expected sha256 {digests[name]} as before")
        yield part


def _here(
    sources: list[_Source], loaded: list[Recording | None], combinations: list[_Combination], jobs: int
) -> Iterator[Rows]:
    for source, given in zip(sources, loaded, strict=True):
        recording = given
        if recording is None:
            recording = Recording(source.path, source.state, source.memory_limit)
            warn_hollow(source.name, recording.hollow, stacklevel=4)
        # What cannot be held back is known before the first replay.
        for combination in combinations:
            combination.squeeze(recording)
        room = recording._native.at_once()
        with ThreadPoolExecutor(min(jobs, room), thread_name_prefix="framewright") as pool:
            yield from _in_order(
                [pool.submit(one.replay, recording, source.name) for one in combinations],
                lambda futures: [future.cancel() for future in futures],
            )


def _there(sources: list[_Source], combinations: list[_Combination], client: Any) -> Iterator[Rows]:
    submit = getattr(client, "submit", None)
    if not callable(submit):
        raise TypeError(f"client={client!r}: expected a Dask client or an executor of concurrent.futures")
    if getattr(client, "asynchronous", False):
        raise TypeError("client is asynchronous, expected one that waits: Client(..., asynchronous=False)")
    # A file may change under its name, so that no scheduler may take a result for one that it has.
    options = {} if isinstance(client, Executor) else {"pure": False}
    futures = [
        submit(_replay_there, source, combination, _framewright.__version__, **options)
        for source in sources
        for combination in combinations
    ]

    def cancel(futures: list[Any]) -> object:
        whole = getattr(client, "cancel", None)
        return whole(futures) if callable(whole) else [future.cancel() for future in futures]

    yield from _in_order(futures, cancel)


def _in_order(futures: list[Any], cancel: Callable[[list[Any]], object]) -> Iterator[Rows]:
    """The results in the order of the tasks. After an error or an interrupt no other task begins."""
    try:
        for future in futures:
            yield future.result()
    except BaseException:
        cancel(futures)
        raise
