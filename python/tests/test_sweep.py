"""Sweeps: the same rows whichever way, which are those of the command."""

import json
import multiprocessing
import subprocess
from concurrent.futures import ProcessPoolExecutor

import pytest

import framewright

pytestmark = pytest.mark.filterwarnings("ignore::framewright.HollowWarning")

FEW = ["linux-4.4", "linux-6.12", "framewright"]


@pytest.fixture(scope="module")
def fleet(sample_path, tmp_path_factory):
    """Two recordings, the second under a name that is no ASCII."""
    other = tmp_path_factory.mktemp("fleet") / "Gerät 2.pft.zst"
    other.write_bytes(sample_path.read_bytes())
    return [sample_path, other]


@pytest.fixture(scope="module")
def rows(fleet):
    return framewright.sweep(fleet, FEW, squeezes=["160MiB", 0], jobs=1)


def test_the_order_is_that_of_the_arguments(rows):
    cases = list(dict.fromkeys((r["recording"], r["squeeze"], r["variant"]) for r in rows))
    ours = ["linux-4.4", "linux-6.12", "concentrated"]
    assert cases == [(n, s, p) for n in ("sample", "Gerät 2") for s in (40960, 0) for p in ours]
    assert set(rows["error"]) == {None}


def test_threads_make_no_difference(fleet, rows):
    assert framewright.sweep(fleet, FEW, squeezes=["160MiB", 0], jobs=4) == rows


def test_loaded_recordings_make_no_difference(fleet, rows):
    loaded = [framewright.load(path) for path in fleet]
    assert framewright.sweep(loaded, FEW, squeezes=[40960, "0"]) == rows


def test_a_dask_cluster_makes_no_difference(fleet, rows):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert framewright.sweep(fleet, FEW, client, squeezes=["160MiB", 0]) == rows
        loaded = [framewright.load(path) for path in fleet]
        assert framewright.sweep(loaded, FEW, client, squeezes=["160MiB", 0]) == rows
        # A recording is a value like any other there.
        digest = client.submit(lambda recording: recording.digest, loaded[0]).result()
        assert digest == loaded[0].digest
        with pytest.raises(framewright.TraceError) as caught:
            framewright.sweep(__file__, FEW, client)
        assert caught.value.file == __file__
        with pytest.raises(ValueError, match="expected at most"):
            framewright.sweep(fleet, FEW, client, squeezes=2**40)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_makes_no_difference(fleet, rows, method):
    # A child of fork is made while this process has loaded and replayed.
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert framewright.sweep(fleet, FEW, pool, squeezes=["160MiB", 0]) == rows


def test_figures_are_those_of_the_command(fleet, rows, command, tmp_path):
    out = tmp_path / "rows.jsonl"
    asked = ["sweep", *map(str, fleet), "--policy", ",".join(FEW), "--squeeze", "0,160MiB", "--json", str(out)]
    subprocess.run([command, *asked], check=True, capture_output=True)
    theirs = {}
    for row in map(json.loads, out.read_text().splitlines()):
        others = ("experiment", "beside", "version", "commit")
        key = (row.pop("case"), row.pop("trace"), row.pop("squeeze"), row.pop("memory"), row.pop("variant"))
        assert (row.pop("start"), row.pop("watermarks")) == ("imposed", "off")
        theirs[key] = {name: value for name, value in row.items() if name not in others}
    ours = {}
    for row in rows:
        key = (row["recording"], row["digest"], row["squeeze"], row["memory"], row["variant"])
        ours.setdefault(key, {})[row["metric"]] = row["value"]
    assert ours == theirs


def test_memory_that_is_left_is_worked_out_for_each_recording(sample_path, sample):
    left = sample.frames - 40960
    rows = framewright.sweep(sample_path, "linux-6.12", memories=[left, f"{sample.frames * 4}KiB"])
    assert list(dict.fromkeys(rows["squeeze"])) == [40960, 0]
    assert rows.where(squeeze=40960) == framewright.sweep(sample_path, "linux-6.12", squeezes=40960)
    with pytest.raises(ValueError, match="is more than sample has, expected at most"):
        framewright.sweep(sample_path, "linux-6.12", memories=sample.frames + 1)
    with pytest.raises(ValueError, match="expected one of them"):
        framewright.sweep(sample_path, memories=1, squeezes=1)


