"""Hooks into DGL are undone, and belong to one thread."""

import importlib
import sys
import threading
import types

import dgl
import pytest
import torch
from torch import nn
from transform.zoo import (
    HID,
    IN,
    REFUSED,
    Layers,
    features,
    gcn,
    looped_graph,
    model_of,
    random_graph,
)

from dgl_lc import LCError, lc_transform
from dgl_lc.transform.tracing import dgl_hooks

pytestmark = pytest.mark.usefixtures("double_precision")


def test_patches_are_undone_also_after_an_error():
    graph, feat = looped_graph(), features()
    spmm = sys.modules["dgl.ops.spmm"]
    before = spmm.gspmm_internal
    call = nn.Module.__call__
    lc_transform(Layers(*gcn()).double(), graph, feat)
    with pytest.raises(LCError):
        lc_transform(REFUSED["gat"].make().model.double(), graph, feat)
    assert spmm.gspmm_internal is before
    assert nn.Module.__call__ is call
    assert torch._C._len_torch_function_stack() == 0


def test_other_threads_are_not_traced():
    graph, feat = looped_graph(), features()
    model = Layers(*gcn()).double().eval()
    expected = model(graph, feat)
    stop, wrong, count = threading.Event(), [], [0]

    def work():
        g = dgl.add_self_loop(dgl.remove_self_loop(random_graph()))
        while not stop.is_set():
            if not torch.equal(model(g, feat), expected):
                wrong.append(1)
            count[0] += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        results = []
        threads = [
            threading.Thread(
                target=lambda: results.append(
                    lc_transform(model, graph, feat).inputs
                )
            )
            for _ in range(3)
        ]
        for other in threads:
            other.start()
        for other in threads:
            other.join()
    finally:
        stop.set()
        thread.join()
    assert len(results) == 3
    assert not wrong
    assert count[0]


def test_what_to_patch_is_found_once_in_a_transformation(monkeypatch):
    model, graph, feat = Layers(*gcn()).double(), looped_graph(), features()
    lc_transform(model, graph, feat)  # imports what is imported late
    found, patches = [], dgl_hooks._patches

    def count():
        found.append(1)
        return patches()

    monkeypatch.setattr(dgl_hooks, "_patches", count)
    for times in (1, 2):
        lc_transform(model, graph, feat)
        assert len(found) == times


@pytest.mark.parametrize("late", ["from dgl import reverse", "import dgl"])
def test_a_module_that_is_imported_by_the_model_is_traced(
    tmp_path, monkeypatch, late
):
    name = f"imported_late_{len(late)}"
    (tmp_path / f"{name}.py").write_text(f"{late}\n")
    monkeypatch.syspath_prepend(tmp_path)

    def body(self, g, x):
        module = importlib.import_module(name)
        reverse = getattr(module, "reverse", None) or module.dgl.reverse
        return dgl.ops.copy_u_sum(reverse(g), self.fc(x))

    model, g = model_of(body, fc=nn.Linear(IN, HID, bias=False)), random_graph()
    try:
        lc = lc_transform(model, g, features())
        found = lc.module(*lc.precompute(g, features()))
        torch.testing.assert_close(found, model(g, features()))
    finally:
        sys.modules.pop(name, None)


def test_a_module_that_takes_the_place_of_another_is_searched(monkeypatch):
    one, other = types.ModuleType("one_module"), types.ModuleType("another")
    other.reverse = dgl.reverse

    def patched():
        return [owner for owner, *_ in dgl_hooks._wrapped_patches()]

    monkeypatch.setitem(sys.modules, "one_module", one)
    with dgl_hooks.transforming():
        assert not any(owner is other for owner in patched())
        monkeypatch.delitem(sys.modules, "one_module")
        monkeypatch.setitem(sys.modules, "another", other)
        assert any(owner is other for owner in patched())
