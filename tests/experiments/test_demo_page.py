"""The page that the demo writes."""

import pandas as pd

from dgl_lc.experiments.demo_page import is_demo_page, write_page


def test_texts_are_escaped_and_lc_versions_are_marked(tmp_path):
    path = tmp_path / "index.html"
    frame = pd.DataFrame({"model": ["GCN", "LCGCN"], "a<b": ["1", "<2>"]})
    parts = [("table", frame), ("notes", ["  one & two"]), ("pre", "<x>")]
    write_page(path, "<subject>", parts)
    page = path.read_text()
    for text in ("<th>a&lt;b</th>", "<td>&lt;2&gt;</td>", "&lt;subject&gt;",
                 "<li>one &amp; two</li>", "<pre>&lt;x&gt;</pre>"):  # fmt: skip
        assert text in page
    assert page.count('<tr class="lc"><td>LCGCN</td>') == 1
    assert is_demo_page(path)


def test_another_page_is_not_ours(tmp_path):
    path = tmp_path / "index.html"
    assert not is_demo_page(path)
    path.write_text("<!doctype html>")
    assert not is_demo_page(path)
    assert not is_demo_page(tmp_path)
