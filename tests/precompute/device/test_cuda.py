"""The calls that reach torch.cuda, without a GPU; and on one, if there is."""

import contextlib
import functools
import inspect
from pathlib import Path
from unittest import mock

import pytest
import torch
from dgl.base import DGLWarning

import dgl_lc
from device.common import (
    compute,
    expected,
    is_close,
    random_graph,
    small_sizes,
)
from dgl_lc.precompute import block_aggregate, plan
from dgl_lc.precompute.device import cuda
from dgl_lc.precompute.device.cuda import CudaDevice, why_not
from dgl_lc.precompute.device.memory_errors import OutOfMemoryError
from dgl_lc.testing.random_graphs import make_features
from dgl_lc.testing.simulated_device import SimulatedDevice

TOTAL = 13_000


def problem():
    torch.manual_seed(0)
    return random_graph(), make_features(60, 21)


class Recorder:
    """Stands for torch.cuda: same signatures, and a log as the simulation's.

    What is given to a stream is done at once, on the CPU.
    """

    def __init__(self):
        self.log = []
        self.peak = self.used = 0
        self._numbers = {}
        self._stream = None
        self._events = {}

    def patches(self):
        def spec(original, effect):
            return mock.create_autospec(original, side_effect=effect)

        real = torch.empty

        def empty(*size, dtype=None, device=None, pin_memory=False):
            if device is not None:
                assert device == torch.device("cuda", 0)
                self.log.append(("empty", size[0]))
            found = real(*size, dtype=dtype)
            return found.fill_(255) if device is not None else found

        return mock.patch.multiple(
            torch.cuda,
            Stream=spec(torch.cuda.Stream, self._make_stream),
            Event=spec(torch.cuda.Event, self._make_event),
            current_stream=mock.create_autospec(torch.cuda.current_stream),
            synchronize=spec(torch.cuda.synchronize, self._synchronize),
            stream=spec(torch.cuda.stream, self._use),
            mem_get_info=spec(
                torch.cuda.mem_get_info, lambda device: (TOTAL, TOTAL)
            ),
            empty_cache=mock.create_autospec(torch.cuda.empty_cache),
        ), mock.patch.object(torch, "empty", empty)

    def _make_stream(self, *args, **kwargs):
        stream = mock.create_autospec(_STREAM, instance=True)
        number = self._numbers[id(stream)] = len(self._numbers)
        self.log.append(("stream", number))

        def wait_event(event):
            other = self._events[id(event)]
            self.log.append(("wait", number, other))

        stream.wait_event.side_effect = wait_event
        return stream

    def _make_event(self, *args, **kwargs):
        event = mock.create_autospec(_EVENT, instance=True)

        def record(stream=None):
            number = self._numbers[id(stream)]
            self._events[id(event)] = number
            self._kept = [*getattr(self, "_kept", []), event]
            self.log.append(("record", number))

        event.record.side_effect = record
        event.synchronize.side_effect = lambda: self.log.append(("sync", True))
        return event

    def _synchronize(self, device=None):
        self.log.append(("sync", False))

    @contextlib.contextmanager
    def _use(self, stream):
        self.log.append(("op", self._numbers[id(stream)]))
        yield


_STREAM, _EVENT = torch.cuda.Stream, torch.cuda.Event


def recorded(kind=CudaDevice):
    """A run on the recorder: hop features and log."""
    g, x = problem()
    recorder = Recorder()
    device = kind(0)
    with contextlib.ExitStack() as stack:
        for patch in recorder.patches():
            stack.enter_context(patch)
        hops = compute(g, x, 3, device, most_entries=50, sizes=small_sizes())
    return hops, recorder.log


@functools.cache
def simulated():
    g, x = problem()
    device = SimulatedDevice(TOTAL, sizes=small_sizes())
    compute(g, x, 3, device, int(0.9 * TOTAL), most_entries=50)
    names = {"in": "op", "out": "op", "launch": "op"}
    return [
        (names[call[0]], call[1]) if call[0] in names else call
        for call in device.log
    ]


def test_the_calls_are_the_simulated_ones():
    hops, log = recorded()
    g, x = problem()
    assert is_close(hops, expected(g, x, 3))
    wanted = simulated()
    assert len(wanted) > 300
    assert log == wanted


class NoWait(CudaDevice):
    def wait(self, stream, event):
        pass


class NoStream(CudaDevice):
    def launch(self, stream, work):
        work()


class CurrentStream(CudaDevice):
    def record(self, stream):
        event = torch.cuda.Event()
        event.record()
        return event


class NoSync(CudaDevice):
    def sync(self, event=None):
        pass


class WrongCall(CudaDevice):
    def wait(self, stream, event):
        stream.wait_event(event, 0)


class OnTheHost(CudaDevice):
    def empty(self, size):
        return torch.empty(size, dtype=torch.uint8)


