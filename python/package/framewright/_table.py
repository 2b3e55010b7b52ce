"""Rows, and what they become."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars

Row = dict[str, Any]

_KINDS = {
    "case": "text",
    "recording": "text",
    "digest": "text",
    "start": "text",
    "squeeze": "count",
    "memory": "count",
    "watermarks": "text",
    "reclaim": "flag",
    "variant": "text",
    "metric": "text",
    "value": "number",
    "unit": "text",
    "source": "text",
    "error": "number",
}
"""The columns of rows, and what their values are. ``number`` is a float or nothing."""

COLUMNS = tuple(_KINDS)
CASE = COLUMNS[:8]
"""The columns that say what was replayed; with ``variant`` they tell one replay from every other."""


class MissingLibrary(ImportError):
    """A conversion needs a library that is not there."""


def _missing(library: str, method: str) -> MissingLibrary:
    return MissingLibrary(
        f"{method}() needs {library}, which is not installed: pip install 'framewright[{library}]'; rows() and "
        "to_json() need nothing",
        name=library,
    )


class Table:
    """Columns of equal length, and the same by rows. Nothing changes a table once it is there."""

    def __init__(self, columns: Mapping[str, list[Any]], kinds: Mapping[str, str]) -> None:
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise ValueError("columns of a table have one length")
        self._columns = dict(columns)
        self._kinds = {name: kinds[name] for name in columns}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def __iter__(self) -> Iterator[Row]:
        names = self.columns
        for values in zip(*self._columns.values(), strict=True):
            yield dict(zip(names, values, strict=True))

    def __getitem__(self, at: int | str) -> Any:
        """A row by its number, or a column by its name."""
        if isinstance(at, str):
            return list(self._columns[at])
        return {name: values[at] for name, values in self._columns.items()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self._columns == other._columns

    __hash__ = None  # type: ignore[assignment]

    def rows(self) -> list[Row]:
        """The rows, each a dictionary."""
        return list(self)

    def _kept(self, keep: list[bool]) -> dict[str, list[Any]]:
        return {
            name: [value for value, is_kept in zip(values, keep, strict=True) if is_kept]
            for name, values in self._columns.items()
        }

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas frame: counts are ``int64``, figures ``float64`` with NaN for none."""
        try:
            import pandas
        except ImportError:
            raise _missing("pandas", "to_pandas") from None
        dtypes = {"number": "float64", "count": "int64", "flag": "bool"}
        series = {}
        for name, values in self._columns.items():
            kind = self._kinds[name]
            series[name] = pandas.Series(values, dtype=dtypes[kind]) if kind in dtypes else pandas.Series(values, dtype=str)
        return pandas.DataFrame(series)

    def to_polars(self) -> polars.DataFrame:
        """A polars frame: counts are ``Int64``, figures ``Float64`` with null for none."""
        try:
            import polars
        except ImportError:
            raise _missing("polars", "to_polars") from None
        types = {"number": polars.Float64, "count": polars.Int64, "flag": polars.Boolean, "text": polars.String}
        return polars.DataFrame(
            {
                name: polars.Series(name, [float(v) if v is not None else None for v in values], dtype=polars.Float64)
                if self._kinds[name] == "number"
                else polars.Series(name, values, dtype=types[self._kinds[name]])
                for name, values in self._columns.items()
            }
        )

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes the rows as a Parquet file, by polars or else by pyarrow: whole or not at all. Replaces a Parquet file
        and nothing else."""
        write = self._parquet_writer()
        _replace(path, write, b"PAR1", "a Parquet file")

    def _parquet_writer(self) -> Callable[[str], None]:
        try:
            import polars  # noqa: F401
        except ImportError:
            pass
        else:
            frame = self.to_polars()
            return lambda to: frame.write_parquet(to)
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingLibrary(
                "to_parquet() needs polars or pyarrow, and neither is installed: pip install 'framewright[parquet]'",
                name="pyarrow",
            ) from None
        types = {
            "number": pyarrow.float64(),
            "count": pyarrow.int64(),
            "flag": pyarrow.bool_(),
            "text": pyarrow.string(),
        }
        table = pyarrow.table(
            {
                name: pyarrow.array(
                    [float(v) if v is not None else None for v in values]
                    if self._kinds[name] == "number"
                    else values,
                    type=types[self._kinds[name]],
                )
                for name, values in self._columns.items()
            }
        )
        return lambda to: pyarrow.parquet.write_table(table, to)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the rows as JSON Lines: whole or not at all. Replaces a file that begins with ``{`` and nothing else."""

        def write(to: str) -> None:
            with open(to, "w", encoding="utf-8") as file:
                for row in self:
                    file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")

        _replace(path, write, b"{", "JSON Lines")


