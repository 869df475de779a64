"""Row programs compute what the LC versions do that they were written from."""

import copy
import json
import pickle

import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from night import NIGHT, every
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    TAKEN,
    features,
    lent,
    model_of,
    random_graph,
    ready,
    transform_body,
)

from dgl_lc import lc_transform
from dgl_lc._common.nested import leaves
from dgl_lc.row_programs.read_program import read_program
from dgl_lc.row_programs.verify_program import verify_program
from dgl_lc.row_programs.write_program import write_program

pytestmark = [
    pytest.mark.usefixtures("double_precision"),
    pytest.mark.filterwarnings("ignore:.*lambda_max"),
]

#: Models whose operations a file can't name, and a part of the reason.
NOT_WRITTEN: dict[str, str] = {}


def again(module):
    """Write a module as a file would hold it, and read it again."""
    written = write_program(module)
    verify_program(module, written)
    tensors = {name: t.clone() for name, t in written.tensors.items()}
    return read_program(written.text, tensors)


def run(module, rows):
    torch.manual_seed(3)
    return [leaf for leaf in leaves(module(*rows)) if leaf is not None]


# By day every eighth model, which other tests have as well; at night all.
@pytest.mark.parametrize("name", every(8, TAKEN))
def test_models_of_the_zoo_are_the_same_after_reading(name):
    _, args, kwargs, lc = ready(name, training=NIGHT)
    if name in NOT_WRITTEN:
        with pytest.raises(DGLError, match=NOT_WRITTEN[name]):
            write_program(lc.module)
        return
    rows = list(lc.precompute(*args, **kwargs))
    with lent(lc.module) as module:
        compare_with_what_is_read(module, rows)


def compare_with_what_is_read(module, rows):
    """In outputs, gradients, and the statistics of batch norms."""
    found = again(module)
    assert list(found.state_dict()) == list(module.state_dict())
    for training in (False, True):
        module.train(training)
        found.train(training)
        for mine, its in zip(run(found, rows), run(module, rows), strict=True):
            assert torch.equal(mine, its)
            if training and its.requires_grad:
                its.sum().backward(retain_graph=True)
                mine.sum().backward(retain_graph=True)
    pairs = zip(
        found.named_parameters(), module.named_parameters(), strict=True
    )
    for (mine, one), (its, other) in pairs:
        assert mine == its
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or torch.equal(one.grad, other.grad)
    # The statistics of batch norms are those after the training run.
    for mine, its in zip(found.buffers(), module.buffers(), strict=True):
        assert torch.equal(mine, its)


