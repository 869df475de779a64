"""Pictures of models: complete, legible, safe, and the same every time."""

from xml.etree import ElementTree

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl import DGLError
from dgl import nn as dglnn
from night import every
from torch import nn
from transform.zoo import (
    HID,
    IN,
    OUT,
    TAKEN,
    Function,
    Layers,
    features,
    gcn,
    looped_graph,
    ready,
)

from dgl_lc import lc_transform
from dgl_lc.transform.drawing.boxes import (
    AGGREGATION,
    INPUTS,
    OPERATIONS,
    REPEAT,
)
from dgl_lc.transform.drawing.draw_lc import make_picture
from dgl_lc.transform.drawing.place import SMALL, TEXT, place
from dgl_lc.transform.tracing.values import arguments_of, values_in

pytestmark = pytest.mark.usefixtures("double_precision")

SVG = "{http://www.w3.org/2000/svg}"


def picture_of(lc):
    return make_picture(lc._model, lc._pushed, lc.inputs, lc.report.filters)


def all_boxes(diagram):
    for box in diagram.boxes:
        yield box
        if box.inner is not None:
            yield from all_boxes(box.inner)


def marks(diagram, kind):
    lines = [
        line
        for box in all_boxes(diagram)
        if box.kind == kind
        for line in box.lines
    ]
    return [mark for line in lines for mark in line.marks]


def aggregations(lc):
    """The aggregations that outputs need: of features or learned, and all."""
    used, pending = set(), values_in(lc._pushed.trace.output)
    while pending:
        value = pending.pop()
        if value not in used:
            used.add(value)
            pending.extend(arguments_of(value))

    def of_features(value):
        if value.op == "input":
            # Those of edges with one column are weights.
            return value.dims[:1] == ("N",) or value.dims[1:] not in ((), (1,))
        return value.learned or any(map(of_features, arguments_of(value)))

    every = [value for value in used if value.op == "aggregate"]
    return [value for value in every if of_features(value)], every


def check_picture(lc):
    """Check what has to be true of every picture."""
    picture = picture_of(lc)
    before, after = (panel.diagram for panel in picture.panels)
    drawn = marks(before, AGGREGATION)
    # Sums of weights and types of edges are drawn where they are inputs.
    certain, every = aggregations(lc)
    assert sorted(drawn) == list(range(1, len(drawn) + 1))
    assert len(certain) <= len(drawn) <= len(every)
    assert marks(after, AGGREGATION) == []
    assert set(marks(after, INPUTS)) == set(drawn)
    formulas = [
        f"{line.filter} {line.text}".strip()
        for box in after.boxes
        if box.kind == INPUTS
        for line in box.lines
    ]
    assert len(formulas) == len(lc.inputs)
    for entry in lc.inputs:
        assert entry.formula in formulas or len(entry.formula) > 34
    for panel in picture.panels:
        check_places(place(panel.diagram))
    text = lc._picture()
    assert text == lc._picture()
    root = ElementTree.fromstring(text)
    assert root.find(f"{SVG}title").text == picture.title
    assert root.find(f"{SVG}desc").text == picture.description
    return picture


def check_places(placed):
    """Check that boxes are apart or inside each other, and texts inside."""
    for number, box in enumerate(placed.boxes):
        for text in box.texts:
            small = text.role in ("note", "marks", "foot")
            width = 0.602 * (SMALL if small else TEXT) * len(text.text)
            assert text.x >= box.x + 2
            assert text.x + width <= box.x + box.width - 2
            assert box.y < text.y - 8
            assert text.y < box.y + box.height
        for one, other in zip(box.texts, box.texts[1:], strict=False):
            if one.y == other.y:
                assert one.x + one.width < other.x
        for other in placed.boxes[:number]:
            inside = (
                other.box.kind == REPEAT
                and other.x < box.x
                and other.y < box.y
                and box.x + box.width < other.x + other.width
                and box.y + box.height < other.y + other.height
            )
            apart = (
                other.x + other.width < box.x
                or box.x + box.width < other.x
                or other.y + other.height < box.y
                or box.y + box.height < other.y
            )
            assert inside or apart


# By day every eighth model, which other tests have as well; at night all.
@pytest.mark.parametrize("name", every(8, TAKEN))
def test_models_of_the_zoo_have_a_picture(name):
    check_picture(ready(name).lc)