def _replace(path: str | os.PathLike[str], write: Callable[[str], None], begin: bytes, what: str) -> None:
    """Writes beside ``path`` and renames. What stands there and is something else stays: it may be a recording."""
    target = os.path.realpath(os.fspath(path))
    if os.path.isdir(target):
        raise IsADirectoryError(f"{os.fspath(path)}: is a folder, expected a file's name")
    if os.path.exists(target) and not os.path.isfile(target):
        raise FileExistsError(f"{os.fspath(path)}: is no file, expected a file's name")
    if os.path.exists(target) and os.path.getsize(target) > 0:
        with open(target, "rb") as file:
            if file.read(len(begin)) != begin:
                raise FileExistsError(f"{os.fspath(path)}: is there and is not {what}, so it is not replaced")
    folder, name = os.path.split(target)
    handle, beside = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=folder)
    os.close(handle)
    try:
        write(beside)
        # As `open` would have made it.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(beside, 0o666 & ~mask)
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise


class Rows(Table):
    """A row for each figure of each replay: what was replayed, under which policy, which metric, its value and unit.

    ``variant`` is a policy or ``linux``, what the recording machine itself did. ``error`` is how far a replay of the recording
    kernel's own rules is off what that kernel did, where the recording says so: a difference between variants that is not
    larger means nothing. It is nothing in rows of a sweep.
    """

    def __init__(
        self,
        columns: Mapping[str, list[Any]],
        hollow: Iterable[tuple[str, str]] = (),
        notes: Iterable[str] = (),
    ) -> None:
        super().__init__({name: columns[name] for name in COLUMNS}, _KINDS)
        self.hollow = tuple(hollow)
        """Why the figures say less than they seem to: a word for programs, and a sentence."""
        self.notes = tuple(notes)
        """What a reader must know besides, a sentence each."""

    @classmethod
    def of_case(
        cls,
        case: Mapping[str, Any],
        figures: list[tuple[str, str, int | float, str, str]],
        errors: Mapping[str, float],
        hollow: Iterable[tuple[str, str]] = (),
        notes: Iterable[str] = (),
    ) -> Rows:
        """The figures of one case."""
        columns: dict[str, list[Any]] = {name: [case[name]] * len(figures) for name in CASE}
        transposed = list(zip(*figures, strict=True)) or [()] * 5
        for name, values in zip(("variant", "metric", "value", "unit", "source"), transposed, strict=True):
            columns[name] = list(values)
        columns["error"] = [errors.get(metric) for metric in columns["metric"]]
        return cls(columns, hollow, notes)

    @classmethod
    def concat(cls, parts: Iterable[Rows]) -> Rows:
        """All rows, in the order of the parts."""
        columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        hollow: dict[tuple[str, str], None] = {}
        notes: dict[str, None] = {}
        for part in parts:
            for name in COLUMNS:
                columns[name].extend(part._columns[name])
            hollow.update(dict.fromkeys(part.hollow))
            notes.update(dict.fromkeys(part.notes))
        return cls(columns, hollow, notes)

    def __add__(self, other: Rows) -> Rows:
        if not isinstance(other, Rows):
            return NotImplemented
        return Rows.concat([self, other])

    def where(self, **equal: Any) -> Rows:
        """The rows that have these values: ``rows.where(metric="failures_order3")``. A value may be a list of some."""
        wanted: dict[str, Any] = {}
        for name, value in equal.items():
            if name not in _KINDS:
                raise ValueError(f"there is no column {name!r}, expected some of {', '.join(COLUMNS)}")
            wanted[name] = value if isinstance(value, (list, tuple, set, frozenset)) else (value,)
        keep = [True] * len(self)
        for name, values in wanted.items():
            column = self._columns[name]
            keep = [is_kept and column[at] in values for at, is_kept in enumerate(keep)]
        return Rows(self._kept(keep), self.hollow, self.notes)

    def wide(self) -> Table:
        """A row for each replay, with a column for each metric; ``unit``, ``source`` and ``error`` are left out."""
        keys = (*CASE, "variant")
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        metrics: dict[str, None] = {}
        of_keys = zip(*(self._columns[name] for name in keys), strict=True)
        for key, metric, value in zip(of_keys, self._columns["metric"], self._columns["value"], strict=True):
            found.setdefault(key, {})[metric] = value
            metrics[metric] = None
        columns: dict[str, list[Any]] = {name: [key[at] for key in found] for at, name in enumerate(keys)}
        kinds = {name: _KINDS[name] for name in keys}
        for metric in metrics:
            columns[metric] = [values.get(metric) for values in found.values()]
            is_count = all(isinstance(value, int) for value in columns[metric])
            kinds[metric] = "count" if is_count else "number"
        return Table(columns, kinds)

    def __repr__(self) -> str:
        variants = ", ".join(dict.fromkeys(self._columns["variant"]))
        cases = len(dict.fromkeys(self._columns["case"]))
        return f"<Rows: {len(self)} figures of {cases} case{'s' * (cases != 1)} under {variants or 'no policy'}>"
