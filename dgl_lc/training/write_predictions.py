"""Predictions for many nodes, streamed to a file in bounded memory."""

import os
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from dgl import DGLError

from .._common.file_access import replace_buffered
from .._common.progress import progress_bar
from ..data import DiskData, NodeData
from ..hops import HopFeatures
from ..labelled_rows import LabelledRows
from ..node_rows import NodeRows
from ..precompute import with_labels
from ..precompute.checks import has_weights
from ..ranks.call import RankCall
from ..ranks.collectives import Collectives
from ..ranks.group import Group, find_ranks
from ..row_programs.row_module import RowModule
from .chosen_rows import chosen_rows
from .computed_blocks import Model, computed_blocks
from .label_inputs import compute_labels, reads_labels
from .model_rows import check_output, model_device
from .output_kind import CLASSES, NUMBERS, as_values, kind_of
from .prediction_columns import PredictionColumns
from .prediction_files import Writer, check_prediction_file, make_writer
from .prediction_parts import PredictionParts
from .row_model_task import count_classes, refuse_lacking
from .tensor_files import locked
from .trained_on import check_same_task
from .wanted_nodes import WantedNodes


@dataclass(frozen=True)
class WrittenPredictions:
    """What :func:`write_predictions` did.

    Attributes
    ----------
    path : Path
        The file.
    nodes : int
        Predictions in it.
    computed : int
        Nodes whose hop features were not in the store, and were computed.
    blocks : int
        Calls of the precomputation that this took.
    seconds : float
        Seconds that reading, predicting and writing took.
    """

    path: Path
    nodes: int
    computed: int
    blocks: int
    seconds: float = 0.0

    @property
    def rows_per_second(self) -> float:
        """Predictions per second."""
        return self.nodes / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        text = (
            f"{self.path}: predictions for {self.nodes:,} nodes in "
            f"{self.seconds:.1f} s, {self.rows_per_second:,.0f} rows/s"
        )
        if self.computed:
            text += f"; hop features of {self.computed:,} were computed"
        return text


def write_predictions(
    model: Model,
    data: NodeData | DiskData,
    path: str | os.PathLike,
    *,
    nodes: torch.Tensor | None = None,
    rows: NodeRows | None = None,
    label_rows: HopFeatures | None = None,
    class_names: Sequence[str] | None = None,
    probabilities: bool = False,
    memory: int | str | None = None,
    batch_size: int = 16384,
    device: torch.device | str | None = None,
    progress: bool | None = None,
    process_group: Group = None,
) -> WrittenPredictions:
    """Predict the classes of nodes, or numbers, and write them to a file.

    Which of them is what ``fit`` or ``save_model`` has let the model know:
    ``model.trained_on.output``.

    The file is written under another name first, and is there whole or not
    at all; a file of that name is replaced. Where ``torch.distributed`` is
    initialised, as under ``torchrun``, all ranks have to make the same call:
    each predicts a part of the nodes, and rank 0 writes the file.

    Parameters
    ----------
    model : HopModel or RowModule
        A model of ``dgl_lc.nn``, or an LC version, whose inputs have to be
        given as ``rows``. A model that was trained on features or classes of
        other names is an error, as far as the names are known.
    data : NodeData or DiskData
        The task: its graph and features, and the ids of its nodes.
    path : path
        The file. What it ends in says its kind. ``.csv`` and ``.parquet``
        are tables with the columns ``id`` (the user's own ids) and ``class``,
        and with ``p_`` and its name for each class where probabilities are
        asked for. ``.npy`` is an int64 array with the number of each class,
        or a float32 array with a row of probabilities for each node, in the
        order of ``nodes``. A model of several classes per node
        (``loss="bce"``) has a column ``is_`` and its name for each class
        instead of ``class``, of 0 and 1, which is 1 where the probability is
        above 0.5, and a model of numbers a column ``value``, or several; an
        array has a row of these for each node, as uint8 or float32.
    nodes : Tensor, optional
        Numbers of nodes, or a mask. Default: all nodes, in their order.
    rows : NodeRows, optional
        Hop features of this task that exist, such as a store. Those of other
        nodes are computed, and only those. Default: all are computed. Weights
        of edges are used if the model was trained with them; if that is not
        known, if rows was made with them, or the task has any.
    label_rows : HopFeatures, optional
        Label features of this task that exist, for a model with
        ``label_feats``; with a row for each node to predict. Default: they
        are computed from the training labels of the task, as those that the
        model was trained with. With ``rows`` they are computed at once, and
        otherwise block by block.
    class_names : sequence of str, optional
        The name of each class, or of each number that the model gives.
        Default: classes are written as numbers.
    probabilities : bool, optional
        Whether to write the probability of each class, if the model predicts
        classes. Default: False.
    memory : int or str, optional
        Bytes that computing hop features may take. If the hop features of all
        nodes do not fit, they are computed in blocks, each of which reads the
        graph again. Default: half of the memory that is available, which
        ranks on one machine share.
    batch_size : int, optional
        Nodes that the model predicts at a time. Default: 16384.
    device : torch.device, optional
        Device of the model. Default: the one where it is.
    progress : bool, optional
        Whether to show a progress bar. Default: in a terminal, after two
        seconds.
    process_group : ProcessGroup or False, optional
        The ranks that predict together; False for this process alone.
        Default: the default group, if it is initialised.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dgl_lc.data import block_model
    >>> from dgl_lc.nn import SGC
    >>> from dgl_lc.training import write_predictions
    >>> data = block_model(100, num_classes=3, num_feats=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "p.csv")
    ...     found = write_predictions(SGC(4, 3), data, path)
    ...     found.nodes, len(path.read_text().splitlines())
    (100, 101)
    """
    ranks = find_ranks(process_group)
    with ExitStack() as stack:
        collectives = None
        if ranks is not None:
            collectives = Collectives(
                stack.enter_context(RankCall(ranks, "write_predictions"))
            )
        work = _Predictions(
            collectives, model, data, Path(path), nodes, rows, label_rows,
            class_names, probabilities, memory, batch_size, process_group,
        )  # fmt: skip
        if device is not None:
            model.to(device)
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                work.write_file(progress)
        except OSError as error:
            raise DGLError(f"{path} could not be written: {error}.") from error
        finally:
            model.train(training)
        return work.result()


