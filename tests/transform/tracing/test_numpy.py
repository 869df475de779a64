"""Numbers and arrays of NumPy in a model's forward."""

import dgl
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transform.zoo import (
    HID,
    features,
    model_of,
    random_graph,
    transform_body,
)

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


@pytest.mark.parametrize(
    "factor",
    [np.float64(0.5), np.float32(0.5), np.float16(0.5), np.int64(2), np.True_],
)
def test_scalars_of_numpy_are_constants(factor):
    g, x = random_graph(), features()
    for body in (
        lambda self, g, x: self.conv(g, F.relu(self.fc(x) * factor)),
        lambda self, g, x: factor * self.conv(g, F.relu(self.fc(x)) / factor),
        lambda self, g, x: self.conv(g, F.elu(self.fc(x), alpha=factor)),
    ):
        assert lc_transform(model_of(body), g, x).inputs


@pytest.mark.parametrize(
    "as_tensor", [torch.tensor, torch.as_tensor, torch.from_numpy]
)
def test_arrays_of_numpy_are_constants(as_tensor):
    array = np.linspace(0, 1, HID)

    def body(self, g, x):
        h = self.fc(x) * as_tensor(array)
        return self.conv(g, h[:, np.arange(HID)])

    model, g, x = model_of(body), random_graph(), features()
    lc = lc_transform(model, g, x)
    torch.testing.assert_close(
        lc.module(*(torch.zeros_like(r) for r in lc.precompute(g, x))),
        (model.fc.bias * torch.tensor(array) @ model.conv.weight).expand(60, -1)
        + model.conv.bias,
    )


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.0.0",
    reason="a scalar of NumPy 1 converts what it is multiplied with",
)
def test_functions_of_numpy_are_followed():
    def body(self, g, x):
        n = g.in_degrees().to(x) / np.sqrt(np.float64(2) * g.num_nodes())
        return dgl.ops.copy_u_sum(g, self.fc(x)) * n[:, None]

    model, g, x = model_of(body), random_graph(), features()
    model.fc.bias = None
    lc = lc_transform(model, g, x)
    assert lc.report.exact
    torch.testing.assert_close(lc.module(*lc.precompute(g, x)), model(g, x))


@pytest.mark.parametrize("large", [
    lambda n: np.log(n) > 5, lambda n: n > np.float64(100),
    lambda n: n * np.int64(2) > 200, lambda n: np.maximum(n, 5) > 100,
    lambda n: np.float64(100) < n, lambda n: np.int32(100) <= n,
    lambda n: np.clip(n, 1, 150) > 100, lambda n: np.clip(n / 2, None, 90) > 70,
    lambda n: np.round(n / 3, 1) > 40,
])  # fmt: skip
def test_branches_on_functions_of_numpy_are_checked(large):
    def body(self, g, x):
        h = self.conv(g, self.fc(x))
        return 2 * h if large(g.num_nodes()) else h

    lc = lc_transform(model_of(body), random_graph(), features())
    big = random_graph(200, 800)
    with pytest.raises(LCError, match="another branch"):
        lc.precompute(big, features(200))


def test_numbers_of_the_graph_through_numpy_are_refused():
    with pytest.raises(LCError, match="takes a number from the graph"):
        transform_body(
            lambda self, g, x: self.conv(g, self.fc(x) / np.log(g.num_nodes()))
        )


def test_arrays_are_compared_with_sizes_as_before():
    def body(self, g, x):
        few = np.arange(3) < g.num_nodes()
        assert few.tolist() == [True] * 3
        return self.conv(g, self.fc(x)) * float(np.sum(few))

    assert lc_transform(model_of(body), random_graph(), features()).inputs