class Residual(nn.Module):
    """Layers that add what they were given."""

    def __init__(self, layers):
        super().__init__()
        self.first = nn.Linear(IN, HID)
        self.layers = nn.ModuleList(
            dglnn.GraphConv(HID, HID) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(HID) for _ in range(layers))
        self.out = nn.Linear(HID, OUT)

    def forward(self, g, x):
        h = self.first(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = h + F.relu(norm(layer(g, h)))
        return self.out(h)


class GCNII(nn.Module):
    """GCNII of eight layers."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(IN, HID), nn.Linear(HID, OUT)
        self.convs = nn.ModuleList(
            dglnn.GCN2Conv(HID, layer, activation=F.relu)
            for layer in range(1, 9)
        )

    def forward(self, g, x):
        h = h0 = F.relu(self.first(x))
        for conv in self.convs:
            h = conv(g, F.dropout(h, training=self.training), h0)
        return self.out(h)


def appnp(hops):
    def body(self, g, x):
        return self.propagate(g, self.out(F.relu(self.first(x))))

    return Function(
        body,
        first=nn.Linear(IN, HID),
        out=nn.Linear(HID, OUT),
        propagate=dglnn.APPNPConv(hops, 0.1),
    )


def gprgnn(hops):
    def body(self, g, x):
        h = self.out(F.relu(self.first(x)))
        total = self.gamma[0] * h
        for k in range(hops):
            h = self.conv(g, h)
            total = total + self.gamma[k + 1] * h
        return total

    return Function(
        body,
        first=nn.Linear(IN, HID),
        out=nn.Linear(HID, OUT),
        gamma=nn.Parameter(torch.rand(hops + 1)),
        conv=dglnn.GraphConv(OUT, OUT, weight=False, bias=False),
    )


@pytest.mark.parametrize(
    ("make", "times"),
    [
        (lambda: Residual(6), 6),
        (lambda: Residual(30), 30),
        (GCNII, 8),
        (lambda: appnp(10), 10),
        (lambda: gprgnn(10), 10),
    ],
    ids=["residual", "deep", "gcnii", "appnp", "gprgnn"],
)
def test_equal_layers_are_drawn_once(make, times):
    lc = lc_transform(make().double(), looped_graph(), features())
    picture = check_picture(lc)
    for panel in picture.panels:
        (part,) = (b for b in panel.diagram.boxes if b.kind == REPEAT)
        assert part.lines[0].text == f"{times} times"
        assert place(panel.diagram).height < 1200


def test_where_aggregations_were_moved():
    def body(self, g, x):
        first = F.relu(self.a(g, x))
        return torch.cat([first, self.b(g, first)], dim=1)

    a, b = gcn()
    lc = lc_transform(Function(body, a=a, b=b).double(), looped_graph(),
                      features())  # fmt: skip
    after = check_picture(lc).panels[1].diagram
    moved = {
        line.filter: line.marks
        for box in after.boxes
        if box.kind == INPUTS
        for line in box.lines
    }
    assert moved == {"S": (1,), "S²": (1, 2)}


def test_aggregations_with_several_norms_have_the_name_of_their_filter():
    def body(self, g, x):
        h = F.relu(self.a(g, x))
        return self.b(g, h)

    model = Function(
        body,
        a=dglnn.GraphConv(IN, HID),
        b=dglnn.SAGEConv(HID, OUT, "mean"),
    )
    lc = lc_transform(model.double(), looped_graph(), features())
    before = check_picture(lc).panels[0].diagram
    names = {
        line.marks: line.text
        for box in before.boxes
        for line in box.lines
        if line.marks
    }
    formulas = [str(entry) for entry in lc.inputs]
    assert formulas == [f"{names[1,]} x", f"{names[2,]} {names[1,]} x"]


def test_operations_at_fewer_words_have_a_box_of_their_own():
    def body(self, g, x):
        return self.b(g, F.relu(self.a(g, x)))

    model = Function(
        body, a=dglnn.TAGConv(IN, HID, 2), b=dglnn.TAGConv(HID, OUT, 2)
    )
    lc = lc_transform(model.double(), looped_graph(), features())
    after = check_picture(lc).panels[1].diagram
    feet = [box.foot for box in after.boxes if box.kind == OPERATIONS]
    assert [foot.split()[0] for foot in feet] == ["3B", "B"]


def test_operations_that_make_a_difference_are_marked():
    lc = lc_transform(Layers(*gcn()).double(), looped_graph(), features())
    after = picture_of(lc).panels[1].diagram
    lines = [line for box in after.boxes for line in box.lines]
    changed = [line.text for line in lines if line.changed]
    assert changed == ["≈ + bias", "≈ relu"]
    exact = lc_transform(Layers(*gcn()).double(), looped_graph(), features(),
                         bias="exact")  # fmt: skip
    after = picture_of(exact).panels[1].diagram
    lines = [line for box in after.boxes for line in box.lines]
    assert [line.text for line in lines if line.changed] == ["≈ relu"]


def test_hostile_names_are_only_text(tmp_path):
    name = "</text><script>alert(1)</script>&\x1b"

    class Evil(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module(name.replace(".", ""), dglnn.GraphConv(IN, OUT))

        def forward(self, g, x):
            (conv,) = self.children()
            return conv(g, x)

    Evil.__name__ = 'Evil"><img src=x onerror=alert(1)>'
    g, x = looped_graph(), features()
    lc = lc_transform(Evil().double(), g, x)
    path = lc.draw(tmp_path / "evil.svg")
    root = ElementTree.parse(path).getroot()
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "rect", "text", "g", "path",
                    "polygon", "line"}  # fmt: skip
    assert "<script" not in lc._repr_html_()
    assert "<img" not in lc._repr_html_()
    check_places(place(picture_of(lc).panels[0].diagram))


def test_same_model_gives_the_same_bytes(tmp_path):
    g, x = looped_graph(), features()
    pictures = []
    for seed in range(2):
        torch.manual_seed(seed)
        lc = lc_transform(Residual(4).double(), g, x)
        pictures.append(lc.draw(tmp_path / f"{seed}.svg").read_bytes())
        g = dgl.add_self_loop(dgl.rand_graph(80, 200))
        x = torch.randn(80, IN, dtype=torch.float64)
    assert pictures[0] == pictures[1]


def test_draw_says_where_and_what_it_writes(tmp_path):
    lc = lc_transform(Layers(*gcn()).double(), looped_graph(), features())
    assert lc.draw(tmp_path / "model.svg") == tmp_path / "model.svg"
    with pytest.raises(DGLError, match=r"does not end in \.svg"):
        lc.draw(tmp_path / "model.png")


def test_notebooks_show_the_picture():
    lc = lc_transform(Layers(*gcn()).double(), looped_graph(), features())
    html = lc._repr_html_()
    assert html.count("<svg") == 1
    assert "<style" not in html  # it would act on the whole page
