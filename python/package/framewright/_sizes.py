"""What a caller may write for a size, a policy, a number of jobs."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import SupportsIndex, TypeVar

from . import _framewright
from ._tables import Policy

Size = str | SupportsIndex
"""A size with a binary unit, ``"160MiB"``, or a number of frames of 4 KiB."""

T = TypeVar("T")

FRAME_BYTES = 4096
_LARGEST = 2**52


def frames_of(size: Size, what: str) -> int:
    """Frames, from a size with a unit or a number of frames."""
    if isinstance(size, str):
        try:
            return _framewright.frames_of(size)
        except ValueError as error:
            raise ValueError(f"{what}={size!r}: {error}") from None
    if isinstance(size, bool):
        raise TypeError(f"{what}={size!r}: expected a size as '160MiB' or a number of frames")
    try:
        frames = operator.index(size)
    except TypeError:
        raise TypeError(f"{what}={size!r}: expected a size as '160MiB' or a number of frames") from None
    if not 0 <= frames <= _LARGEST:
        raise ValueError(f"{what}={frames}: expected 0 to {_LARGEST} frames")
    return frames


def share_of(size: object, what: str) -> int | None:
    """Thousandths, from a share of what is free at every moment, ``"97.5%"``; ``None`` for what is no share."""
    if not isinstance(size, str) or not size.endswith("%"):
        return None
    try:
        return _framewright.share_of(size)
    except ValueError as error:
        raise ValueError(f"{what}={size!r}: {error}") from None


def bytes_of(size: Size | None, what: str) -> int | None:
    """Bytes, from a size with a unit or a number of bytes."""
    if size is None:
        return None
    if isinstance(size, str) and not size.isdigit():
        found = frames_of(size, what) * FRAME_BYTES
    else:
        found = frames_of(int(size) if isinstance(size, str) else size, what)
    if found == 0:
        raise ValueError(f"{what}={size!r}: expected 1 byte or more")
    return found


def all_of(values: object, what: str) -> list[object]:
    """A list of one or more; one value stands for a list of it."""
    if isinstance(values, (str, bytes, os.PathLike)) or not isinstance(values, Iterable):
        return [values]
    found = list(values)
    if not found:
        raise ValueError(f"{what}: expected one or more")
    return found


def distinct(values: list[T]) -> list[T]:
    return list(dict.fromkeys(values))


def policy_names(policies: object) -> list[str]:
    names = []
    for policy in all_of(policies, "policies"):
        if not isinstance(policy, (str, Policy)):
            raise TypeError(f"policies: {policy!r} is no policy, expected a name or a Policy")
        names.append(str(policy))
    return _framewright.policy_names(names)


def words_of(values: object, known: tuple[str, ...], what: str) -> list[str]:
    words = []
    for value in all_of(values, what):
        if value not in known:
            raise ValueError(f"{what}: there is no {value!r}, expected {' or '.join(map(repr, known))}")
        words.append(str(value))
    return list(dict.fromkeys(words))


STARTS = ("imposed", "fresh")
WATERMARKS = ("auto", "on", "off")
SETTINGS = ("none", "few", "all")


def jobs_of(jobs: int | None) -> int:
    """How many replays at once; by default one for each CPU that this process may use."""
    if jobs is None:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= 4096:
        raise ValueError(f"jobs={jobs!r}: expected a number from 1 to 4096")
    return jobs
