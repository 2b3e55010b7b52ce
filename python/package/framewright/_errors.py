"""What goes wrong, in the words of a caller in Python."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from . import _framewright


class TraceError(ValueError):
    """A file that cannot be read or replayed: where, what is wrong, and what was expected.

    ``str(error)`` has all of it, as the command line shows it.
    """

    def __init__(self, file: str, line: int | None, message: str) -> None:
        self.file = file
        """The file, printable."""
        self.line = line
        """The line, counted from 1, where the fault has one."""
        self.message = message
        """What is wrong, and what was expected."""
        super().__init__(f"{self.place}: {message}")

    @property
    def place(self) -> str:
        """The file, and the line where the fault has one."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def expected(self) -> str | None:
        """What was expected, where the message says so."""
        _, word, expected = self.message.partition("expected ")
        return expected if word else None

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker's error reaches its client whole.
        return type(self), (self.file, self.line, self.message)


class HollowWarning(UserWarning):
    """Figures say less than they seem to; the text says why and what helps."""


# The laboratory's messages name options of its command line.
_WORDS = [
    (re.compile(r"`--memory-limit (\d+)`"), r"`memory_limit='\1MiB'`"),
    (re.compile(r" with --state\b"), " as `state`"),
    (re.compile(r"--state\b"), "`state`"),
    (re.compile(r"--squeeze (\d+)"), r"squeeze=\1"),
    (re.compile(r"--csv with --every\b"), "the command's `--csv` with `--every`"),
]


def in_python(text: str) -> str:
    """A message of the laboratory, with Python's names of its options."""
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text


@contextmanager
def trace_errors() -> Iterator[None]:
    """Raises what the native half says of a file as a ``TraceError``."""
    try:
        yield
    except _framewright.InputError as error:
        file, line, message = error.args
        raise TraceError(file, line, in_python(message)) from None


def warn_hollow(name: str, hollow: Iterable[tuple[str, str]], stacklevel: int) -> None:
    for _, says in hollow:
        warnings.warn(f"{name}: {says}", HollowWarning, stacklevel=stacklevel + 1)
