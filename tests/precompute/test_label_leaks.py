"""Label features tell no node its own label; mutants of them that do."""

from dataclasses import replace

import dgl
import pytest
import torch
from dgl.base import DGLWarning
from night import NIGHT

from dgl_lc.precompute import label_features
from dgl_lc.precompute.label_columns import LabelColumns
from dgl_lc.precompute.label_request import LabelRequest


def _no_part_is_left_out(self, part, value):
    return self


def _only_labels_are_left_out(self, part, value):
    hard, soft = self.nodes
    apart = replace(soft, part=torch.full_like(soft.part, -2))
    return replace(self, nodes=(hard, apart), without=part, value=value)


def _soft_nodes_see_everything(self):
    found = torch.full((self.graph.num_nodes(),), -1, dtype=torch.int32)
    hard = self.columns.nodes[0]
    found[hard.ids] = hard.part
    return found[self.nodes]


MUTANTS = [
    (LabelColumns, "leave_out", _no_part_is_left_out),
    (LabelColumns, "leave_out", _only_labels_are_left_out),
    (LabelRequest, "_parts_of_rows", _soft_nodes_see_everything),
]


#: Whether rows are stored, and what is made to leak. By day, what leaks does
#: in memory alone.
CASES = [(stored, None) for stored in (False, True)]
CASES += [
    (stored, mutant)
    for stored in ([False, True] if NIGHT else [False])
    for mutant in MUTANTS
]


@pytest.mark.parametrize(("stored", "mutant"), CASES)
def test_no_leak_on_a_graph_with_everything(
    tmp_path, monkeypatch, stored, mutant
):
    # Directed, with self-loops, multi-edges and edges there and back; labels
    # and soft labels, and some of the rows in another order.
    gen = torch.Generator().manual_seed(0)
    u, v = torch.randint(16, (2, 60), generator=gen)
    loops = torch.arange(16)
    g = dgl.graph((torch.cat([u, u, v[:20], loops]),
                   torch.cat([v, v, u[:20], loops])))  # fmt: skip
    order = torch.randperm(16, generator=gen)
    train, others, nodes = order[:8], order[8:12], order[:12].flip(0)
    labels = torch.arange(16) % 4
    soft = torch.rand(4, 4, generator=gen).softmax(dim=1)
    if mutant is not None:
        monkeypatch.setattr(*mutant)

    def rows(own, own_soft, name):
        return label_features(
            g, own, train, 2, parts=3, num_classes=4, soft=(others, own_soft),
            nodes=nodes, self_loop=False,
            out=tmp_path / name if stored else None,
        )  # fmt: skip

    before = rows(labels, soft, "before")
    seen = []
    for node in nodes[::2].tolist():
        other, other_soft = labels.clone(), soft.clone()
        if node in train:
            other[node] = (labels[node] + 1) % 4
        else:
            other_soft[others == node] = torch.eye(4)[3]
        after = rows(other, other_soft, f"after-{node}")
        own = torch.tensor([node])
        seen.append(
            not torch.equal(before.rows(own).stack, after.rows(own).stack)
        )
        # It does change rows of others.
        assert not torch.equal(before.rows(nodes).stack,
                               after.rows(nodes).stack)  # fmt: skip
    assert any(seen) == (mutant is not None)


def held_out_accuracy(parts):
    """How well labels are learned that have nothing to do with the graph."""
    n, classes = 240, 3
    gen = torch.Generator().manual_seed(0)
    u, v = (torch.rand(n, n, generator=gen) < 0.5).nonzero().T
    labels = torch.randint(classes, (n,), generator=gen)
    found = label_features(
        dgl.graph((u, v), num_nodes=n), labels, torch.arange(n), 3, parts=parts
    )
    rows = torch.cat([found[hop] for hop in (1, 2, 3)], dim=1).double()
    rows = (rows - rows.mean(0)) / rows.std(0)
    rows = torch.cat([rows, torch.ones(n, 1)], dim=1)
    wanted = torch.eye(classes, dtype=torch.float64)[labels]
    weights = torch.linalg.lstsq(rows[:120], wanted[:120]).solution
    return float(
        ((rows[120:] @ weights).argmax(1) == labels[120:]).double().mean()
    )


def test_what_a_row_lacks_tells_nothing_unless_parts_are_small():
    # No row depends on its own label. But where all rows are nearly the same,
    # a part is known by what it lacks, and so are the labels of its nodes.
    assert held_out_accuracy(5) < 0.45
    with pytest.warns(DGLWarning, match="leaves 1 training nodes in a part"):
        assert held_out_accuracy(240) > 0.9
    with pytest.warns(DGLWarning, match="Give 12 parts or fewer"):
        held_out_accuracy(13)
    held_out_accuracy(12)
