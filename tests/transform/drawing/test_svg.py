"""SVG: whatever a text is, XML reads it as that text."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from dgl_lc.transform.drawing.boxes import cells, shorten, write_marks
from dgl_lc.transform.drawing.svg import SvgWriter, escape

#: Unpaired surrogates are in no text that can be written to a file.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def read(svg):
    return ElementTree.fromstring(svg)


@given(TEXTS)
def test_any_text_is_read_as_text(text):
    svg = SvgWriter()
    with svg.inside("g", data=text):
        svg.add("text", text)
    element = read(svg.written())
    plain = "".join(c if c.isprintable() else "" for c in text)
    found = "".join(c for c in element[0].text or "" if c.isprintable())
    assert found.replace("\ufffd", "") == plain.replace("\ufffd", "")
    assert len(element) == 1
    assert len(element[0]) == 0


def test_hostile_texts_are_escaped():
    hostile = """</text><script>alert("1" & '2')</script>\x00\x1b\ud800"""
    written = escape(hostile)
    assert not {"<", ">", '"', "'", "\x00", "\x1b", "\ud800"} & set(written)
    read(f"<text>{written}</text>")


def test_underscores_in_names_of_attributes_are_hyphens():
    svg = SvgWriter()
    svg.add("rect", stroke_width=1.25, x=-0.01)
    assert svg.written() == '<rect stroke-width="1.2" x="0"/>\n'


@given(TEXTS, st.integers(5, 40))
def test_shortened_texts_are_short_and_can_be_printed(text, longest):
    short = shorten(text, longest)
    assert len(short) <= longest
    assert short.isprintable()
    assert cells(short) <= 2 * longest


@given(st.sets(st.integers(1, 99), min_size=1))
def test_marks_name_the_first_and_the_last(marks):
    written = write_marks(sorted(marks))
    assert written.startswith(str(min(marks)))
    assert written.endswith(str(max(marks)))
    assert len(written) < 40