def test_a_share_of_what_is_always_free_is_that_of_the_command(fleet, command, tmp_path):
    out = tmp_path / "shares.jsonl"
    asked = ["--policy", "linux-6.12", "--squeeze", "97.5%,50%,0%,0", "--json", str(out)]
    subprocess.run([command, "sweep", str(fleet[0]), *asked], check=True, capture_output=True)
    theirs = {row["squeeze"]: row["failures_order3"] for row in map(json.loads, out.read_text().splitlines())}
    assert len(theirs) == 3, "two of them are one"
    given = {"squeezes": ["97.5%", "50%", "0%", 0]}
    rows = framewright.sweep(fleet[0], "linux-6.12", **given)
    found = rows.where(metric="failures_order3")
    assert dict(zip(found["squeeze"], found["value"], strict=True)) == theirs
    assert list(found["squeeze"]) == sorted(theirs, reverse=True)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert framewright.sweep(fleet[0], "linux-6.12", pool, **given) == rows


@pytest.mark.parametrize("share", ["%", "-1%", "100.1%", "97.55%", "1e2%", " 5%"])
def test_a_share_that_is_none(sample_path, share):
    with pytest.raises(ValueError, match="^squeezes=.*expected a share from 0% to 100%"):
        framewright.sweep(sample_path, "linux-6.12", squeezes=share)
    with pytest.raises(ValueError, match="^memories=.*expected a size"):
        framewright.sweep(sample_path, "linux-6.12", memories=share)


def test_settings_are_combined(sample_path):
    rows = framewright.sweep(sample_path, "linux-6.12", starts=["fresh", "imposed"], watermarks=["off", "on"])
    found = list(dict.fromkeys((r["start"], r["watermarks"]) for r in rows))
    assert found == [("fresh", "off"), ("fresh", "on"), ("imposed", "off"), ("imposed", "on")]


def test_recordings_of_one_name_are_told_apart(sample_path, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.pft.zst").write_bytes(sample_path.read_bytes())
    paths = [tmp_path / folder / "run.pft.zst" for folder in ("a", "b")]
    rows = framewright.sweep(paths, "linux-6.12")
    assert list(dict.fromkeys(rows["recording"])) == ["a/run", "b/run"]
    with pytest.raises(ValueError, match="is given twice"):
        framewright.sweep([paths[0], paths[0]], "linux-6.12")


def test_what_is_wrong_is_said_before_the_work(sample_path, tmp_path):
    with pytest.raises(FileNotFoundError):
        framewright.sweep([sample_path, tmp_path / "none.pft"], FEW)
    with pytest.raises(ValueError, match="recordings: expected one or more"):
        framewright.sweep([], FEW)
    with pytest.raises(ValueError, match="squeezes: expected one or more"):
        framewright.sweep(sample_path, FEW, squeezes=[])
    with pytest.raises(ValueError, match="there is no policy 'none'"):
        framewright.sweep(sample_path, "none")
    with pytest.raises(ValueError, match="starts: there is no 'middle'"):
        framewright.sweep(sample_path, FEW, starts="middle")
    with pytest.raises(ValueError, match="jobs=0"):
        framewright.sweep(sample_path, FEW, jobs=0)
    with pytest.raises(TypeError, match="expected a Dask client or an executor"):
        framewright.sweep(sample_path, FEW, client="here")


def test_a_client_that_does_not_wait(sample_path):
    class Asynchronous:
        asynchronous = True

        def submit(self, *_, **__):
            raise AssertionError("no task is wanted")

    with pytest.raises(TypeError, match="expected one that waits"):
        framewright.sweep(sample_path, FEW, Asynchronous())


def test_an_error_ends_a_sweep_and_what_has_not_begun(sample_path, sample):
    with pytest.raises(ValueError, match="expected at most"):
        framewright.sweep(sample_path, FEW, squeezes=[0, sample.free_frames + 1, 1], jobs=1)
    # One that is loaded later is looked at later; a generator of paths is as good as a list.
    rows = framewright.sweep((path for path in [sample_path]), "linux-6.12", squeezes=sample.free_frames)
    assert set(rows["squeeze"]) == {sample.free_frames}
