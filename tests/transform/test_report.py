"""The report of a transformation."""

import pytest
from transform.zoo import (
    IN,
    Layers,
    features,
    gcn,
    looped_graph,
)

from dgl_lc import lc_transform

pytestmark = pytest.mark.usefixtures("double_precision")


def test_report_has_tables_for_notebooks():
    lc = lc_transform(Layers(*gcn()).double(), looped_graph(), features())
    html = lc.report._repr_html_()
    assert f"<td>S² x</td><td>s2_x</td><td>{IN}</td>" in html
    assert "<td>relu</td><td></td><td>non-linear</td><td>1</td>" in html


def test_report_says_what_makes_the_difference():
    graph, feat = looped_graph(), features()
    lc = lc_transform(Layers(*gcn()).double(), graph, feat)
    text = str(lc.report)
    assert "S² x" in text
    assert "non-linear: relu" in text
    assert lc.report.columns == IN
    assert lc.report.bytes == 60 * IN * 8
    assert not lc.report.exact
    linear = lc_transform(
        Layers(*gcn(bias=False), activation=lambda h: h).double(), graph, feat
    )
    assert linear.report.exact
    assert "exact" in str(linear.report)
