"""The numbers of the generated data set: each one is a hash of its place.

Papers have a place in time and an id, which is in no order of time. Who cites
whom, the features and the labels follow from the seed.
"""

from typing import NamedTuple

import numpy as np

from .._common.jit import jit

NUM_CLASSES = 172
#: The share of citations inside a class, and of those to well-known papers.
_HOMOPHILY = 0.5
_FAMOUS = 0.7


class Rule(NamedTuple):
    """How papers are named, given their place in time."""

    num_nodes: int
    key: np.uint64
    half: np.uint64
    mask: np.uint64
    times: np.ndarray
    plus: np.ndarray
    inverse: np.ndarray


def make_rule(n: int, seed: int) -> Rule:
    rng = np.random.default_rng(seed)
    bits = max(2, (n - 1).bit_length())
    times = rng.integers(0, 2**63, 3, dtype=np.uint64) * np.uint64(2)
    times += np.uint64(1)
    return Rule(
        num_nodes=n,
        key=rng.integers(0, 2**63, dtype=np.uint64),
        half=np.uint64((bits + 1) // 2),
        mask=np.uint64(2**bits - 1),
        times=times,
        plus=rng.integers(0, 2**63, 3, dtype=np.uint64),
        inverse=np.array(
            [pow(int(factor), -1, 2**64) for factor in times], np.uint64
        ),
    )


@jit
def _hash(x: np.uint64) -> np.uint64:
    """Hash a number to 64 bits that look random (splitmix64)."""
    x = np.uint64(x) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@jit
def name_of(place: int, rule: Rule) -> np.int64:
    """Give the id of the paper at a place in time.

    It is a permutation of the next power of two, repeated until the result
    is a node.
    """
    x = np.uint64(place)
    while True:
        for i in range(3):
            x = (x * rule.times[i] + rule.plus[i]) & rule.mask
            x ^= x >> rule.half
        if x < np.uint64(rule.num_nodes):
            return np.int64(x)


@jit
def place_of(name: int, rule: Rule) -> np.int64:
    """Give the place in time of the paper with an id."""
    x = np.uint64(name)
    while True:
        for i in range(2, -1, -1):
            x ^= x >> rule.half
            x = ((x - rule.plus[i]) * rule.inverse[i]) & rule.mask
        if x < np.uint64(rule.num_nodes):
            return np.int64(x)


@jit
def cite(begin: int, rule: Rule, want_source: bool, out: np.ndarray) -> None:
    """Fill in sources or targets of edges from ``begin`` on."""
    unit = 2.0**-53
    for i in range(len(out)):
        draw = _hash(rule.key + np.uint64(begin + i))
        share = np.float64(draw >> np.uint64(11)) * unit
        paper = 1 + np.int64(share * (rule.num_nodes - 1))
        if want_source:
            out[i] = name_of(paper, rule)
            continue
        draw = _hash(draw)
        kinds = draw & np.uint64(0xFFFF)
        share = np.float64(_hash(draw) >> np.uint64(11)) * unit
        inside = kinds < np.uint64(_HOMOPHILY * 65536)
        famous = (draw >> np.uint64(16)) & np.uint64(0xFFFF)
        # Papers of one class come at equal steps.
        choice = paper // NUM_CLASSES if inside else paper
        if choice == 0:
            inside, choice = False, paper
        if famous < np.uint64(_FAMOUS * 65536):
            older = np.int64(choice * share * share)
        else:
            older = choice - 1 - np.int64(choice * share * share * share)
        if inside:
            older = older * NUM_CLASSES + paper % NUM_CLASSES
        out[i] = name_of(older, rule)


@jit
def describe(
    begin: int, rule: Rule, means: np.ndarray, out: np.ndarray
) -> None:
    """Fill in features of the nodes from ``begin`` on."""
    low = np.uint64(0xFFFF)
    # Four uniform numbers of 16 bits: variance 1/3, nearly Gaussian.
    scale = np.float32(3.0**0.5 / 65536)
    for i in range(len(out)):
        mean = means[place_of(begin + i, rule) % NUM_CLASSES]
        state = _hash(rule.key ^ np.uint64(begin + i))
        for j in range(out.shape[1]):
            x = _hash(state + np.uint64(j))
            total = np.int64(x & low) + np.int64((x >> np.uint64(16)) & low)
            total += np.int64((x >> np.uint64(32)) & low)
            total += np.int64(x >> np.uint64(48))
            out[i, j] = mean[j] + np.float32(total - 131070) * scale


@jit
def label_nodes(
    begin: int,
    rule: Rule,
    labelled: int,
    ends: np.ndarray,
    labels: np.ndarray,
    splits: np.ndarray,
) -> None:
    """Fill in labels of the nodes from ``begin`` on, and their splits.

    Papers, in the order of time, are in groups of one size, and one of each
    group has a label. Splits end at the groups ``ends``. Other papers get nan
    and -1.
    """
    step = rule.num_nodes // labelled
    for node in range(len(labels)):
        labels[node] = np.nan
        splits[node] = -1
        place = place_of(begin + node, rule)
        # The last group of papers that begins at this place or before.
        i = min((place + 1) * labelled // rule.num_nodes + 1, labelled - 1)
        while i * rule.num_nodes // labelled > place:
            i -= 1
        chosen = i * rule.num_nodes // labelled
        chosen += np.int64(_hash(rule.key + np.uint64(~i)) % np.uint64(step))
        if chosen == place:
            labels[node] = place % NUM_CLASSES
            splits[node] = 0
            while i >= ends[splits[node]]:
                splits[node] += 1
