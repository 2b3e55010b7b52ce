"""Facts, rows, and what rows become."""

import json
import math
import subprocess

import pandas
import polars
import pyarrow.parquet
import pytest

import framewright

pytestmark = pytest.mark.filterwarnings("ignore::framewright.HollowWarning")

FEW = ["linux-6.12", "framewright"]


@pytest.fixture(scope="module")
def rows(sample):
    return sample.replay(FEW, squeeze="160MiB")


def figures(rows):
    return {(r["case"], r["variant"], r["metric"]): (r["value"], r["unit"], r["source"]) for r in rows}


def test_a_recording_says_what_it_holds(sample, sample_path):
    assert sample.name == "sample"
    assert sample.path == str(sample_path)
    assert len(sample.digest) == 64
    assert sample.machine["bytes"] == sample.frames * 4096
    assert sample.machine["cpus"] >= 1
    assert 0 < sample.free_frames < sample.frames
    assert sample.events > 100_000
    assert 1 < sample.seconds < 2
    assert all(0 <= order <= 10 and count > 0 for order, count in sample.failures.items())
    assert not sample.is_text
    # Its snapshot is from a moment before: the per-CPU lists are not counted there.
    assert [kind for kind, _ in sample.hollow] == ["inconsistent_start"]
    assert "sample" in repr(sample)


def test_a_digest_is_that_of_the_unpacked_trace(sample, sample_path):
    zstd = pytest.importorskip("pyarrow")
    import hashlib

    with zstd.CompressedInputStream(zstd.OSFile(str(sample_path)), "zstd") as stream:
        assert sample.digest == hashlib.sha256(stream.read()).hexdigest()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ({}, []),
        ({"squeeze": 40000}, ["--squeeze", "40000"]),
        ({"squeeze": "160MiB", "start": "fresh"}, ["--squeeze", "160MiB", "--start", "fresh"]),
        ({"watermarks": "on", "probe": 3}, ["--watermarks", "on", "--probe", "3"]),
        ({"squeeze": 40000, "watermarks": "on", "settings": "all"}, ["--squeeze", "40000", "--watermarks", "on", "--settings", "all"]),
        ({"reclaim": True, "probe_huge": 20, "squeeze": 40000}, ["--reclaim", "--probe-huge", "20", "--squeeze", "40000"]),
    ],
)
def test_rows_are_the_figures_of_the_command(sample, sample_path, command, arguments, options):
    policies = ["linux-4.4", "framewright"] if "reclaim" in arguments else FEW
    rows = sample.replay(policies, **arguments)
    said = subprocess.run(
        [command, "replay", str(sample_path), "--json", "-", "--policy", ",".join(policies), *options],
        check=True,
        capture_output=True,
        text=True,
    )
    records = [json.loads(line) for line in said.stdout.splitlines()][1:]
    plain = [r for r in records if r["variant"] not in ("answer", "trace", "calibration") and "by" not in r]
    assert figures(rows) == {
        (r["case"], r["variant"], r["metric"]): (r["value"], r["unit"], r["source"]) for r in plain
    }
    # In the same order, too, and no figure twice.
    assert [(r["variant"], r["metric"]) for r in rows] == [(r["variant"], r["metric"]) for r in plain]
    errors = {r["metric"].removeprefix("error_"): r["value"] for r in records if r["variant"] == "calibration"}
    assert {r["metric"]: r["error"] for r in rows if r["error"] is not None} == {
        metric: value for metric, value in errors.items() if metric in rows["metric"]
    }
    assert bool(errors) == ("reclaim" not in arguments)


def test_settings_that_were_tried_have_columns_of_their_own(settings_path, command):
    recording = framewright.load(settings_path)
    rows = recording.replay(["linux-6.12"], squeeze="5700MiB")
    wide = rows.where(case="settings/imposed/b1459200").wide()
    tried = ["as-set", "vm.defrag_mode=1", "vm.watermark_boost_factor=0"]
    assert wide["variant"] == ["linux-6.12", *tried]
    frame = wide.to_pandas().set_index("variant")
    # The policy has the recorded kernel's rules, and the kernel as it was set has the same model of a background.
    assert frame.loc["as-set", "failures_order3"] == frame.loc["linux-6.12", "failures_order3"]
    assert frame.loc["vm.watermark_boost_factor=0", "failures_order3"] < frame.loc["as-set", "failures_order3"]
    assert (frame["failures_order3"] > 0).all() and frame["stalled_order0"].notna().all()
    said = subprocess.run(
        [command, "replay", str(settings_path), "--json", "-", "--policy", "linux-6.12", "--squeeze", "5700MiB"],
        check=True,
        capture_output=True,
        text=True,
    )
    records = [json.loads(line) for line in said.stdout.splitlines()][1:]
    of_command = {(r["variant"], r["metric"]): r["value"] for r in records if r["variant"] in tried and "by" not in r}
    assert of_command == {(r["variant"], r["metric"]): r["value"] for r in rows if r["variant"] in tried}
    # Without them there is the policy alone.
    without = recording.replay(["linux-6.12"], squeeze="5700MiB", settings="none")
    assert not set(without["variant"]) & set(tried)


def test_the_same_arguments_give_the_same_rows(sample, rows):
    assert sample.replay(FEW, squeeze=40960, jobs=1) == rows
    assert sample.replay(["linux-6.12", "concentrated", "linux-6.12"], squeeze="160MiB", jobs=7) == rows


