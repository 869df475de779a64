"""A small task and a run on it, for the tests of checkpoints."""

import os

import torch

from dgl_lc.data import block_model
from dgl_lc.nn import LCGPRGNN, SGC
from dgl_lc.training import fit

DATA = block_model(400, num_feats=16, seed=2)
SPLIT = (DATA.labels, DATA.train, DATA.valid)
DEEP = {"K": 2, "dropout": 0.5}
OPTIONS = {"batch_size": 64, "patience": 100}


def make(kind=SGC, **options):
    torch.manual_seed(0)
    sizes = [DATA.num_feats, DATA.num_classes]
    if kind is not SGC:
        sizes.insert(1, 8)
    return kind(*sizes, **options)


def run(hops, epochs=8, model=None, **options):
    model = make(LCGPRGNN, **DEEP) if model is None else model
    return fit(model, hops, *SPLIT, epochs=epochs, **OPTIONS | options), model


def stray(file):
    """Names of what else is in the folder of a file."""
    return sorted(set(os.listdir(file.parent)) - {file.name})
