"""A recording, and its replays."""

from __future__ import annotations

import os
import stat
import threading
from typing import Any

from . import _framewright
from ._errors import TraceError, in_python, trace_errors, warn_hollow
from ._sizes import (
    FRAME_BYTES,
    SETTINGS,
    STARTS,
    WATERMARKS,
    Size,
    bytes_of,
    frames_of,
    jobs_of,
    policy_names,
    words_of,
)
from ._table import Rows
from ._tables import policies as all_policies

Path = str | os.PathLike[str]


def path_of(path: object, what: str) -> str:
    """An absolute path to a file that is there, or the exception that ``open`` would raise."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{what}={path!r}: expected a path")
    name = os.fsdecode(path)
    # A relative path leads elsewhere in a worker with another folder.
    absolute = os.path.abspath(name)
    if stat.S_ISREG(os.stat(name).st_mode):
        with open(name, "rb"):
            return absolute
    if os.path.isdir(name):
        raise IsADirectoryError(f"{name}: is a folder, expected a recording")
    raise TraceError(name, None, "is no file, expected a recording in a file")


class Recording:
    """What a kernel's page allocator was asked for, with what lies beside the file. ``framewright.load`` makes one.

    Threads may share it. It is pickled as its path and digest: a process that unpickles it reads the same file again.
    """

    def __init__(self, path: str, state: str | None, memory_limit: int | None) -> None:
        self._given = (path, state, memory_limit)
        with trace_errors():
            self._native = _framewright.load(path, state, memory_limit)
        self._facts = self._native.facts()
        self._facts["hollow"] = [(kind, in_python(says)) for kind, says in self._facts["hollow"]]

    @property
    def path(self) -> str:
        """The file."""
        return self._given[0]

    @property
    def name(self) -> str:
        """The file's name without folder and ending, as cases have it."""
        return str(self._facts["name"])

    @property
    def digest(self) -> str:
        """SHA-256 of the trace's unpacked bytes: what tells it from every other."""
        return str(self._facts["digest"])

    @property
    def machine(self) -> dict[str, Any]:
        """The machine that was recorded: ``kernel`` and ``block_order`` (of a pageblock) where files beside the trace say
        them, ``cpus`` that appear in the trace, and ``bytes`` of memory."""
        kept = {name: self._facts[name] for name in ("kernel", "cpus", "block_order")}
        return {**kept, "bytes": self.frames * FRAME_BYTES}

    @property
    def frames(self) -> int:
        """Frames of 4 KiB that exist."""
        return int(self._facts["frames"])

    @property
    def free_frames(self) -> int:
        """Those that are free at the start: the most that ``squeeze`` can take away."""
        return int(self._facts["free_frames"])

    @property
    def zones(self) -> list[dict[str, Any]]:
        """The machine's zones with their watermarks, in frames; empty where no file beside the trace has them."""
        return [dict(zone) for zone in self._facts["zones"]]

    @property
    def events(self) -> int:
        """Allocations, frees, and failures."""
        return int(self._facts["events"])

    @property
    def seconds(self) -> float:
        """From the first event to the last."""
        return float(self._facts["milliseconds"]) / 1000

    @property
    def failures(self) -> dict[int, int]:
        """Requests that failed on the recording machine, by order; orders without one are left out."""
        return dict(self._facts["failures"])

    @property
    def is_text(self) -> bool:
        """Whether it was read from text, which does not say what was free."""
        return bool(self._facts["is_text"])

    @property
    def anomalies(self) -> dict[str, int]:
        """What the input could not mean as it stands, by kind."""
        return dict(self._facts["anomalies"])

    @property
    def hollow(self) -> list[tuple[str, str]]:
        """Why its figures say less than they seem to: a word for programs, and a sentence."""
        return list(self._facts["hollow"])

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the files beside it."""
        return list(self._facts["notes"])

    def replay(
        self,
        policies: object = None,
        *,
        squeeze: Size = 0,
        memory: Size | None = None,
        start: str = "imposed",
        watermarks: str = "auto",
        settings: str = "few",
        probe: int | None = None,
        reclaim: bool = False,
        probe_huge: int = 0,
        jobs: int | None = None,
    ) -> Rows:
        """The figures of each policy, and of the recording machine itself where nothing is changed: those of
        ``framewright replay --json``. The same arguments give the same rows: a replay draws nothing, so it has no seed.

        ``policies``: names or ``Policy``; all that are compared unless some are named.
        ``squeeze``: movable memory to hold back, ``"160MiB"`` or a number of frames; or
        ``memory``: what is left.
        ``start``: ``"imposed"``, where the recording had what was there before, or ``"fresh"``, where each policy puts it.
        ``watermarks``: whether requests are admitted by them; ``"auto"`` where the recording has what that needs.
        ``settings``: which settings of the recorded kernel are tried beside the policies, where requests are admitted by
        watermarks and some fail under its rules: ``"none"``, ``"few"`` or ``"all"``. The variant of their rows is
        ``"vm.defrag_mode=1"`` and the like, and ``"as-set"`` for the kernel as it was set.
        ``probe``: try one allocation of this order at each second.
        ``reclaim``: requests that cannot be served at once reclaim and compact; then ``probe_huge`` huge pages are
        requested after the trace.
        ``jobs``: replays at once; one for each CPU unless given.

        The interpreter's lock is not held meanwhile. Ctrl-C lets the replays under way end, and no other begins.
        """
        if policies is None and reclaim:
            policies = ["linux-4.4", "proposal", "framewright"]
        elif policies is None:
            policies = [policy for policy in all_policies() if policy.is_compared]
        names = policy_names(policies)
        (start,) = words_of(start, STARTS, "start")
        (watermarks,) = words_of(watermarks, WATERMARKS, "watermarks")
        (settings,) = words_of(settings, SETTINGS, "settings")
        if probe is not None and (isinstance(probe, bool) or not isinstance(probe, int) or not 0 <= probe <= 10):
            raise ValueError(f"probe={probe!r}: expected an order from 0 to 10")
        if isinstance(probe_huge, bool) or not isinstance(probe_huge, int) or not 0 <= probe_huge <= 1_000_000:
            raise ValueError(f"probe_huge={probe_huge!r}: expected a number from 0 to 1000000")
        if probe_huge and not reclaim:
            raise ValueError("probe_huge counts what compaction does, expected reclaim=True with it")
        held = self._squeeze(squeeze, memory)
        with trace_errors():
            found = self._native.replay(
                names, start, held, watermarks, settings, probe, bool(reclaim), probe_huge, jobs_of(jobs)
            )
        hollow = [(kind, in_python(says)) for kind, says in found["hollow"]]
        # What was said when it was loaded is not said again.
        warn_hollow(self.name, (one for one in hollow if one not in self.hollow), stacklevel=2)
        case = self._case(self.name, held, start, watermarks, bool(reclaim))
        return Rows.of_case(case, found["rows"], found["errors"], hollow, map(in_python, found["notes"]))

    def _squeeze(self, squeeze: Size, memory: Size | None) -> int:
        """Frames to hold back."""
        held = frames_of(squeeze, "squeeze")
        if memory is None:
            return held
        if held:
            raise ValueError("squeeze and memory say the same in two ways, expected one of them")
        left = frames_of(memory, "memory")
        if left > self.frames:
            raise ValueError(f"memory={left} is more than {self.name} has, expected at most {self.frames} frames")
        return self.frames - left

    def _share(self, thousandths: int) -> int:
        """Frames to hold back: a share of those that are free at every moment."""
        with trace_errors():
            return self._native.share(thousandths)

    def _case(self, name: str, squeeze: int, start: str, watermarks: str, reclaim: bool) -> dict[str, Any]:
        return {
            "case": f"{name}/{start}/b{squeeze}",
            "recording": name,
            "digest": self.digest,
            "start": start,
            "squeeze": squeeze,
            "memory": self.frames - squeeze,
            "watermarks": watermarks,
            "reclaim": reclaim,
        }

    def _figures(self, name: str, policy: str, squeeze: int, start: str, watermarks: str) -> Rows:
        """The figures of one policy: those of a row of ``framewright sweep``."""
        with trace_errors():
            figures = self._native.figures(policy, start, squeeze, watermarks)
        return Rows.of_case(self._case(name, squeeze, start, watermarks, False), figures, {})

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (*self._given, self.digest)

    def __repr__(self) -> str:
        mib = self.frames * FRAME_BYTES >> 20
        return f"<Recording {self.name}: {self.events} events in {self.seconds:.1f} s on {mib} MiB>"


def load(path: Path, *, state: Path | None = None, memory_limit: Size | None = None) -> Recording:
    """Reads a recording and what lies beside it: PFT1 to PFT5, a stream, ftrace or ``perf script`` text; plain, gzip or zstd.

    ``state``: the recording machine's ``/proc/pagetypeinfo`` when the trace began. Text needs it, because it does not say
    what was free; without it a ``HollowWarning`` says so.
    ``memory_limit``: what the trace, and each replay of it, may take: ``"8GiB"`` or bytes; 4 GiB unless given.

    Raises ``OSError`` where there is no such file, and ``TraceError`` where it cannot be read.
    """
    given_state = None if state is None else path_of(state, "state")
    recording = Recording(path_of(path, "path"), given_state, bytes_of(memory_limit, "memory_limit"))
    warn_hollow(recording.name, recording.hollow, stacklevel=2)
    return recording


_kept: dict[tuple[Any, ...], Recording] = {}
_KEPT_MAX = 2
_lock = threading.Lock()


def _forget() -> None:
    """A child has its own: another thread of its parent may have held the lock when it was made."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def reopened(path: str, state: str | None, memory_limit: int | None, digest: str | None) -> Recording:
    """A recording that another process has loaded, or will. The last ones stay, since a worker gets many tasks of each."""

    def stamp(file: str | None) -> tuple[int, ...]:
        if file is None:
            return ()
        there = os.stat(file)
        return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns

    key = (path, state, memory_limit, stamp(path), stamp(state))
    with _lock:
        recording = _kept.pop(key, None)
        if recording is None:
            recording = Recording(path, state, memory_limit)
        _kept[key] = recording
        while len(_kept) > _KEPT_MAX:
            del _kept[next(iter(_kept))]
    if digest is not None and recording.digest != digest:
        raise TraceError(
            path, None, f"is another recording here (sha256 {recording.digest}), expected the one with sha256 {digest}"
        )
    return recording
