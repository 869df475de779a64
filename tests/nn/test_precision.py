"""Every model and layer in other precisions, forward and backward.

They are compared with float64. bfloat16 has 8 bits: of single values in a
product the error is up to 2**-9, and of a few layers some times that.
"""

import contextlib

import dgl
import pytest
import torch
from model_cases import MODELS, make, make_feat, make_graph
from night import pairwise

from dgl_lc import block_aggregate, nn

#: How rows are stored, the model's own type, whether autocast is on, and how
#: much outputs and gradients may differ, as a share of the largest output and
#: of the length of the gradient.
CASES = {
    "float64": (torch.float64, torch.float64, False, 1e-12, 1e-12),
    "float32": (torch.float32, torch.float32, False, 1e-5, 1e-5),
    "autocast": (torch.float32, torch.float32, True, 0.02, 0.05),
    "autocast, bfloat16 rows": (
        torch.bfloat16, torch.float32, True, 0.02, 0.05
    ),
    "bfloat16 rows": (torch.bfloat16, torch.float32, False, 0.01, 0.05),
    "float16 rows": (torch.float16, torch.float32, False, 0.002, 0.005),
    "bfloat16 rows, float64": (
        torch.bfloat16, torch.float64, False, 0.01, 0.05
    ),
    "float64 rows, float32": (
        torch.float64, torch.float32, False, 1e-5, 1e-5
    ),
}  # fmt: skip


def autocast(on):
    if on:
        return torch.autocast("cpu", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def run(module, call, on):
    """Return the output and all gradients of the sum of its squares."""
    with autocast(on):
        output = call(module)
    if output.requires_grad:
        output.double().square().sum().backward()
    grads = [parameter.grad for parameter in module.parameters()]
    assert all(grad is not None for grad in grads)
    grads = [grad.double().flatten() for grad in grads]
    return output.detach().double(), torch.cat([torch.zeros(0), *grads])


def compare(case, made, call, rows):
    """Compare with float64; ``call(module, rows)`` is the output."""
    stored, own, on, far, far_grad = CASES[case]
    wanted, wanted_grad = run(made(), lambda m: call(m, rows), False)
    module = made().to(own)
    found, grad = run(module, lambda m: call(m, rows.to(stored)), on)
    assert (found - wanted).abs().max() <= far * wanted.abs().max()
    assert (grad - wanted_grad).norm() <= far_grad * wanted_grad.norm()
    for parameter in module.parameters():
        assert parameter.grad.dtype == own


@pytest.mark.parametrize(
    ("name", "case", "training"), pairwise(MODELS, CASES, [False, True])
)
def test_models_compute_in_any_precision(name, case, training):
    def made():
        model = make(name).train(training)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        return model

    inputs = made().precompute(make_graph(), make_feat())
    compare(case, made, lambda model, rows: model(None, rows), inputs)


LAYERS = {
    "LCGraphConv": (lambda: nn.LCGraphConv(5, 3), "both"),
    "LCGraphConv, wider": (lambda: nn.LCGraphConv(5, 8), "both"),
    "LCSAGEConv": (lambda: nn.LCSAGEConv(5, 3, "mean"), "right"),
    "LCTAGConv": (lambda: nn.LCTAGConv(5, 3, k=2), "in"),
    "LCSGConv": (lambda: nn.LCSGConv(5, 3, k=2), "in"),
    "LCAPPNPConv": (lambda: nn.LCAPPNPConv(2, 0.1), "both"),
    "LCGCN2Conv": (lambda: nn.LCGCN2Conv(5, 1), "in"),
}


#: A layer converts only rows of fewer bits than its own, as in DGL.
LAYER_CASES = [case for case in CASES if case != "float64 rows, float32"]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("case", LAYER_CASES)
def test_layers_compute_in_any_precision(name, case):
    kind, norm = LAYERS[name]

    def made():
        torch.manual_seed(0)
        return kind().double()

    def call(layer, rows):
        initial = [rows] if name == "LCGCN2Conv" else []
        found = layer(None, rows, *initial)
        return found if isinstance(found, torch.Tensor) else found[0]

    g = dgl.add_self_loop(make_graph())
    hops = block_aggregate(g, make_feat(), 2, norm=norm, self_loop=False)
    compare(case, made, call, hops)


def test_every_layer_is_tried():
    layers = {name for name in nn.__all__ if name.endswith("Conv")}
    assert layers == {name.split(",")[0] for name in LAYERS}
