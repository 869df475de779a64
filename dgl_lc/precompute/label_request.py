"""A call of ``label_features``, checked, and how it is carried out."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dgl
import numpy as np
import torch
from dgl import DGLError
from dgl.base import DGLWarning

from .._common.bytes import format_bytes
from .._common.dtypes import find_type
from .._common.rows import empty
from ..hops import FilterSpec, HopFeatures
from ..label_recipe import LabelRecipe
from ..storage.disk_graph import DiskGraph
from ..storage.folder import is_whole, remove_folder
from ..storage.hop_store import (
    KIND,
    PARTS,
    StoredHops,
    StoreHead,
    find_store,
    open_hop_store,
)
from ..storage.keys import array_key
from ..storage.merge_hops import Fill, merge, merge_bytes
from ..storage.write_hops import StoreWriter
from .api import block_aggregate
from .checks import (
    check_hops,
    check_nodes,
    check_spec,
    check_weight,
    take_graph,
)
from .graph.adjacency import GraphLike
from .graph.in_edges import in_edges
from .label_columns import WRITE_BYTES, LabelColumns, label_columns
from .planning.cpu import MemoryTooSmall

#: Stands for the nodes without a label, among the parts.
_OTHERS = -1
#: Bytes for each row that a store holds while its parts are computed.
_CHECKSUMS = 24
#: So many parts are no warning, and more should have so many nodes each.
_FEW_PARTS, _LEAST_NODES = 10, 20


def recipe_key(labels: torch.Tensor, train: torch.Tensor) -> str:
    """Return the key of training labels, as a recipe has it."""
    found = label_columns(
        labels, train, None, len(labels), None, 1, 0, torch.float32
    )
    return _labels_key(found)


def _labels_key(columns: LabelColumns) -> str:
    return "+".join(own.key() for own in columns.nodes)


@dataclass(frozen=True)
class _Group:
    """Rows that are computed together, from the same labels.

    Attributes
    ----------
    name : str
        The name of its folder.
    columns : LabelColumns
        The labels.
    places : int64 Tensor
        Its rows, of those that were asked for, ascending.
    nodes : int64 Tensor
        The nodes of these rows.
    """

    name: str
    columns: LabelColumns
    places: torch.Tensor
    nodes: torch.Tensor


@dataclass(frozen=True)
class LabelRequest:
    """A call of :func:`label_features`, checked."""

    graph: dgl.DGLGraph | DiskGraph
    weight: Any
    columns: LabelColumns
    K: int
    spec: FilterSpec
    nodes: torch.Tensor | None
    recipe: LabelRecipe

    @classmethod
    def of(
        cls,
        g: GraphLike,
        labels: torch.Tensor | np.ndarray,
        train: Any,
        K: int,
        parts: int,
        num_classes: int | None,
        soft: Any,
        scale: bool,
        nodes: Any,
        norm: str,
        self_loop: bool,
        edge_weight: Any,
        seed: int,
        dtype: torch.dtype,
    ) -> "LabelRequest":
        """Check everything that can be checked without work."""
        check_hops(K, None)
        if K < 1:
            raise DGLError(
                f"K={K} should be at least 1: hop 0 would be a node's own "
                f"label."
            )
        for name, value, least in (("parts", parts, 2), ("seed", seed, 0)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise DGLError(f"{name} should be an integer, got {value!r}.")
            if value < least:
                raise DGLError(f"{name}={value} should be at least {least}.")
        if not isinstance(dtype, torch.dtype) or find_type(dtype) is None:
            raise DGLError(
                f"dtype={dtype!r} should be a floating-point type of torch, "
                f"such as torch.float32."
            )
        graph, weight = take_graph(g, labels, edge_weight)
        given = check_weight(graph, weight)
        spec = check_spec(norm, self_loop, given is not None)
        columns = label_columns(
            labels, train, soft, graph.num_nodes(), num_classes, parts, seed,
            dtype,
        )  # fmt: skip
        _warn_of_small_parts(parts, len(columns.nodes[0].ids))
        return cls(
            graph, weight, columns, int(K), spec, check_nodes(graph, nodes),
            LabelRecipe(
                int(K), columns.shape[1], parts, seed, bool(scale), spec.norm,
                spec.self_loop, spec.weighted, soft is not None,
                _labels_key(columns),
            ),
        )  # fmt: skip

    @property
    def hops(self) -> tuple[int, ...]:
        return tuple(range(1, self.K + 1))

    @property
    def num_rows(self) -> int:
        if self.nodes is None:
            return self.graph.num_nodes()
        return len(self.nodes)

    def groups(self) -> list[_Group]:
        """Sort the rows asked for by the labels that they may see."""
        part = self._parts_of_rows()
        sizes = sum(
            own.part.bincount(minlength=self.recipe.parts)
            for own in self.columns.nodes
        )
        count = int(torch.as_tensor(sizes).sum())
        found = []
        for number in range(_OTHERS, self.recipe.parts):
            places = (part == number).nonzero().squeeze(1)
            if len(places) == 0:
                continue
            columns, name = self.columns, "others"
            if number != _OTHERS:
                left = count - int(torch.as_tensor(sizes)[number])
                value = (count - 1) / left if self.recipe.scale else 1.0
                columns = columns.leave_out(number, value)
                name = f"part-{number}"
            nodes = places if self.nodes is None else self.nodes[places]
            found.append(_Group(name, columns, places, nodes))
        return found

    def _parts_of_rows(self) -> torch.Tensor:
        """Return the part of each row asked for."""
        part = torch.full((self.graph.num_nodes(),), _OTHERS, dtype=torch.int32)
        for own in self.columns.nodes:
            part[own.ids] = own.part
        return part if self.nodes is None else part[self.nodes]

    def _taken(self) -> int:
        """Count what is allocated beside the precomputation of a group."""
        held = sum(own.nbytes for own in self.columns.nodes)
        # The parts of all nodes, and places and ids of the rows of groups.
        return held + 8 * self.graph.num_nodes() + 16 * self.num_rows

    @staticmethod
    def _check_budget(budget: int, taken: int) -> None:
        if taken >= budget:
            raise DGLError(
                f"memory={format_bytes(budget)} is too small: the result in "
                f"memory, or what merging takes, and the places of rows are "
                f"{format_bytes(taken)}. Give more, or fewer nodes, or out= "
                f"to have the result on disk."
            )

    def _compute(
        self,
        group: _Group,
        budget: int | None,
        taken: int,
        options: dict[str, Any],
    ) -> HopFeatures:
        """Compute the rows of a group; ``taken`` bytes are not available."""
        left = None
        if budget is not None:
            self._check_budget(budget, taken + WRITE_BYTES)
            left = budget - taken - WRITE_BYTES
        feat: Any = group.columns
        try:
            return block_aggregate(
                self.graph, feat, self.K, hops=self.hops, nodes=group.nodes,
                norm=self.spec.norm, self_loop=self.spec.self_loop,
                edge_weight=self.weight, memory=left, process_group=False,
                **options,
            )  # fmt: skip
        except MemoryTooSmall as error:
            assert budget is not None
            enough = -(-(error.enough + taken + WRITE_BYTES) // 2**20)
            raise MemoryTooSmall(
                f"memory={format_bytes(budget)} is too small: {enough} MiB "
                f"would be enough (memory='{enough}MiB').",
                enough << 20,
            ) from None

    def in_memory(
        self, budget: int | None, options: dict[str, Any]
    ) -> HopFeatures:
        """Compute all rows in memory."""
        columns = self.columns
        size = self.num_rows * columns.shape[1] * columns.dtype.itemsize
        taken = self._taken() + self.K * size
        result: list[torch.Tensor] = []
        spec = self.spec
        for group in self.groups():
            found = self._compute(group, budget, taken, options)
            if not result:
                result = [
                    empty(self.num_rows, columns.shape[1], columns.dtype)
                    for _ in self.hops
                ]
            spec = found.filter
            for own, rows in zip(result, found, strict=True):
                own.index_copy_(0, group.places, rows)
        hops = HopFeatures(result, self.hops, spec, self.nodes)
        hops.label_recipe = self.recipe
        return hops

    def store_head(self) -> StoreHead:
        """Say what a store of the result holds, and what it depends on."""
        nodes, columns = self.nodes, self.columns
        weight = check_weight(self.graph, self.weight)
        recipe = self.recipe.to_json()
        made_from = {
            "graph": in_edges(self.graph).key(weight),
            "nodes": None if nodes is None else array_key(nodes),
            "label_features": recipe,
        }
        kind = find_type(columns.dtype)
        assert kind is not None
        return StoreHead(
            self.num_rows, columns.shape[1], self.hops, kind.name, self.spec,
            nodes is not None, made_from,
        )  # fmt: skip

    def on_disk(
        self,
        folder: Path,
        budget: int | None,
        resume: bool,
        options: dict[str, Any],
    ) -> StoredHops:
        """Compute all rows to a store, or resume, or open what is there."""
        head = self.store_head()
        if resume and is_whole(folder):
            found = find_store(folder, head)
            assert found is not None
            if (folder / PARTS).is_dir():
                # A run that was killed at its very end left them.
                _remove_parts(folder)
            return found
        StoreWriter.check(folder)
        taken = self._taken()
        if budget is not None:
            # Merging begins when the last group is finished.
            self._check_budget(budget, taken + merge_bytes(self.num_rows))
        taken += _CHECKSUMS * self.num_rows
        with StoreWriter(folder, head, self.nodes, resume, True) as writer:
            if not writer.finished:
                groups = self.groups()
                stores = []
                for group in groups:
                    to = {"out": folder / PARTS / group.name, "resume": resume}
                    stores.append(
                        self._compute(group, budget, taken, {**options, **to})
                    )
                merge(
                    writer, _row_source(groups, stores), options["progress"],
                    stores[0].filter.graph,
                )  # fmt: skip
        _remove_parts(folder)
        return open_hop_store(folder)


def _warn_of_small_parts(parts: int, count: int) -> None:
    """Warn of parts so small that what is left out tells a label.

    If rows of all nodes are nearly the same, as in a dense graph or after
    many hops, the one that lacks the label of v is known by what it lacks.
    """
    if parts > _FEW_PARTS and count < _LEAST_NODES * parts:
        warnings.warn(
            f"parts={parts} leaves {count / parts:.0f} training nodes in a "
            f"part: in a dense graph, or after many hops, the labels that a "
            f"row lacks may then tell a model those of the part. Give "
            f"{max(_FEW_PARTS, count // _LEAST_NODES)} parts or fewer.",
            DGLWarning,
            stacklevel=4,
        )


def _row_source(
    groups: Sequence[_Group], stores: Sequence[HopFeatures]
) -> Fill:
    """Take each row from the store of its group."""

    def fill(low: int, high: int, values: torch.Tensor) -> None:
        for group, store in zip(groups, stores, strict=True):
            since, until = torch.searchsorted(
                group.places, torch.tensor([low, high])
            ).tolist()
            if since < until:
                own = torch.arange(since, until)
                rows = store.take(own, own).stack
                rows = rows.view(len(store), len(own), -1).transpose(0, 1)
                values[group.places[since:until] - low] = rows

    return fill


def _remove_parts(folder: Path) -> None:
    """Delete the stores that a finished store was put together of."""
    parts = folder / PARTS
    for part in _subfolders(parts):
        remove_folder(part, KIND)
    with contextlib.suppress(OSError):
        parts.rmdir()


def _subfolders(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if path.is_dir())