def test_memory_is_what_is_left(sample, rows):
    assert sample.replay(FEW, memory=sample.frames - 40960) == rows


def test_all_compared_policies_are_replayed_unless_some_are_named(sample):
    variants = set(sample.replay()["variant"]) - {"linux"}
    assert variants == {p.name for p in framewright.policies() if p.is_compared}


def test_a_policy_is_named_or_given(sample, rows):
    given = {p.name: p for p in framewright.policies()}
    assert sample.replay([given["linux-6.12"], given["concentrated"]], squeeze="160MiB") == rows
    assert given["concentrated"].aliases == ("framewright",)
    assert given["concentrated"].family == "framewright"
    assert not given["no-grouping"].is_compared


def test_metrics_are_the_laboratorys(rows):
    metrics = {metric.name: metric for metric in framewright.metrics()}
    assert set(rows["metric"]) <= set(metrics)
    failures = metrics["failures_order3"]
    assert (failures.unit, failures.better, failures.family) == ("requests", "lower", "failures_orderK")
    assert failures.is_count and failures.definition
    assert metrics["requests_order3"].better is None
    for row in rows:
        assert row["unit"] == metrics[row["metric"]].unit
        assert isinstance(row["value"], int) == metrics[row["metric"]].is_count


def test_a_hollow_answer_is_said_to_be_hollow(sample):
    with pytest.warns(framewright.HollowWarning, match="sample: "):
        rows = sample.replay(["linux-6.12"])
    assert "the command's `--csv`" in dict(rows.hollow)["short_trace"]
    # Options of the command line stand only where it is named.
    for says in [*dict(rows.hollow).values(), *rows.notes]:
        assert "--" not in says.replace("the command's `--csv` with `--every`", ""), says


def test_rows_become_a_pandas_frame(rows):
    frame = rows.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == list(rows.columns)
    assert len(frame) == len(rows)
    assert frame["value"].dtype == "float64" and frame["squeeze"].dtype == "int64"
    table = frame.pivot(index="metric", columns="variant", values="value")
    one = rows.where(variant="concentrated", metric="failures_order3")[0]["value"]
    assert table.loc["failures_order3", "concentrated"] == one


def test_rows_become_a_polars_frame(rows):
    frame = rows.to_polars()
    assert frame.schema["value"] == polars.Float64 and frame.schema["squeeze"] == polars.Int64
    for ours, theirs in zip(rows, frame.iter_rows(named=True), strict=True):
        assert ours == theirs


def test_rows_without_a_row_keep_their_columns(rows):
    none = rows.where(metric="none")
    assert len(none) == 0 and none.rows() == []
    assert list(none.to_pandas().columns) == list(none.to_polars().columns) == list(rows.columns)
    assert none.to_polars().schema == rows.to_polars().schema
    assert len(none.wide()) == 0


@pytest.mark.parametrize("without", [None, "polars"])
def test_rows_become_a_parquet_file(rows, tmp_path, monkeypatch, without):
    if without:
        monkeypatch.setitem(__import__("sys").modules, without, None)
    path = tmp_path / "zeilen-ü.parquet"
    path.touch()
    rows.to_parquet(path)
    rows.to_parquet(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert pyarrow.parquet.read_table(path).to_pylist() == rows.rows()


def test_rows_become_json_lines(rows, tmp_path):
    rows.to_json(tmp_path / "rows.jsonl")
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows.rows()


def test_an_output_does_not_replace_a_recording(rows, copied):
    before = copied.read_bytes()
    for write in (rows.to_parquet, rows.to_json):
        with pytest.raises(FileExistsError, match="is there and is not"):
            write(copied)
        with pytest.raises(IsADirectoryError):
            write(copied.parent)
        with pytest.raises(FileNotFoundError):
            write(copied.parent / "none" / "rows")
    assert copied.read_bytes() == before
    assert [p.name for p in copied.parent.iterdir()] == [copied.name]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(rows, monkeypatch, library):
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(ImportError, match=rf"needs {library}.*pip install 'framewright\[{library}\]'"):
        getattr(rows, f"to_{library}")()


def test_parquet_needs_one_of_two_libraries(rows, monkeypatch, tmp_path):
    for library in ("polars", "pyarrow"):
        monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(ImportError, match="polars or pyarrow"):
        rows.to_parquet(tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


def test_wide_rows_have_a_column_a_metric(rows):
    wide = rows.wide()
    assert wide["variant"] == list(dict.fromkeys(rows["variant"]))
    frame = wide.to_pandas()
    assert frame["failures_order3"].dtype == "int64"
    for row in rows:
        at = wide["variant"].index(row["variant"])
        assert wide[row["metric"]][at] == row["value"]
    assert frame.equals(wide.to_polars().to_pandas()) or math.isclose(frame["samples"].sum(), sum(wide["samples"]))


def test_rows_are_put_together_and_picked(rows):
    some = rows.where(variant=["linux-6.12"])
    both = rows + some
    assert 0 < len(some) < len(rows) and len(both) == len(rows) + len(some)
    assert both.rows() == rows.rows() + some.rows()
    assert both.hollow == rows.hollow
    with pytest.raises(ValueError, match="there is no column 'policy', expected some of"):
        rows.where(policy="linux-6.12")
    assert "of 1 case under linux-6.12, concentrated" in repr(rows)
