"""What the study of today's accuracy compares, and the values that it tries.

Every contest is a model with or without one of the pieces that came after the
LC transformation: normalisation, input dropout and the residual of hop 0
("options"), and label features ("labels"). All models have the same number
of trials. The first ones are spread evenly: trial t has the same value of a
parameter in all models that have that parameter. Each later one changes two
parameters of the best trial so far. With a further piece, the first trial is
the best one without that piece, and there are half as many.
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dgl import DGLError

from .closest_name import did_you_mean

_T = TypeVar("_T")

#: Values that are tried in all models that have the parameter. ``K`` is the
#: last hop: the number of layers of LCGCN and LCJKNet.
COMMON: dict[str, list[Any]] = {
    "hid_feats": [128, 64],
    "K": [3, 5, 8],
    "dropout": [0.2, 0.0, 0.5],
    "lr": [0.003, 0.01],
    "weight_decay": [0.0, 1e-5, 5e-4],
}
#: Number of trials that are spread evenly.
EVEN_TRIALS = 6
#: Parameters that a later trial changes.
_CHANGED = 2
#: Those of the options that the models of the paper left out.
OPTIONS: dict[str, list[Any]] = {
    "input_dropout": [0.0, 0.2],
    "normalization": ["batch", "layer"],
    "residual": [False, True],
}
#: Those of models with label features.
LABELS: dict[str, list[Any]] = {
    "label_hops": [2, 4],
    "label_dropout": [0.5, 0.2],
}


@dataclass(frozen=True)
class Entrant:
    """A model of the study.

    Attributes
    ----------
    title : str
        Its name in the tables.
    model : str
        Its name in :data:`~dgl_lc.experiments.named_models.MODELS`.
    new : bool
        Whether it is one of the later models, which have options of their
        own.
    fixed : dict
        Options that are not tuned.
    own : dict
        Values to try of parameters of this model alone; an empty list omits
        a common one.
    """

    title: str
    model: str
    new: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)
    own: dict[str, list[Any]] = field(default_factory=dict)


_NEW_OWN = {
    "input_dropout": OPTIONS["input_dropout"],
    "normalization": OPTIONS["normalization"],
    "attention_dropout": [0.0, 0.4],
}

#: The models of the study, by title.
ENTRANTS: dict[str, Entrant] = {
    entrant.title: entrant
    for entrant in (
        Entrant("LCGCN", "LCGCN", own={"K": [3, 5, 2]}),
        Entrant("LCJKNet", "LCJKNet", own={"K": [3, 5, 2]}),
        Entrant("LCGPRGNN", "LCGPRGNN",
                own={"alpha": [0.1, 0.5, 0.9], "num_layers": [2, 4]}),
        Entrant("SGC", "SGC", own={"hid_feats": [], "dropout": []}),
        Entrant("SIGN", "SIGN"),
        Entrant("FSGNN", "FSGNN", fixed={"num_layers": 3}),
        Entrant("SAGN", "SAGN", new=True, own=_NEW_OWN),
        Entrant("GAMLP (recursive)", "GAMLP", new=True,
                fixed={"mode": "recursive"},
                own={**_NEW_OWN, "num_layers": [2, 4]}),
        Entrant("GAMLP (jk)", "GAMLP", new=True, fixed={"mode": "jk"},
                own={**_NEW_OWN, "num_layers": [2, 4]}),
    )
}  # fmt: skip

#: Options that a model does not have.
_WITHOUT = {"SGC": ("normalization",)}
#: The parameter that K is in a model with another name for it.
_LAYERS = {"LCGCN": "num_layers", "LCJKNet": "num_layers"}


@dataclass(frozen=True)
class Contest:
    """A model with some of the pieces, which is tuned on its own.

    Attributes
    ----------
    entrant : Entrant
        The model.
    options : bool
        Whether the options of :data:`OPTIONS` are tuned as well. Later models
        have them anyway.
    labels : bool
        Whether the model reads label features.
    """

    entrant: Entrant
    options: bool = False
    labels: bool = False

    @property
    def title(self) -> str:
        """Its name in the tables."""
        pieces = [" + options"] * self.options + [" + labels"] * self.labels
        return self.entrant.title + "".join(pieces)

    @property
    def before(self) -> bool:
        """Whether it has none of the new pieces."""
        return not (self.entrant.new or self.options or self.labels)

    @property
    def space(self) -> dict[str, list[Any]]:
        """The values that are tried for each parameter."""
        found = dict(COMMON)
        if self.options:
            left_out = _WITHOUT.get(self.entrant.model, ())
            found |= {k: v for k, v in OPTIONS.items() if k not in left_out}
        if self.labels:
            found |= LABELS
        found |= self.entrant.own
        return {name: values for name, values in found.items() if values}

    @property
    def without(self) -> "Contest | None":
        """The contest without the last piece, or None if it has none."""
        if self.labels:
            return Contest(self.entrant, options=self.options)
        return Contest(self.entrant) if self.options else None

    def extend(self, params: dict[str, Any]) -> dict[str, Any]:
        """Add the first values of parameters that the last piece has.

        >>> contest = Contest(ENTRANTS["SGC"], options=True)
        >>> contest.extend({"K": 5, "lr": 0.01, "weight_decay": 0.0})
        {'K': 5, 'lr': 0.01, 'weight_decay': 0.0, 'input_dropout': 0.0, \
'residual': False}
        """
        return {
            name: params.get(name, values[0])
            for name, values in self.space.items()
        }

    def draw(self, trial: int) -> dict[str, Any]:
        """Return the parameters of a trial; they depend on nothing else.

        >>> contest = Contest(ENTRANTS["SGC"])
        >>> sorted(contest.draw(0))
        ['K', 'lr', 'weight_decay']
        >>> values = {contest.draw(trial)["K"] for trial in (0, 1, 2)}
        >>> values == {3, 5, 8}
        True
        """
        return {
            name: _drawn(name, values, trial)
            for name, values in self.space.items()
        }

    def change(self, params: dict[str, Any], trial: int) -> dict[str, Any]:
        """Return other values of two parameters, drawn by the trial.

        >>> contest = Contest(ENTRANTS["SIGN"])
        >>> before = contest.draw(0)
        >>> after = contest.change(before, 6)
        >>> sum(after[name] != before[name] for name in before)
        2
        """
        chance = _generator(f"change {trial}")
        names = [name for name, values in self.space.items() if values[1:]]
        found = dict(params)
        for name in chance.sample(names, min(_CHANGED, len(names))):
            others = [v for v in self.space[name] if v != params[name]]
            found[name] = chance.choice(others)
        return found

    def model_options(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the options of the model that parameters stand for."""
        training = ("lr", "weight_decay", "hid_feats")
        found = {k: v for k, v in params.items() if k not in training}
        name = _LAYERS.get(self.entrant.model)
        if name is not None:
            found[name] = found.pop("K")
        return {**self.entrant.fixed, **found}


def _drawn(name: str, values: Sequence[_T], trial: int) -> _T:
    """Draw a value such that each occurs once in as many trials in a row.

    That covers a small space better than independent draws, and more trials
    do not change the earlier ones.
    """
    turn, place = divmod(trial, len(values))
    return _generator(f"{name} {turn}").sample(values, len(values))[place]


def _generator(text: str) -> random.Random:
    """Make a generator that is the same in every process."""
    # Python's own hash of a string is another one in every process.
    found = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(found, "big"))


def contests(titles: Sequence[str]) -> list[Contest]:
    """List the contests of some models, those without new pieces first."""
    for title in titles:
        if title not in ENTRANTS:
            raise DGLError(
                f"model {title!r} is not one of {', '.join(ENTRANTS)}."
                f"{did_you_mean(title, list(ENTRANTS))}"
            )
    entrants = [ENTRANTS[title] for title in titles]
    plain = [Contest(entrant) for entrant in entrants]
    plain.sort(key=lambda contest: contest.entrant.new)
    more = [Contest(e, labels=True) for e in entrants if e.new]
    more += [
        Contest(e, options=True, labels=labels)
        for labels in (True, False)
        for e in entrants
        if not e.new
    ]
    return plain + more
