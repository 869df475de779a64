"""Suggestions for mistyped names."""

from dgl_lc.experiments.closest_name import closest_name, did_you_mean

NAMES = ["GCN", "LCGCN", "ShaDow-GAT"]


def test_the_most_similar_name_is_found_whatever_its_case():
    assert closest_name("lcgcn", NAMES) == "LCGCN"
    assert closest_name("shadow", NAMES) == "ShaDow-GAT"
    assert closest_name("gcm", NAMES) == "GCN"


def test_nothing_is_suggested_for_a_name_unlike_all_others():
    assert did_you_mean("zzz", NAMES) == ""
    assert closest_name("zzz", [], 0.5) is None
