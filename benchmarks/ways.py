"""Ways from a graph to a trained model: that of dgl-lc, and those of peers.

Every way trains the same model, from the same weights, for the same number of
epochs, and predicts the test nodes. It begins with a graph of which DGL knows
the edges alone (COO).
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dgl_lc  # isort: skip  # noqa: F401  # first: it makes DGL importable
import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from fresh import timed_parts
from measure import Peak
from section import OURS
from tasks import Task
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dgl_lc.experiments.train_one import accuracy
from dgl_lc.training import HopLoader, predict

BATCH = 4096
LR = 0.01
STAGES = (
    "graph", "precomputation", "loading", "training", "prediction",
)  # fmt: skip
FULL_GRAPH = "DGL, full graph"


class Stages:
    """The seconds of each stage."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Add the seconds of what is done meanwhile to a stage."""
        start = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - start

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def add(self, other: "Stages", times: int = 1) -> None:
        """Add the seconds of another run, as often as it is run."""
        for stage, seconds in other.seconds.items():
            self.seconds[stage] += times * seconds


class Ours:
    """dgl-lc, which sorts the edges as a part of its precomputation.

    That part and the norms are shown as the preparation of the graph.
    """

    def __init__(self, task: Task, model: nn.Module):
        self.task, self.model = task, model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=LR)

    def prepare(self, stages: Stages) -> Any:
        """Make what the model reads, of a new graph."""
        task, graph = self.task, self.task.graph()
        some = {} if task.all_labelled else {"nodes": task.labelled}
        with timed_parts() as parts, stages("precomputation"):
            hops = self.model.precompute(
                graph, task.feat, progress=False, **some
            )
        for part in ("sorting", "norms"):
            stages.seconds["graph"] += parts[part]
            stages.seconds["precomputation"] -= parts[part]
        return hops

    def batches(self, inputs: Any) -> Iterable:
        """Return the training batches, shuffled again in each iteration."""
        return HopLoader(
            inputs, self.task.train, self.task.labels, BATCH, shuffle=True
        )

    def logits(self, inputs: Any) -> torch.Tensor:
        """Predict the test nodes."""
        return predict(self.model, inputs, self.task.test)

    def epoch(self, batches: Iterable) -> Stages:
        """Train for one epoch."""
        stages, source = Stages(), iter(batches)
        while True:
            with stages("loading"):
                found = next(source, None)
            if found is None:
                return stages
            with stages("training"):
                batch, labels = found
                self.step(self.model(None, batch), labels)

    def step(self, logits: torch.Tensor, labels: torch.Tensor) -> None:
        loss = F.cross_entropy(logits, labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


class Indexed(Ours):
    """Hop features by DGL's message passing; batches by their indices.

    Norms are folded into rows, as GraphConv does, and self-loops are rows that
    are added, which is faster than messages with weights and a graph with more
    edges. No hop is kept that the model does not read.
    """

    def prepare(self, stages: Stages) -> list:
        task, graph = self.task, self.task.graph()
        with stages("graph"):
            if bool((task.edges[0] == task.edges[1]).any()):
                graph = dgl.remove_self_loop(graph)
            # The CSC alone is what messages need.
            graph = graph.formats("csc")
            norm = (graph.in_degrees().float() + 1).pow(-0.5).unsqueeze(1)
        hops, h = [], task.feat
        with stages("precomputation"):
            for k in range(max(self.model.hops) + 1):
                if k:
                    own = h * norm
                    graph.ndata["h"] = own
                    graph.update_all(fn.copy_u("h", "m"), fn.sum("m", "h"))
                    h = graph.ndata.pop("h").add_(own).mul_(norm)
                    del own
                hops.append(task.rows(h) if k in self.model.hops else None)
        return hops

    def source(
        self, inputs: list, ids: torch.Tensor, labels: torch.Tensor,
        shuffle: bool,
    ) -> Iterable:  # fmt: skip
        """Return what gives batches of some nodes."""
        return Slices(inputs, ids, labels, shuffle)

    def batches(self, inputs: list) -> Iterable:
        train, _, labels = self.task.places()
        return self.source(inputs, train, labels, shuffle=True)

    def logits(self, inputs: list) -> torch.Tensor:
        _, test, labels = self.task.places()
        batches = self.source(inputs, test, labels, shuffle=False)
        with torch.no_grad():
            return torch.cat([self.model(None, hops) for hops, _ in batches])


class Slices:
    """Batches that are taken from tensors by their indices."""

    def __init__(
        self,
        hops: list,
        ids: torch.Tensor,
        labels: torch.Tensor,
        shuffle: bool,
    ):
        self.hops, self.ids, self.labels = hops, ids, labels
        self.shuffle = shuffle

    def __iter__(self) -> Iterator[tuple[list, torch.Tensor]]:
        order = self.ids
        if self.shuffle:
            order = order.index_select(0, torch.randperm(len(order)))
        for some in order.split(BATCH):
            batch = [
                None if hop is None else hop.index_select(0, some)
                for hop in self.hops
            ]
            yield batch, self.labels.index_select(0, some)


class Loaded(Indexed):
    """The same hop features, with torch's DataLoader."""

    def source(
        self, inputs: list, ids: torch.Tensor, labels: torch.Tensor,
        shuffle: bool,
    ) -> Iterable:  # fmt: skip
        return _Loaded(inputs, ids, labels, shuffle)


class _Loaded:
    """Batches of a DataLoader, with None for hops that are not read."""

    def __init__(
        self,
        hops: list,
        ids: torch.Tensor,
        labels: torch.Tensor,
        shuffle: bool,
    ):
        self.places = [k for k, hop in enumerate(hops) if hop is not None]
        self.num_hops = len(hops)
        rows = TensorDataset(
            *(hops[k].index_select(0, ids) for k in self.places),
            labels.index_select(0, ids),
        )
        self.loader = DataLoader(rows, BATCH, shuffle=shuffle)

    def __iter__(self) -> Iterator[tuple[list, torch.Tensor]]:
        for *some, labels in self.loader:
            batch: list = [None] * self.num_hops
            for k, hop in zip(self.places, some, strict=True):
                batch[k] = hop
            yield batch, labels


class PyG(Indexed):
    """Hop features by PyG's SIGN transform; batches by their indices."""

    def prepare(self, stages: Stages) -> list:
        from torch_geometric.data import Data
        from torch_geometric.transforms import SIGN
        from torch_geometric.utils import add_self_loops

        task, last = self.task, max(self.model.hops)
        with stages("graph"):
            edges, _ = add_self_loops(task.edges, num_nodes=len(task.feat))
        with stages("precomputation"):
            data = SIGN(last)(Data(x=task.feat, edge_index=edges))
            hops = [task.feat, *(data[f"x{k}"] for k in range(1, last + 1))]
            return [
                task.rows(hop) if k in self.model.hops else None
                for k, hop in enumerate(hops)
            ]


class FullGraph(Ours):
    """The original model, with one step per epoch on the whole graph."""

    def prepare(self, stages: Stages) -> dgl.DGLGraph:
        graph = self.task.graph()
        with stages("graph"):
            graph = dgl.add_self_loop(graph)
            # CSC for messages, and CSR for their gradients.
            graph.create_formats_()
        return graph

    def batches(self, inputs: dgl.DGLGraph) -> Iterable:
        return [inputs]

    def epoch(self, batches: Iterable) -> Stages:
        stages, (graph,) = Stages(), batches
        with stages("training"):
            logits = self.model(graph, self.task.feat)
            self.step(
                logits.index_select(0, self.task.train),
                self.task.labels.index_select(0, self.task.train),
            )
        return stages

    def logits(self, inputs: dgl.DGLGraph) -> torch.Tensor:
        with torch.no_grad():
            return self.model(inputs, self.task.feat).index_select(
                0, self.task.test
            )


WAYS = {
    OURS: Ours,
    "DGL hops, indexed batches": Indexed,
    "DGL hops, DataLoader": Loaded,
    "PyG SIGN, indexed batches": PyG,
    FULL_GRAPH: FullGraph,
}


@dataclass
class Trained:
    """What a way took, and what it reached."""

    stages: Stages
    peak: int
    accuracy: float


def run_way(
    way: Ours, epochs: int, runs: int, peak: Peak | None = None
) -> Trained:
    """Prepare, train and predict.

    The preparation and the prediction are run several times, and the fastest
    run counts; of the epochs, the fastest one counts as often as there are
    epochs. The peak is that of one preparation, training and prediction.
    """
    first, total = Stages(), Stages()
    inputs = way.prepare(first)
    with total("loading"):
        batches = way.batches(inputs)
    way.model.train()
    trained = [way.epoch(batches) for _ in range(epochs)]
    total.add(min(trained, key=lambda s: s.total), epochs)
    del batches
    way.model.eval()
    logits, predicted = None, []
    for _ in range(runs):
        predicted.append(Stages())
        with predicted[-1]("prediction"):
            logits = way.logits(inputs)
    total.add(min(predicted, key=lambda s: s.total))
    highest = 0 if peak is None else peak.bytes()
    del inputs
    prepared = [first]
    for _ in range(runs - 1):
        prepared.append(Stages())
        way.prepare(prepared[-1])
    total.add(min(prepared, key=lambda s: s.total))
    labels = way.task.labels.index_select(0, way.task.test)
    return Trained(total, highest, accuracy(logits, labels))
