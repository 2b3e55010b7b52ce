"""What a new user gets wrong, and what is done to a recording: each ends in an exception that says what was expected."""

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy
import pytest

import framewright

pytestmark = pytest.mark.filterwarnings("ignore::framewright.HollowWarning")


def refused(path, **options):
    with pytest.raises(framewright.TraceError) as caught:
        framewright.load(path, **options)
    assert str(caught.value) == f"{caught.value.place}: {caught.value.message}"
    return caught.value


def test_a_file_that_is_not_there():
    for load in (framewright.load, framewright.sweep):
        with pytest.raises(FileNotFoundError, match="none.pft"):
            load("none.pft")
    with pytest.raises(FileNotFoundError):
        framewright.load("-")
    with pytest.raises(TypeError, match="path=7: expected a path"):
        framewright.load(7)
    with pytest.raises(FileNotFoundError, match="none.state"):
        framewright.load(__file__, state="none.state")


def test_what_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError):
        framewright.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "expected a recording in a file" in str(refused(tmp_path / "pipe"))


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.99])
def test_a_recording_that_is_cut_off(copied, part):
    whole = copied.read_bytes()
    copied.write_bytes(whole[: int(len(whole) * part)])
    error = refused(copied)
    assert error.file == str(copied) and ("ends early" in error.message or error.expected)


def test_a_recording_that_is_damaged(copied):
    whole = bytearray(copied.read_bytes())
    for at in range(len(whole) // 2, len(whole) // 2 + 64):
        whole[at] ^= 0xFF
    copied.write_bytes(whole)
    assert refused(copied).file == str(copied)


def test_a_file_of_something_else(tmp_path):
    for name, content in [("a.py", b"import os\n" * 99), ("b.zip", b"PK\x03\x04" + bytes(99)), ("c.bin", bytes(999))]:
        (tmp_path / name).write_bytes(content)
        error = refused(tmp_path / name)
        assert error.file == str(tmp_path / name)
        assert error.expected, error


def test_a_file_beside_it_that_belongs_to_another(copied):
    beside = copied.with_name("copied.linux_ref.csv")
    beside.write_text(f"# trace sha256 {'0' * 64}\nevent,ms\n")
    error = refused(copied)
    assert error.file == str(beside) and "belongs to another trace" in error.message
    beside.write_text("event,ms\n")
    error = refused(copied)
    assert (error.file, error.line) == (str(beside), 1)
    assert error.place == f"{beside}:1"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.line) == (type(error), str(error), 1)


def test_text_without_state(text_path):
    with pytest.warns(framewright.HollowWarning, match="free memory is invented.* as `state` mends it"):
        text = framewright.load(text_path)
    assert text.is_text and "no_state" in dict(text.hollow)
    rows = text.replay("linux-6.12")
    assert "no_state" in dict(rows.hollow)
    state = text_path.with_name("state") / "sample" / "before.pagetypeinfo"
    with warnings.catch_warnings():
        warnings.simplefilter("error", framewright.HollowWarning)
        known = framewright.load(text_path, state=state)
    assert known.free_frames != text.free_frames
    assert pickle.loads(pickle.dumps(known)).free_frames == known.free_frames


def test_state_that_is_none(text_path, sample_path):
    assert refused(text_path, state=sample_path.with_name("README.md")).file.endswith("README.md")


def test_policies_that_there_are_not(sample):
    with pytest.raises(ValueError, match="there is no policy 'linux-9', expected one of linux-4.4,"):
        sample.replay(["linux-6.12", "linux-9"])
    with pytest.raises(ValueError, match="policies: expected one or more"):
        sample.replay([])
    with pytest.raises(TypeError, match="policies: 3 is no policy"):
        sample.replay([3])
    with pytest.raises(ValueError, match="no kernel that reclaims with the policy linux-6.12, expected some of"):
        sample.replay("linux-6.12", reclaim=True)


@pytest.mark.parametrize("none", [0, "0", "0MiB", numpy.int64(0)])
def test_no_squeeze(sample, none):
    assert sample.replay("linux-6.12", squeeze=none) == sample.replay("linux-6.12")


def test_a_squeeze_of_all_that_is_free(sample):
    rows = sample.replay("linux-6.12", squeeze=sample.free_frames)
    assert sum(rows.where(metric=[f"failures_order{k}" for k in range(11)])["value"]) > 0


@pytest.mark.parametrize("size", ["1TiB", 2**40, numpy.uint64(2**50)])
def test_a_squeeze_that_is_too_large(sample, size):
    with pytest.raises(ValueError, match=f"expected at most the {sample.free_frames} "):
        sample.replay("linux-6.12", squeeze=size)


@pytest.mark.parametrize("size", [-1, 2**70, "5GB", "many", "-5MiB", "", "1.5", "1..5GiB", "99999999999TiB"])
def test_a_squeeze_that_is_none(sample, size):
    with pytest.raises(ValueError, match="^squeeze=.*expected"):
        sample.replay("linux-6.12", squeeze=size)