def test_a_program_is_written_as_it_was_read():
    lc = transform_body(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    first = write_program(lc.module)
    second = write_program(again(lc.module))
    assert first.text == second.text
    assert first.tensors.keys() == second.tensors.keys()


def test_a_program_can_be_copied_pickled_and_moved():
    lc = transform_body(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    rows = list(lc.precompute(random_graph(), features()))
    found = again(lc.module)
    expected = found(*rows)
    assert torch.equal(copy.deepcopy(found)(*rows), expected)
    assert torch.equal(pickle.loads(pickle.dumps(found))(*rows), expected)
    halves = found.float()(*(part.float() for part in rows))
    torch.testing.assert_close(halves.double(), expected, atol=1e-4, rtol=1e-4)


def test_rows_by_name():
    lc = transform_body(
        lambda self, g, x: self.conv(g, self.fc(x)) + self.other(x),
        other=nn.Linear(IN, OUT),
    )
    rows = dict(
        zip(
            [entry.name for entry in lc.inputs],
            lc.precompute(random_graph(), features()),
            strict=True,
        )
    )
    found = again(lc.module)
    assert torch.equal(found(**rows), lc.module(**rows))
    first, second = rows
    for wrong in ({first: rows[first]}, {**rows, "y": rows[first]}):
        with pytest.raises(DGLError, match=f"{first}, {second}: pass each"):
            found(**wrong)
    with pytest.raises(DGLError, match="pass each of them once"):
        found(rows[first], rows[second], rows[second])
    with pytest.raises(DGLError, match="pass each of them once"):
        found(rows[first], **rows)


def test_shared_modules_and_parameters_stay_shared():
    def body(self, g, x):
        h = self.again(self.norm(self.fc(x)))
        return self.conv(g, F.relu(h)) @ self.weight.t()

    norm = nn.BatchNorm1d(HID)
    model = model_of(body, norm=norm, fc=nn.Linear(IN, HID))
    model.again = norm
    model.weight = model.conv.weight
    lc = lc_transform(model, random_graph(), features())
    found = again(lc.module).double()
    assert found.again is found.norm
    assert found.weight is found.conv.weight
    assert len(list(found.parameters())) == len(list(model.parameters()))


def test_frozen_parameters_and_names_without_decay_are_kept():
    model = model_of(lambda self, g, x: self.conv(g, self.fc(x)))
    model.no_weight_decay = frozenset({"fc.weight"})
    model.fc.bias.requires_grad_(False)
    found = again(lc_transform(model, random_graph(), features()).module)
    assert found.no_weight_decay == {"fc.weight"}
    assert not found.fc.bias.requires_grad
    assert found.fc.weight.requires_grad


def test_a_buffer_that_is_not_in_the_state_stays_out_of_it():
    def body(self, g, x):
        return self.conv(g, F.relu(self.fc(x) * self.scale))

    model = model_of(body)
    model.register_buffer("scale", torch.rand(HID), persistent=False)
    lc = lc_transform(model, random_graph(), features())
    found = again(lc.module)
    assert torch.equal(found.scale, model.scale)
    assert "scale" not in found.state_dict()


def test_it_says_what_it_needs():
    lc = transform_body(lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    found = again(lc.module)
    (entry,) = found.needs.inputs
    assert (entry.name, entry.formula) == ("s_x", "S x")
    assert (entry.shape, entry.dtype) == ((IN,), torch.float64)
    assert str(found.needs).startswith("s_x: S x, 7 columns of float64\n  S = ")
    assert "s_x: S x" in repr(found)


class Doubled(nn.Linear):
    """A module that is not torch's own."""

    def forward(self, x):
        return super().forward(x) * 2


def hook(*_):
    """Do nothing, at the wrong time."""


def refused(module, reason):
    with pytest.raises(DGLError, match="can't be written to a file") as caught:
        write_program(module)
    assert reason in str(caught.value)


def transformed(body=None, **parts):
    body = body or (lambda self, g, x: self.conv(g, F.relu(self.fc(x))))
    return transform_body(body, **parts).module


def test_modules_with_code_of_their_own_are_refused():
    module = transformed()
    module.fc.register_forward_hook(hook)
    refused(
        module, "fc is not a Linear as torch makes it: its '_forward_hooks'"
    )
    module = transformed()
    module.fc.forward = hook
    refused(module, "its 'forward' is another")
    module = transformed()
    module.register_forward_hook(hook)
    refused(module, "it has hooks")
    module = transformed()
    module.conv.weight.register_hook(hook)
    refused(module, "conv.weight has hooks")
    module = transformed()
    module.fc.__class__ = Doubled
    refused(module, "test_write_program.Doubled")


def test_functions_that_are_not_torchs_are_refused():
    module = transformed()
    for node in module.graph.nodes:
        if node.target is F.relu:
            node.target = hook
    refused(module, "test_write_program.hook")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "is called with a builtins.object"),
        (torch.Generator(), "is called with a torch._C.Generator"),
        (torch.device("cuda"), "is called with a torch.device (cuda)"),
        (2**70, "is called with an integer of more than 64 bits"),
        ({(1, 2): 3}, "keys that are not texts"),
        (hook, "is called with a builtins.function"),
    ],
)
def test_arguments_that_are_not_plain_are_refused(value, reason):
    module = transformed()
    for node in module.graph.nodes:
        if node.target is F.relu:
            # torch.fx itself would refuse some of these.
            object.__setattr__(node, "_kwargs", {"inplace": value})
    refused(module, reason)


def test_tensors_that_share_memory_are_refused():
    module = transformed(
        lambda self, g, x: self.conv(g, self.fc(x) @ self.turned),
        turned=nn.Parameter(torch.eye(HID)),
    )
    module.turned.data = module.conv.weight.data.t()
    refused(module, "are views of the same memory")


def test_any_class_name_is_written():
    module = transformed()
    type(module).__name__ = "a <b> c"
    assert again(module)._get_name() == "LCVersion"


def test_names_from_data_are_written():
    names = ["in", 'a"b', "<b>", "a b", "é"]
    parts = nn.ModuleDict({name: nn.Linear(IN, HID) for name in names})
    lc = transform_body(
        lambda self, g, x: self.conv(g, sum(p(x) for p in self.parts.values())),
        parts=parts,
    )
    rows = list(lc.precompute(random_graph(), features()))
    found = again(lc.module)
    assert torch.equal(found(*rows), lc.module(*rows))
    assert list(found.parts._modules) == names


def test_autocast_is_written():
    def body(self, g, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = F.linear(x.float(), self.fc.weight.float())
        return self.conv(g, h.double().relu())

    lc = transform_body(body)
    found = again(lc.module)
    rows = list(lc.precompute(random_graph(), features()))
    assert torch.equal(found(*rows), lc.module(*rows))
    assert "autocast.bfloat16:functional.linear" in write_program(found).text


def test_what_can_be_written_is_plain_json():
    module = transformed(
        lambda self, g, x: self.conv(
            g, F.dropout(self.fc(x), 0.5, self.training)[..., 0:HID:1]
        )
    )
    content = json.loads(write_program(module).text)
    assert content["version"] == 1
    text = json.dumps(content["steps"])
    assert text.count('{"training": null}') == 1
    assert '{"ellipsis": null}, {"slice": [0, 8, 1]}' in text
