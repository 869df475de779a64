"""Functions that torch.vmap applies to each row."""

import pytest
import torch
import torch.nn.functional as F
from transform.zoo import HID, features, model_of, random_graph

from dgl_lc import LCError, lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def _two(row, other):
    return F.relu(row) + other, row.mean(-1, keepdim=True) * row


@pytest.mark.parametrize("function", [
    lambda self, h: torch.vmap(self.more)(h),
    lambda self, h: torch.vmap(lambda row: F.softmax(row, -1) * 2)(h),
    lambda self, h: torch.vmap(torch.mul, in_dims=(0, None))(h, self.scale),
    lambda self, h: sum(torch.func.vmap(_two)(h, 2 * h)),
])  # fmt: skip
def test_functions_that_use_the_last_dimension_are_taken(function):
    def body(self, g, x):
        return self.conv(g, function(self, self.fc(x)))

    model = model_of(
        body,
        more=torch.nn.Linear(HID, HID),
        scale=torch.nn.Parameter(torch.rand(HID)),
    )
    g, x = random_graph(), features()
    lc = lc_transform(model, g, x)
    assert [str(entry) for entry in lc.inputs] == ["S x"]
    # Rows that are filtered by nothing are those of the model.
    with torch.no_grad():
        rows = model.conv.weight.T @ function(model, model.fc(x)).T
        found = lc.module.eval()(x) - model.conv.bias
    torch.testing.assert_close(found, rows.T)


@pytest.mark.parametrize("function", [
    lambda h: torch.vmap(lambda row: F.softmax(row, 0))(h),
    lambda h: torch.vmap(lambda row: row.norm() * row)(h),
    lambda h: torch.vmap(torch.cumsum, in_dims=(1, None), out_dims=1)(h, 0),
])  # fmt: skip
def test_other_functions_are_refused_by_name(function):
    def body(self, g, x):
        return self.conv(g, function(self.fc(x)))

    with pytest.raises(LCError, match=r"torch\.vmap of") as caught:
        lc_transform(model_of(body), random_graph(), features())
    assert caught.value.code == "LC020"
    assert len(caught.value.problems) == 1
