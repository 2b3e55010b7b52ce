"""Recordings of a kernel's page allocator, replayed under other rules, as tidy rows.

    import framewright

    recording = framewright.load("mine.pft.zst")
    rows = recording.replay(["linux-6.12", "framewright"], squeeze="160MiB")
    frame = rows.to_pandas()  # or to_polars(), to_parquet(path), rows()

``framewright.sweep`` replays many recordings under many policies and sizes of memory, here or on a Dask cluster.
"""

from ._errors import HollowWarning, TraceError
from ._framewright import __version__
from ._recording import Recording, load
from ._sweep import sweep
from ._table import Rows, Table
from ._tables import Metric, Policy, metrics, policies

__all__ = [
    "HollowWarning",
    "Metric",
    "Policy",
    "Recording",
    "Rows",
    "Table",
    "TraceError",
    "__version__",
    "load",
    "metrics",
    "policies",
    "sweep",
]
