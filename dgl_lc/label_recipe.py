"""How label features were made, so that the same can be made again."""

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class LabelRecipe:
    """The options of ``label_features`` that its rows depend on.

    Stores of label features and saved models have it.

    Attributes
    ----------
    K : int
        The last hop; the first is 1.
    num_classes : int
        Columns of each hop.
    parts, seed : int
        Parts of the labelled nodes, and the seed of the split.
    scale : bool
        Whether rows of labelled nodes were scaled.
    norm : str
        The norm of the filter.
    self_loop, weighted : bool
        Whether the filter gives every node one self-loop, and whether it has
        edge weights.
    soft : bool
        Whether some of the labels were soft labels.
    labels : str
        The key of the labels, and of the nodes that have one.

    Examples
    --------
    >>> recipe = LabelRecipe(
    ...     2, 40, 5, 0, True, "both", True, False, False, "8f0c"
    ... )
    >>> LabelRecipe.from_json(recipe.to_json()) == recipe
    True
    """

    K: int
    num_classes: int
    parts: int
    seed: int
    scale: bool
    norm: str
    self_loop: bool
    weighted: bool
    soft: bool
    labels: str

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return asdict(self)

    @staticmethod
    def from_json(found: Any) -> "LabelRecipe":
        """Read what a file says; a ValueError if that can't be."""
        names = {part.name for part in fields(LabelRecipe)}
        if not isinstance(found, dict) or set(found) != names:
            raise ValueError("this is no recipe of label features")
        good = (
            all(type(found[n]) is int for n in ("K", "num_classes", "parts"))
            and min(found["K"], found["num_classes"], found["parts"] - 1) > 0
            and type(found["seed"]) is int
            and found["seed"] >= 0
            and all(
                type(found[name]) is bool
                for name in ("scale", "self_loop", "weighted", "soft")
            )
            and all(isinstance(found[name], str) for name in ("norm", "labels"))
        )
        if not good:
            raise ValueError(f"the recipe {found} can't be")
        return LabelRecipe(**found)
