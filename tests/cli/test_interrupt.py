"""Ctrl-C and SIGTERM: one line, and what is kept."""

import os
import signal
import subprocess
import sys
import time

import pytest

from dgl_lc.cli import main


def interrupt(
    call, ready, number=signal.SIGINT, group=False, start=("-m", "dgl_lc.cli")
):
    """Start a command, interrupt it when it is ready; return what it said."""
    process = subprocess.Popen(
        [sys.executable, "-u", *start, *map(str, call)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        ready(process)
        assert process.poll() is None, process.communicate()
        (os.killpg if group else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, out, err


def after_line(words):
    """Wait until the command prints a line with these words."""

    def wait(process):
        for line in process.stdout:
            if words in line:
                return
        pytest.fail("the command ended without that line")

    return wait


LONG = ["--epochs", "100000000", "--patience", "100000000",
        "--hid-feats", "8"]  # fmt: skip


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)],
)
def test_a_command_that_is_interrupted_says_so_in_one_line(number, tmp_path):
    call = ["demo", "--nodes", "200", "--epochs", "100000000", "--out",
            tmp_path / "out"]  # fmt: skip
    code, _, err = interrupt(call, after_line("NodeData"), number)
    assert code == 128 + number
    # Warnings of libraries may follow it.
    assert err.splitlines().count("dgl-lc: interrupted") == 1
    assert "Traceback" not in err


#: Runs the command with an import of torch that takes very long.
SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("importing", flush=True)
            time.sleep(600)
sys.meta_path.insert(0, Slow())
from dgl_lc.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_an_interrupt_while_torch_is_imported(tmp_path):
    call = ["demo", "--nodes", "200", "--out", tmp_path / "out"]
    start = ["-c", SLOW_IMPORT]
    code, _, err = interrupt(call, after_line("importing"), start=start)
    assert code == 130
    assert err == "dgl-lc: interrupted\n"


#: A command that spends its time in a text that is executed, as libraries do.
EXECUTED = """
import sys, time, types
from dgl_lc.cli import main
def run(args):
    print("running", flush=True)
    exec("time.sleep(600)")
def add_command(commands):
    commands.add_parser("demo").set_defaults(run=run)
sys.modules["dgl_lc.cli.demo"] = types.SimpleNamespace(add_command=add_command)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_in_a_text_that_is_executed(tmp_path, number):
    # A folder is run as a module, as by ``python -m``.
    (tmp_path / "__main__.py").write_text(EXECUTED)
    code, _, err = interrupt(
        ["demo"], after_line("running"), number, start=[tmp_path]
    )
    assert (code, err) == (128 + number, "dgl-lc: interrupted\n")


TUNE = ["tune", "SGC", "synthetic:200", "--trials", "1000000", "--epochs",
        "4", "--out"]  # fmt: skip
KEPT = (
    "dgl-lc: interrupted; the trials that finished are kept; the same "
    "command resumes\n"
)


def test_tune_says_what_it_keeps(tmp_path, monkeypatch, capsys):
    from dgl_lc.experiments import tuning

    train, calls = tuning.run_once, []

    def interrupted_in_the_third(*args, **options):
        calls.append(args)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        return train(*args, **options)

    monkeypatch.setattr(tuning, "run_once", interrupted_in_the_third)
    assert main([*TUNE, str(tmp_path)]) == 130
    said = capsys.readouterr()
    assert "2 of 1000000 trials" in said.out
    assert said.err == KEPT
    # The best parameters of an interrupted study are saved.
    assert list((tmp_path / "best").iterdir())


# At any moment, in a process that imports torch and DGL.
@pytest.mark.slow
def test_tune_says_what_it_keeps_whenever_it_is_interrupted(tmp_path):
    call = [*TUNE, tmp_path]
    code, _, err = interrupt(call, after_line("3 of 1000000 trials"))
    assert (code, err) == (130, KEPT)
    assert list((tmp_path / "best").iterdir())


@pytest.mark.parametrize(
    "command", ["tune", pytest.param("reproduce", marks=pytest.mark.slow)]
)
def test_workers_end_without_tracebacks(command, tmp_path):
    if command == "tune":
        call = ["tune", "SGC", "synthetic:200"]
    else:
        call = ["reproduce", "accuracy", "--data", "synthetic:200", "--models",
                "SGC", "GCN"]  # fmt: skip
    call += ["--workers", "2", "--out", tmp_path, *LONG]

    def wait(process):
        # A terminal sends Ctrl-C to workers as well, which may be at their
        # imports or already training.
        deadline = time.monotonic() + 60
        while len(children(process.pid)) < 3:  # the resource tracker is one
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(2)

    code, _, err = interrupt(call, wait, group=True)
    assert code == 130
    assert err.startswith("dgl-lc: interrupted; the ")
    assert err.count("\n") == 1


def children(parent):
    psutil = pytest.importorskip("psutil")
    return psutil.Process(parent).children()


def test_handlers_are_as_before_afterwards(capsys):
    before = signal.getsignal(signal.SIGINT)
    assert main(["plan", "--nodes", "9", "--edges", "9", "--feats", "1",
                 "--hops", "1", "--memory", "1GiB"]) == 0  # fmt: skip
    assert signal.getsignal(signal.SIGINT) is before


def test_a_command_in_the_background_ignores_ctrl_c(monkeypatch):
    """As its shell wants: Ctrl-C is for what runs in the foreground."""
    from dgl_lc.cli import calibrate

    def run(args):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return 0

    monkeypatch.setattr(calibrate, "_run", run)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main(["calibrate"]) == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_that_an_interrupt_became_is_an_interrupt(capsys, monkeypatch):
    """A library may raise an error of its own after Ctrl-C."""
    from dgl_lc.cli import calibrate

    def run(args):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            raise RuntimeError("the download was stopped") from None

    monkeypatch.setattr(calibrate, "_run", run)
    assert main(["calibrate"]) == 130
    assert capsys.readouterr().err == "dgl-lc: interrupted\n"