@pytest.mark.parametrize("size", [1.5, None, True, [1]])
def test_a_squeeze_of_another_type(sample, size):
    with pytest.raises(TypeError, match="^squeeze=.*expected"):
        sample.replay("linux-6.12", squeeze=size)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "middle"}, "start: there is no 'middle', expected 'imposed' or 'fresh'"),
        ({"watermarks": True}, "watermarks: there is no True, expected 'auto' or 'on' or 'off'"),
        ({"settings": "some"}, "settings: there is no 'some', expected 'none' or 'few' or 'all'"),
        ({"probe": 11}, "probe=11: expected an order from 0 to 10"),
        ({"probe_huge": 5}, "expected reclaim=True"),
        ({"probe_huge": -5, "reclaim": True}, "probe_huge=-5: expected a number"),
        ({"jobs": 0}, "jobs=0: expected a number"),
        ({"memory": 1, "squeeze": 1}, "expected one of them"),
        ({"memory": "1TiB"}, "is more than sample has, expected at most"),
        ({"reclaim": True, "watermarks": "on"}, "expected one of reclaim and watermarks"),
    ],
)
def test_options_that_there_are_not(sample, options, message):
    with pytest.raises(ValueError) as caught:
        sample.replay("linux-4.4", **options)
    assert message in str(caught.value)


def test_memory_that_does_not_suffice(sample_path):
    error = refused(sample_path, memory_limit="1MiB")
    found = error.message.partition("memory_limit='")[2].partition("'")[0]
    assert found.endswith("MiB"), error
    with pytest.raises(ValueError, match="memory_limit=0: expected 1 byte or more"):
        framewright.load(sample_path, memory_limit=0)
    assert framewright.load(sample_path, memory_limit="2GiB").events > 0


@pytest.mark.parametrize("name", ["Gerät №7 – 工作.pft.zst", "a b: 7: c.pft.zst", "run.1", "\x1b[31m.pft"])
def test_names_of_all_kinds(copied, name):
    path = copied.rename(copied.with_name(name))
    recording = framewright.load(path)
    assert recording.path == str(path)
    assert "\x1b" not in recording.name and "\x1b" not in repr(recording)
    assert pickle.loads(pickle.dumps(recording)).digest == recording.digest
    path.write_bytes(b"\x28\xb5\x2f\xfd")
    error = refused(path)
    assert error.message and "\x1b" not in str(error)


def test_a_name_that_is_no_text(copied):
    path = os.fsencode(copied.parent) + b"/\xff\xfe.pft.zst"
    os.rename(copied, path)
    recording = framewright.load(pathlib.Path(os.fsdecode(path)))
    rows = framewright.sweep(recording, "linux-6.12")
    assert rows == framewright.sweep(os.fsdecode(path), "linux-6.12")
    rows.to_parquet(copied.with_name("rows.parquet"))


def test_a_recording_is_pickled_as_its_place(copied, monkeypatch, tmp_path, text_path):
    monkeypatch.chdir(copied.parent)
    recording = framewright.load(copied.name)
    pickled = pickle.dumps(recording)
    assert len(pickled) < 1000
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = pickle.loads(pickled)
    assert again.replay("linux-6.12") == recording.replay("linux-6.12")
    copied.write_bytes(text_path.read_bytes())
    with pytest.raises(framewright.TraceError, match="is another recording here"):
        pickle.loads(pickled)
    copied.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickled)


def test_two_threads_replay_one_recording(sample):
    expected = [sample.replay("framewright"), sample.replay("linux-4.4", squeeze=40000)]
    found = [None] * 8

    def work(nth):
        found[nth] = sample.replay("framewright") if nth % 2 == 0 else sample.replay("linux-4.4", squeeze=40000)

    threads = [threading.Thread(target=work, args=(nth,)) for nth in range(len(found))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected * 4


def test_other_threads_go_on_while_it_replays(sample):
    turns, is_over = 0, threading.Event()

    def work():
        nonlocal turns
        while not is_over.is_set():
            turns += 1
            time.sleep(0)

    thread = threading.Thread(target=work)
    thread.start()
    before = turns
    sample.replay(jobs=1)
    during = turns - before
    is_over.set()
    thread.join()
    assert during > 100


def test_a_child_of_fork_replays(sample):
    expected = sample.replay("linux-6.12")
    child = os.fork()
    if child == 0:
        os._exit(0 if sample.replay("linux-6.12") == expected and pickle.loads(pickle.dumps(sample)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Rang(Exception):
    pass


@pytest.mark.parametrize("sweeps", [False, True])
def test_an_interrupt_comes_through_between_policies(sample, sample_path, sweeps):
    every = [policy.name for policy in framewright.policies()]

    def work():
        if sweeps:
            framewright.sweep(sample, every, squeezes=[0, 40000], jobs=1)
        else:
            sample.replay(every, jobs=1)

    def ring(*_):
        raise Rang

    # CPU time, of which a busy machine takes nothing away.
    begun = time.process_time()
    work()
    whole = time.process_time() - begun
    before = signal.signal(signal.SIGALRM, ring)
    try:
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Rang):
            work()
        took = time.process_time() - begun
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # One policy of ten, or of twenty, and what comes before the first.
    assert took < whole / 2


def test_ctrl_c_ends_a_program(sample_path):
    program = (
        "import framewright, sys\n"
        "recording = framewright.load(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    recording.replay(jobs=1)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, sample_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in said