class CopyOutside(CudaDevice):
    def copy_out(self, stream, target, source):
        target.copy_(source, non_blocking=True)


@pytest.mark.parametrize(
    "kind",
    [NoWait, NoStream, CurrentStream, NoSync, WrongCall, OnTheHost,
     CopyOutside],
)  # fmt: skip
def test_a_device_that_calls_otherwise_is_caught(kind):
    try:
        _, log = recorded(kind)
    except (TypeError, KeyError):
        return
    assert log != simulated()


def test_bytes_that_are_copied_are_the_simulated_ones():
    g, x = problem()
    copied = {"in": 0, "out": 0}

    class Counting(CudaDevice):
        def copy_in(self, stream, target, source):
            copied["in"] += source.nbytes
            super().copy_in(stream, target, source)

        def copy_out(self, stream, target, source):
            copied["out"] += source.nbytes
            CudaDevice.copy_in(self, stream, target, source)

    recorded(Counting)
    device = SimulatedDevice(TOTAL, sizes=small_sizes())
    compute(g, x, 3, device, int(0.9 * TOTAL), most_entries=50)
    assert copied == {"in": device.bytes_in, "out": device.bytes_out}


def test_no_other_file_calls_cuda():
    package = Path(dgl_lc.__file__).parent / "precompute"
    own = package / "device" / "cuda.py"
    for path in package.rglob("*.py"):
        if path != own:
            assert "torch.cuda" not in path.read_text(), path
    assert len(own.read_text().splitlines()) < 100


# Without a GPU


def no_driver(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_torch_with_cuda_but_no_driver(monkeypatch):
    no_driver(monkeypatch)
    g, x = problem()
    with pytest.warns(DGLWarning, match="no GPU, or no driver.* on the CPU"):
        hops = block_aggregate(g, x, 3, device="cuda", host_memory="1GiB")
    assert is_close(hops, expected(g, x, 3))


def test_torch_without_cuda(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    g, x = problem()
    with pytest.warns(DGLWarning, match="built without CUDA"):
        block_aggregate(g, x, 1, device="cuda:0")
    assert "without CUDA" in why_not(torch.device("cuda"))


def test_a_number_that_is_not_there(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert "there are 2 GPUs" in why_not(torch.device("cuda:2"))
    monkeypatch.setattr(torch, "zeros", lambda *a, **k: torch.ones(1))
    assert why_not(torch.device("cuda:1")) is None


def test_a_gpu_that_is_too_old(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "12.1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)

    def zeros(*args, **options):
        raise RuntimeError("no kernel image is available\nand more")

    monkeypatch.setattr(torch, "zeros", zeros)
    g, x = problem()
    with pytest.warns(DGLWarning, match="no kernel image is available. Hop"):
        block_aggregate(g, x, 1, device="cuda")


def test_without_a_number_it_is_the_current_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert CudaDevice().name == "cuda:3"
    assert CudaDevice(1).name == "cuda:1"


@pytest.mark.parametrize(
    "message",
    ["CUSPARSE_STATUS_ALLOC_FAILED when calling", "CUDA error: out of memory",
     "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES"],
)  # fmt: skip
def test_a_library_that_is_out_of_memory(message, monkeypatch):
    monkeypatch.setattr(
        torch.cuda, "stream", lambda stream: contextlib.nullcontext()
    )

    def work():
        raise RuntimeError(message)

    with pytest.raises(OutOfMemoryError, match=message):
        CudaDevice(0).launch(None, work)

    def other():
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else") as error:
        CudaDevice(0).launch(None, other)
    assert not isinstance(error.value, OutOfMemoryError)


def test_a_plan_needs_no_gpu():
    g, x = problem()
    found = plan(g, x, 3, device="cuda", memory="100MiB")
    assert found.device == "cuda"
    assert found.peak_bytes <= 100 * 2**20


def test_every_method_of_the_protocol_is_there():
    from dgl_lc.precompute.device.protocol import Device

    for name, method in inspect.getmembers(Device, inspect.isfunction):
        if not name.startswith("_"):
            own = inspect.signature(getattr(SimulatedDevice, name))
            wanted = inspect.signature(method)
            assert list(own.parameters) == list(wanted.parameters), name
            assert hasattr(cuda.CudaDevice, name)


# On a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("memory", [None, "64MiB"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_on_a_gpu(memory, dtype):
    torch.manual_seed(0)
    g, x = random_graph(20_000, 300_000), make_features(20_000, 40)
    nodes = torch.arange(0, 20_000, 7)
    for rows in (None, nodes):
        wanted = block_aggregate(g, x, 3, nodes=rows, dtype=dtype)
        found = block_aggregate(
            g, x, 3, nodes=rows, dtype=dtype, device="cuda", memory=memory
        )
        for hop in range(4):
            assert torch.allclose(
                found[hop].float(), wanted[hop].float(), rtol=1e-2, atol=1e-3
            )