class _Predictions:
    """Predictions to write: by this process, or by several ranks together."""

    def __init__(
        self,
        collectives: Collectives | None,
        model: Model,
        data: NodeData | DiskData,
        path: Path,
        nodes: torch.Tensor | None,
        rows: NodeRows | None,
        label_rows: HopFeatures | None,
        class_names: Sequence[str] | None,
        probabilities: bool,
        memory: int | str | None,
        batch_size: int,
        process_group: Group,
    ):
        self._parts = PredictionParts(collectives)
        self._model, self._data, self._path = model, data, path
        self._rows = rows
        self._batch_size, self._group = batch_size, process_group
        if self._parts.writes:
            check_prediction_file(path)
        if batch_size < 1:
            raise DGLError(f"batch_size={batch_size} should be at least 1.")
        self._is_limited = memory is not None
        self._parts.check_rows(rows)
        if isinstance(model, RowModule):
            self._classes = count_classes(model, data, rows)
        else:
            check_same_task(model, data)
            self._classes = int(model.config["out_feats"])
        _check_names(self._classes, class_names)
        self._kind = kind_of(model)
        _check_kind(self._kind, self._classes, data, probabilities)
        self._columns = PredictionColumns(
            class_names or self._classes, probabilities, self._kind
        )
        self._wanted = WantedNodes.of(data, nodes, rows, collectives)
        lacking = self._wanted.num_lacking
        if isinstance(model, RowModule) and lacking:
            raise refuse_lacking(lacking)
        self._weighted = _is_weighted(model, data, rows)
        if self._weighted and lacking and not has_weights(data.graph):
            raise DGLError(
                f"the model was trained with edge weights, or rows was made "
                f"with them, but {data.name} has none, so that the hop "
                f"features of {lacking:,} nodes can't be computed: give data "
                f"with edge weights."
            )
        self._label_rows = label_rows
        if label_rows is not None and not reads_labels(model):
            raise DGLError(
                "label_rows is for models with label_feats: omit it."
            )
        if rows is not None and reads_labels(model):
            self._rows = rows = self._pair(rows, nodes, memory)
        self._parts.agree(
            model, rows, nodes, batch_size=batch_size, classes=self._classes,
            probabilities=probabilities, lacking=lacking,
            weighted=self._weighted, class_names=list(class_names or ()),
            features=[*data.feat.shape], memory=memory, output=self._kind,
        )  # fmt: skip
        self._budget = self._parts.budget(memory)
        self._blocks = 0
        self._seconds = 0.0

    def _pair(
        self,
        rows: NodeRows,
        nodes: torch.Tensor | None,
        memory: int | str | None,
    ) -> NodeRows:
        """Pair hop features that exist with label features."""
        if isinstance(rows, LabelledRows):
            return rows
        labels = self._label_rows
        if labels is None:
            assert not isinstance(self._model, RowModule)
            own = rows.nodes
            if nodes is not None and rows.shard is None:
                wanted = self._wanted
                whole = slice(0, len(wanted))
                own = wanted.numbers(whole)[~wanted.lacks(whole)].unique()
                if len(own) == 0:
                    return rows
            labels = compute_labels(
                self._model, self._data, own, memory=memory,
                process_group=False,
            )  # fmt: skip
        return with_labels(rows, labels)

    def result(self) -> WrittenPredictions:
        lacking = self._wanted.num_lacking
        blocks = self._blocks if lacking else 0
        return WrittenPredictions(
            self._path, len(self._wanted), lacking, blocks, self._seconds
        )

    def write_file(self, progress: bool | None) -> None:
        """Predict, and write the file on the rank that does so."""
        if not self._parts.writes:
            self._parts.wait_for_file()
            self._predict_all(None, False)
            return
        path = self._path

        def write(file: BinaryIO) -> None:
            writer = make_writer(
                file, path.suffix, len(self._wanted), self._columns
            )
            self._parts.wait_for_file()
            self._predict_all(writer, progress)

        with locked(path):
            # A killed run leaves a part, which the next one replaces.
            replace_buffered(path, write, path.with_name(f".{path.name}.part"))

    def _predict_all(
        self, writer: Writer | None, progress: bool | None
    ) -> None:
        wanted, parts = self._wanted, self._parts
        size = self._batch_size * parts.size
        start = time.perf_counter()
        with progress_bar(
            len(wanted), "predict", progress, unit=" rows"
        ) as bar:
            for first, last, computed in computed_blocks(
                self._model, self._data, wanted, self._budget, self._weighted,
                self._is_limited, self._group, self._label_rows,
            ):  # fmt: skip
                self._blocks += 1
                cuts = [
                    slice(low, min(low + size, last))
                    for low in range(first, last, size)
                ]
                with ExitStack() as stack:
                    sources = [
                        stack.enter_context(
                            closing(self._read(rows, lacking, cuts, size))
                        )
                        for rows, lacking in (
                            (self._rows, False), (computed, True)
                        )
                        if rows is not None
                    ]  # fmt: skip
                    for part in cuts:
                        ids = wanted.numbers(part)
                        found = parts.put_together(
                            partial(self._predict, sources, len(ids))
                        )
                        if writer is not None:
                            own = self._data.ids_of(ids)
                            parts.attempt(partial(writer.write, own, found))
                        bar.update(len(ids))
        if writer is not None:
            parts.attempt(writer.close)
        parts.finish()
        self._seconds = time.perf_counter() - start

    def _read(
        self, rows: NodeRows, lacking: bool, cuts: list[slice], size: int
    ) -> Generator[tuple[torch.Tensor, NodeRows], None, None]:
        """Read the rows of this rank that are, or are not, computed."""

        def choose(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
            ids = self._wanted.numbers(part)
            own = self._wanted.lacks(part) == lacking
            return ids, own & self._parts.mine(rows, ids)

        return chosen_rows(rows, cuts, choose, size)

    def _predict(
        self,
        sources: Iterable[Iterator[tuple[torch.Tensor, NodeRows]]],
        count: int,
    ) -> np.ndarray:
        """Compute probabilities, or numbers, for nodes of this rank."""
        found = np.zeros((count, self._classes), np.float32)
        device = model_device(self._model)
        for source in sources:
            own, batch = next(source)
            if not own.any():
                continue
            output = check_output(self._model(None, batch.to(device)))
            found[own.numpy()] = as_values(output, self._kind).cpu().numpy()
        return found


def _check_names(classes: int, class_names: Sequence[str] | None) -> None:
    if class_names is not None and len(class_names) != classes:
        raise DGLError(
            f"class_names has {len(class_names)} entries, but the model has "
            f"{classes} classes."
        )


def _check_kind(
    kind: str, columns: int, data: NodeData | DiskData, probabilities: bool
) -> None:
    """Refuse what a model does not predict."""
    if kind == NUMBERS and probabilities:
        raise DGLError(
            "probabilities is for models that predict classes, and this one "
            "was trained on numbers: omit it."
        )
    if kind == CLASSES and columns == 1 and data.num_classes != 1:
        raise DGLError(
            "the model gives one column, of which no class can be chosen. If "
            "it says whether something holds, or is a number, save it with "
            "output='labels' or output='numbers' (fit with loss='bce' or 'mse' "
            "does so)."
        )


def _is_weighted(
    model: Model, data: NodeData | DiskData, rows: NodeRows | None
) -> bool:
    """Tell whether rows to compute need weights: as the model and its rows."""
    if isinstance(model, RowModule):
        return False
    if rows is not None:
        model.check_weighted(rows)
    for known in (model.weighted, model.weighted_of(rows)):
        if known is not None:
            return known
    return model.uses_weights and has_weights(data.graph)
