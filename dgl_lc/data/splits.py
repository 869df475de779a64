"""Splits into training, validation and test nodes: given, or random."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from dgl import DGLError

from ..node_rows import and_others, check_ids

#: The parts of a split, in the order in which they are given.
SPLITS = ("train", "valid", "test")
#: Fractions of the labelled nodes, where no split is given.
FRACTIONS = (0.6, 0.2, 0.2)
#: Words for these parts, in lower case.
SPLIT_WORDS = {
    "train": "train", "training": "train",
    "valid": "valid", "val": "valid", "validation": "valid", "dev": "valid",
    "test": "test", "testing": "test",
}  # fmt: skip
#: Words for nodes that are in no part.
NO_PART = ("", "none", "nan", "null", "<na>", "unlabeled", "unlabelled")


def random_split(
    nodes: np.ndarray,
    fractions: Sequence[float],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Split nodes at random; each part is sorted and has at least one node.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> parts = random_split(np.arange(10), (0.6, 0.2, 0.2), rng)
    >>> {name: len(ids) for name, ids in parts.items()}
    {'train': 6, 'valid': 2, 'test': 2}
    """
    check_fractions(fractions)
    if len(nodes) < 3:
        raise DGLError(
            f"{len(nodes)} labelled nodes cannot be split into training, "
            f"validation and test nodes: at least 3 are needed."
        )
    # Rounded where the parts end, so that fractions which make 1 leave no
    # node out, then moved apart where a part would be empty.
    ends: list[int] = []
    for place, end in enumerate(np.cumsum(fractions) * len(nodes)):
        least = ends[-1] + 1 if ends else 1
        ends.append(min(max(round(end), least), len(nodes) - 2 + place))
    parts = np.split(rng.permutation(nodes), ends)[:3]
    return {
        name: torch.from_numpy(np.sort(part).astype(np.int64))
        for name, part in zip(SPLITS, parts, strict=True)
    }


def check_fractions(fractions: Sequence[float]) -> None:
    """Refuse anything but three positive fractions, at most 1 together."""
    try:
        given = [float(part) for part in fractions]
    except (TypeError, ValueError):
        given = []
    # Comparisons with nan are false.
    positive = len(given) == 3 and all(part > 0 for part in given)
    if not (positive and sum(given) <= 1 + 1e-9):
        raise DGLError(
            f"split should be three positive fractions for training, "
            f"validation and test nodes, at most 1 together, got "
            f"{fractions!r}."
        )


def make_split(
    split: Any,
    labels: torch.Tensor,
    seed: int,
    find: Callable[[Any, str], torch.Tensor] | None = None,
) -> dict[str, Any]:
    """Make a split from fractions, or from ids or masks of its parts.

    Parameters
    ----------
    split : sequence of float, or mapping
        Three fractions of the labelled nodes, which are drawn at random. Or
        the ids or a mask of each part, by the names train, valid (or val)
        and test.
    labels : Tensor
        The class of each node, -1 where there is none.
    seed : int
        Seed of the random numbers.
    find : callable, optional
        Function that returns the nodes of the user's own ids. Default: ids
        are the numbers of the nodes.

    Examples
    --------
    >>> labels = torch.tensor([0, 1, 0, -1, 1])
    >>> make_split({"train": [0, 1], "val": [2], "test": [4]}, labels, seed=0)
    {'train': tensor([0, 1]), 'valid': tensor([2]), 'test': tensor([4])}
    """
    if isinstance(split, Mapping):
        parts = _named_parts(split)
        return {
            name: _nodes(parts[name], f"split[{name!r}]", len(labels), find)
            for name in SPLITS
        }
    check_fractions(split)
    labelled = np.flatnonzero(labels.cpu().numpy() >= 0)
    return random_split(labelled, split, _generator(seed))


def split_by_words(words: Sequence[Any], argument: str) -> dict[str, Any]:
    """Return a mask for each part, from a word for each node.

    >>> split_by_words(["train", "val", None, "test"], "split")["valid"]
    array([False,  True, False, False])
    """
    plain = [str(word).strip().lower() for word in words]
    unknown = [
        place
        for place, word in enumerate(plain)
        if word not in SPLIT_WORDS and word not in NO_PART
    ]
    if unknown:
        raise DGLError(
            f"{argument} holds {words[unknown[0]]!r}"
            f"{and_others(len(unknown))} which is no part of a split: the "
            f"words are train, valid and test, and none for other nodes."
        )
    parts = np.array([SPLIT_WORDS.get(word, "") for word in plain])
    return {name: parts == name for name in SPLITS}


def _named_parts(split: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for given, part in split.items():
        name = SPLIT_WORDS.get(str(given).lower().removesuffix("_mask"))
        if name is None or name in found:
            raise DGLError(
                f"split has the part {given!r}: the parts are train, valid "
                f"and test, once each."
            )
        found[name] = part
    missing = [name for name in SPLITS if name not in found]
    if missing:
        raise DGLError(
            f"split has no part {', '.join(missing)}: give ids or a mask for "
            f"train, valid and test."
        )
    return found


def _nodes(
    part: Any,
    argument: str,
    num_nodes: int,
    find: Callable[[Any, str], torch.Tensor] | None,
) -> torch.Tensor:
    if find is not None and not _is_mask(part):
        return find(part, argument)
    return check_ids(part, argument, num_nodes)


def _is_mask(part: Any) -> bool:
    dtype = getattr(part, "dtype", None)
    if dtype is not None:
        return dtype == torch.bool or str(dtype) == "bool"
    return len(part) > 0 and all(isinstance(v, (bool, np.bool_)) for v in part)


def _generator(seed: Any) -> np.random.Generator:
    try:
        if isinstance(seed, bool) or operator.index(seed) < 0:
            raise TypeError
    except TypeError:
        raise DGLError(
            f"seed should be an integer, 0 or more, got {seed!r}."
        ) from None
    return np.random.default_rng(seed)
