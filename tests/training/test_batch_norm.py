"""Batch norm on GPUs, with torch's module in the place of our own calls."""

from unittest import mock

import torch
from ranks_task import HOPS, Net
from torch import nn

from dgl_lc.ranks.group import Ranks
from dgl_lc.training.batch_norm import synchronised

CUDA = torch.device("cuda")
RANKS = mock.create_autospec(Ranks, instance=True)
RANKS.group = mock.sentinel.group


class Shared(nn.Module):
    """Has one norm under two names, and one that is synchronised already."""

    def __init__(self):
        super().__init__()
        self.net = Net(norm=True)
        self.again = self.net.norm
        self.known = nn.SyncBatchNorm(3)


def test_norms_are_synchronised_for_the_time_of_a_run():
    model = Shared().train()
    own, known = model.net.norm, model.known
    state = model.state_dict()
    names = {name: id(p) for name, p in model.named_parameters()}
    with synchronised(model, RANKS, CUDA):
        norm = model.net.norm
        assert isinstance(norm, nn.SyncBatchNorm)
        assert norm.process_group is mock.sentinel.group
        assert norm is model.again
        assert norm.training
        assert model.known is known
        # The optimizer and checkpoints see the same tensors, by their names.
        assert {n: id(p) for n, p in model.named_parameters()} == names
        assert list(model.state_dict()) == list(state)
        norm.running_mean += 1
        model.eval()
    assert model.net.norm is own is model.again
    assert not own.training
    assert torch.equal(own.running_mean, torch.ones(8, dtype=torch.float64))


def test_hop_features_are_normalised_as_one_stack():
    model = Net(norm=True)
    with synchronised(model, RANKS, CUDA):
        norm = model.norm
        with mock.patch.object(
            nn.SyncBatchNorm, "forward", autospec=True,
            side_effect=lambda self, rows: 2 * rows,
        ) as forward:  # fmt: skip
            found = norm(HOPS)
            assert norm(HOPS[1]).equal(2 * HOPS[1])
    assert forward.call_count == 2
    assert len(forward.call_args_list[0].args[1]) == 3 * len(HOPS[0])
    assert found.hops == HOPS.hops
    for k in HOPS.hops:
        assert found[k].equal(2 * HOPS[k])


def test_the_cpu_keeps_its_own_norms():
    model = Net(norm=True)
    own = model.norm
    with synchronised(model, RANKS, torch.device("cpu")):
        assert model.norm is own
