"""What a module of rows needs: which inputs, of which shape, made how."""

from dataclasses import dataclass
from typing import Any

import torch
from dgl import DGLError


@dataclass(frozen=True)
class NeededInput:
    """An input of a module of rows.

    Attributes
    ----------
    name : str
        Name of the argument: ``s2_x``.
    formula : str
        What has to be precomputed: ``S² x``.
    shape : tuple of int
        Shape of a row.
    dtype : torch.dtype
        Type of the numbers that it was made from.
    """

    name: str
    formula: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        columns = " by ".join(map(str, self.shape)) or "1"
        kind = str(self.dtype).removeprefix("torch.")
        return f"{self.name}: {self.formula}, {columns} columns of {kind}"


@dataclass(frozen=True)
class Needs:
    """The inputs of a module of rows.

    Attributes
    ----------
    inputs : tuple of NeededInput
        The inputs, in the order in which the module takes them.
    filters : tuple of str
        What the names of filters in the formulas mean.
    """

    inputs: tuple[NeededInput, ...]
    filters: tuple[str, ...]

    def __str__(self) -> str:
        lines = [str(entry) for entry in self.inputs]
        return "\n".join([*lines, *(f"  {line}" for line in self.filters)])

    def check(self, rows: Any) -> None:
        """Refuse rows that are not those of these inputs, as far as known.

        Inputs that ``lc.precompute`` made know their formulas and filters.
        """
        formulas = [entry.formula for entry in self.inputs]
        names = getattr(rows, "names", None)
        if names is not None and list(names) != formulas:
            raise _refusal(
                f"the model needs {', '.join(formulas)}, and these are "
                f"{', '.join(names)}"
            )
        filters = getattr(rows, "filters", None)
        if filters is not None and tuple(filters) != self.filters:
            raise _refusal(
                f"the model needs {'; '.join(self.filters)}, and these were "
                f"made with {'; '.join(filters)}"
            )
        if len(rows) != len(self.inputs):
            raise _refusal(
                f"the model needs {len(self.inputs)} ({', '.join(formulas)}), "
                f"and these are {len(rows)}"
            )
        for entry, tensor in zip(self.inputs, rows, strict=True):
            shape = getattr(tensor, "shape", None)
            if shape is None or tuple(shape[1:]) != entry.shape:
                given = "none" if shape is None else tuple(shape[1:])
                raise _refusal(
                    f"a row of {entry.formula} should have shape "
                    f"{entry.shape}, and has {given}"
                )


def _refusal(reason: str) -> DGLError:
    return DGLError(
        f"these inputs were not precomputed for this model: {reason}. Pass "
        f"what lc.precompute returned for it; list(inputs), if you know that "
        f"they are the same."
    )
