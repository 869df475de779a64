"""The user's own ids of nodes, in memory: integers, texts or any objects."""

from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from ..node_rows import and_others


class UserIds:
    """The ids that the user's nodes have, in the order of the nodes.

    Parameters
    ----------
    ids : sequence, array or tensor
        An id for each node, no two of them the same: integers, texts, or any
        objects that can be keys of a dict.
    argument : str
        Its name in messages.

    Attributes
    ----------
    ids : array
        int64, or an object array.

    Examples
    --------
    >>> ids = UserIds(["ann", "bob", "eve"])
    >>> ids.find(["eve", "ann"])
    tensor([2, 0])
    """

    def __init__(self, ids: Any, argument: str = "node_ids"):
        self.ids = _plain(ids, argument)
        if self._is_integer:
            sorted_ids = np.sort(self.ids)
            twice = sorted_ids[1:][sorted_ids[1:] == sorted_ids[:-1]]
            if len(twice):
                raise _not_unique(int(twice[0]), len(twice), argument)
            return
        missing = [place for place, own in enumerate(self.ids) if _lacks(own)]
        if missing:
            raise DGLError(
                f"{argument} has no id for node {missing[0]}"
                f"{and_others(len(missing))}: give one for each node."
            )
        try:
            count = len(self._places)
        except TypeError as error:
            raise DGLError(f"{argument}: {error}.") from None
        if count < len(self.ids):
            seen: set[Hashable] = set()
            for own in self.ids:
                if own in seen:
                    break
                seen.add(own)
            raise _not_unique(own, len(self.ids) - count, argument)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def _is_integer(self) -> bool:
        return self.ids.dtype == np.int64

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {own: place for place, own in enumerate(self.ids)}

    def find(self, ids: Any, argument: str = "ids") -> torch.Tensor:
        """Return the node of each id; ids that no node has are an error."""
        given = _plain(ids, argument)
        if self._is_integer and given.dtype == np.int64:
            order = self._order
            places = np.searchsorted(self.ids, given, sorter=order)
            nodes = order[np.minimum(places, len(order) - 1)]
            nodes[self.ids[nodes] != given] = -1
        else:
            known = self._places
            try:
                found = [known.get(own, -1) for own in given.tolist()]
            except TypeError as error:
                raise DGLError(f"{argument}: {error}.") from None
            nodes = np.array(found, np.int64)
        unknown = np.flatnonzero(nodes < 0)
        if len(unknown):
            raise DGLError(
                f"{argument} holds {_shown(given, unknown[0])}"
                f"{and_others(len(unknown))} which no node has; ids of nodes "
                f"are such as {_shown(self.ids, 0)}."
            )
        return torch.from_numpy(nodes)


def _plain(ids: Any, argument: str) -> np.ndarray:
    """Return ids as an int64 array if all are integers, or as objects."""
    if isinstance(ids, torch.Tensor):
        ids = ids.cpu().numpy()
    elif hasattr(ids, "to_numpy"):
        ids = ids.to_numpy()
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise DGLError(f"{argument} should be a list of ids, got {ids!r}.")
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1:
            raise DGLError(
                f"{argument} should have one dimension, got shape {ids.shape}."
            )
        if ids.dtype.kind == "i":
            return ids.astype(np.int64)
        ids = ids.tolist()
    values = list(ids)
    if all(type(v) is int or isinstance(v, np.integer) for v in values):
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            # Larger than int64: compared as Python's integers.
            pass
    # Filled one by one: NumPy would take tuples apart.
    found = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        found[place] = value
    return found


def _shown(ids: np.ndarray, place: int) -> str:
    """Write an id as Python does, whatever NumPy calls its type."""
    return repr(ids[place : place + 1].tolist()[0])


def _lacks(own: Any) -> bool:
    """Tell whether an id is missing: None, NaN or an empty text."""
    return own is None or (isinstance(own, str) and own == "") or own != own


def _not_unique(own: Any, count: int, argument: str) -> DGLError:
    return DGLError(
        f"{argument} holds {own!r}{and_others(count)} more than once: give "
        f"every node an id of its own."
    )
