"""lc_explain: everything that keeps a model from being transformed."""

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from .refusals import LCError, Problem
from .report import Report
from .transform_model import lc_transform


@dataclass(frozen=True)
class Explanation:
    """What lc_transform makes of a model, or why it can't.

    Attributes
    ----------
    problems : list of Problem
        Everything that keeps the model from being transformed, what to
        solve first at the front. Empty if nothing does.
    report : Report or None
        Report of the transformation, if the model can be transformed.
    """

    problems: list[Problem] = field(default_factory=list)
    report: Report | None = None

    @property
    def ok(self) -> bool:
        """Whether the model can be transformed."""
        return not self.problems

    def __str__(self) -> str:
        if self.ok:
            return f"The model can be transformed.\n{self.report}"
        count = len(self.problems)
        several = f"{count} problems" if count > 1 else "1 problem"
        parts = [f"The model can't be transformed: {several}."]
        for number, problem in enumerate(self.problems, 1):
            parts.append(_paragraph(number, problem))
        parts.append("docs/lc_errors.md explains each code.")
        return "\n\n".join(parts)


def _paragraph(number: int, problem: Problem) -> str:
    """Write a problem in a few short lines."""
    lines = [
        f"{number}. {problem.code} {problem.name}",
        f"   where: {problem.where}",
        f"   code:  {problem.text}",
        f"   what:  {problem.operation}",
        f"   why:   {problem.reason}",
        f"   do:    {problem.advice}",
    ]
    if not problem.text:
        del lines[2]
    return "\n".join(lines)


def lc_explain(model: nn.Module, *args: Any, **kwargs: Any) -> Explanation:
    """Say whether a model can be transformed, and list all reasons if not.

    :func:`dgl_lc.lc_transform` stops with an error; this function returns all
    problems at once, with the lines of code that have them.

    Parameters
    ----------
    model : nn.Module
        A model of a homogeneous graph.
    *args, **kwargs
        Arguments of the model's forward, and options, as for
        :func:`dgl_lc.lc_transform`.

    Returns
    -------
    Explanation
        ``print`` it; ``ok`` says whether there are no problems, ``problems``
        lists them.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_lc
    >>> from dgl.nn import GATConv
    >>> g = dgl.add_self_loop(dgl.rand_graph(50, 200))
    >>> found = dgl_lc.lc_explain(GATConv(8, 16, 2), g, torch.randn(50, 8))
    >>> found.ok
    False
    >>> [problem.code for problem in found.problems]
    ['LC004']
    """
    try:
        return Explanation(report=lc_transform(model, *args, **kwargs).report)
    except LCError as error:
        return Explanation(error.problems)
