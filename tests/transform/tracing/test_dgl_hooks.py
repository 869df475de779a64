"""Hooks into DGL are undone, and belong to one thread."""

import sys
import threading

import dgl
import pytest
import torch
from torch import nn
from transform.zoo import (
    REFUSED,
    Layers,
    features,
    gcn,
    looped_graph,
    random_graph,
)

from dgl_lc import LCError, lc_transform

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
