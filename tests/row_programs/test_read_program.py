"""Reading row programs: what is damaged or hostile is refused, never run."""

import copy
import functools
import json
import sys

import dgl
import pytest
import torch
import torch.nn.functional as F
from dgl.nn import GraphConv
from hypothesis import given, settings
from hypothesis import strategies as st
from night import fuzz
from torch import nn

from dgl_lc import lc_transform
from dgl_lc.row_programs.allowed_calls import CALLS, find_call
from dgl_lc.row_programs.read_program import read_program
from dgl_lc.row_programs.write_program import write_program

FUZZ = fuzz(60, 3000)

#: Names of what a file may try to reach.
NAMES = [
    "eval", "exec", "__import__", "builtins.eval", "os.system", "torch.load",
    "torch.save", "torch.hub.load", "torch.compile", "torch.from_file",
    "tensor.__class__", "tensor.__reduce_ex__", "tensor.__setstate__",
    "tensor.apply_", "tensor.map_", "tensor.numpy", "tensor.data_ptr",
    "tensor.register_hook", "tensor.backward", "tensor.set_",
    "tensor.storage", "tensor.untyped_storage", "tensor.as_strided",
    "tensor.tofile", "tensor.to_mkldnn", "property.__class__",
    "property.__dict__", "property.grad_fn", "property.data",
    "functional.__builtins__", "operator.attrgetter", "operator.methodcaller",
    "operator.call", "operator.setitem", "operator.delitem", "getattr",
    "torch.ops", "torch.classes", "torch._C", "rows.torch", "module", "tensor",
    "autocast.bfloat16:torch.load", "autocast.bfloat16:", "autocast.int8:relu",
    "autocast.bfloat16:autocast.bfloat16:torch.relu",
    "", ".", "torch.", "relu", "torch.relu ", "TORCH.RELU", None, 3, ["relu"],
]  # fmt: skip

#: Paths that lead out of the module.
PATHS = [
    "__class__", "fc.__class__", "fc.weight.__class__", "forward", "_modules",
    "fc._parameters", "fc.forward.__globals__", "_steps", "training", "needs",
    "fc..weight", ".fc", "fc.", "conv", "fc.weight.data", "__init__",
    "fc\n", "a.b.c", "", None, 0, ["fc"], "fc.weight;import os", "x" * 5000,
    "a." * 200 + "a",
]  # fmt: skip


class Model(nn.Module):
    """A model with a bit of everything that a file holds."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 5)
        self.norm = nn.BatchNorm1d(5)
        self.conv = GraphConv(5, 3)
        self.again = self.norm
        self.register_buffer("scale", torch.rand(5), persistent=False)
        self.rnn = nn.GRU(3, 3)

    def forward(self, g, x):
        h = F.dropout(self.fc(x), 0.5, self.training) * self.scale
        h = self.again(self.norm(h)[..., 0:5])
        return self.rnn(self.conv(g, h).unsqueeze(0))[0].squeeze(0)


@functools.cache
def written():
    torch.manual_seed(0)
    g = dgl.add_self_loop(dgl.rand_graph(50, 200))
    lc = lc_transform(Model(), g, torch.randn(50, 4))
    found = write_program(lc.module)
    tensors = {name: t.clone() for name, t in found.tensors.items()}
    return json.loads(found.text), tensors


def program():
    return copy.deepcopy(written()[0])


def read(content, tensors=None):
    text = content if isinstance(content, str) else json.dumps(content)
    return read_program(text, written()[1] if tensors is None else tensors)


def refused(content, reason=None, tensors=None):
    with pytest.raises(ValueError, match=reason) as caught:
        read(content, tensors)
    assert len(str(caught.value)) < 2500


def place(content, call):
    """Return the place of the first step with a call of this kind."""
    steps = content["steps"]
    return next(n for n, step in enumerate(steps) if step[0] == call)


def test_the_program_itself_is_read():
    found = read(program())
    assert found.again is found.norm
    assert found(torch.randn(6, 4)).shape == (6, 3)


@pytest.mark.parametrize("name", NAMES)
def test_other_functions_are_refused(name):
    for call in ("functional.dropout", "operator.mul"):
        content = program()
        content["steps"][place(content, call)][0] = name
        refused(content)


def test_no_function_that_runs_code_or_opens_files_is_allowed():
    for name in NAMES:
        assert not isinstance(name, str) or name not in CALLS
    for name in CALLS:
        assert "_" not in name.partition(".")[2][0]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("call", ["module", "tensor"])
def test_paths_out_of_the_module_are_refused(path, call):
    content = program()
    content["steps"][place(content, call)][1] = path
    refused(content)


@pytest.mark.parametrize("path", [p for p in PATHS if isinstance(p, str)])
@pytest.mark.parametrize("section", ["modules", "parameters", "buffers"])
def test_no_module_or_tensor_has_a_name_that_is_not_plain(path, section):
    content = program()
    content[section][path] = {} if section != "modules" else None
    if path in ("conv", "forward", "_modules", "_steps", "training", "needs"):
        # Names of tensors and modules are looked up among these alone.
        content[section].pop(path)
        content["steps"][0][1] = path
    refused(content)


@pytest.mark.parametrize(
    "value",
    [
        2**63, -(2**70), 1e400, {"result": 99}, {"result": -1},
        {"result": True}, {"result": "0"}, {"dtype": "load"}, {"dtype": []},
        {"device": "cuda"}, {"float": "1e5"}, {"float": []},
        {"complex": [1, 2]}, {"slice": [1]}, {"tuple": {}}, {"dict": {}},
        {"dict": [["a"]]}, {"dict": [[[], 1]]}, {"dict": [["a", 1], ["a", 2]]},
        {"training": 1}, {"ellipsis": 0}, {"eval": "1"}, {}, {"a": 1, "b": 2},
        {"__class__": "x"}, {"__reduce__": ["os.system", "true"]},
    ],
)  # fmt: skip
def test_other_values_are_refused(value):
    content = program()
    step = content["steps"][place(content, "functional.dropout")]
    step[2]["tuple"].append(value)
    refused(content)


def test_a_step_reads_earlier_results_only():
    content = program()
    number = place(content, "functional.dropout")
    for result in (number + 1, number + 2, len(content["steps"]) + 5):
        content["steps"][number][2]["tuple"][0] = {"result": result}
        refused(content, "there are")


def test_nesting_has_an_end():
    text = json.dumps(program())
    deep = "[" * 100_000 + "]" * 100_000
    refused(text.replace("0.5", deep, 1), "not JSON|deep")
    middling = "[" * 50 + "]" * 50
    refused(text.replace("0.5", middling, 1), "too deep")
    refused(text.replace("0.5", "9" * 6000, 1), "not JSON|64 bits")
    refused(text.replace("0.5", "NaN", 1), "not a number of JSON")


def test_names_that_occur_twice_are_refused():
    text = json.dumps(program())
    twice = text.replace('"version": 1', '"version": 1, "version": 1', 1)
    refused(twice, "occurs twice")
    content = program()
    content["inputs"].append(content["inputs"][0])
    refused(content, "names of their own")


@pytest.mark.parametrize("key", ["out", "__class__", "a b", "", "A", "x\n"])
def test_other_names_of_arguments_are_refused(key):
    content = program()
    step = content["steps"][place(content, "functional.dropout")]
    step[3]["dict"].append([key, None])
    refused(content)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"class": "Module", "settings": {}}, "not a module that may"),
        ({"class": "Sequential", "settings": {}}, "not a module that may"),
        ({"class": "__class__", "settings": {}}, "not a module that may"),
        ({"class": ["Linear"], "settings": {}}, "can't be made"),
        ({"class": "Linear", "settings": {}}, "not made with"),
        ({"class": "Linear", "settings": []}, "no settings"),
        ({"class": "Linear"}, "not what it should be"),
        ({"same_as": "fc"}, "can't be the same"),
        ({"same_as": ""}, "not a name"),
        ({"same_as": "rnn"}, "can't be the same"),
        ({"same_as": ["norm"]}, "not a name"),
        (3, "not what it should be"),
        (None, "not a module"),
    ],
)
def test_other_modules_are_refused(entry, reason):
    content = program()
    content["modules"]["fc"] = entry
    refused(content, reason)


def test_a_module_can_not_contain_itself():
    content = program()
    modules = {"a": None, "a.b": {"same_as": "a"}}
    content["modules"] = {**modules, **content["modules"]}
    refused(content, "can't be the same")
    modules = {"a": None, "c": None, "a.b": {"same_as": "c"}}
    content["modules"] = {**modules, **program()["modules"]}
    refused(content, "without its parent")
    modules = {"a": None, "b": {"same_as": "a"}, "b.c": None}
    content["modules"] = {**modules, **program()["modules"]}
    refused(content, "no submodules")


@pytest.mark.parametrize("size", [2**41, 2**39, 10**30, -1, 0, "4", None])
def test_sizes_that_do_not_fit_the_tensors_are_refused_at_once(size):
    content = program()
    content["modules"]["fc"]["settings"]["in_features"] = size
    refused(content)
    content = program()
    content["modules"]["rnn"]["settings"]["num_layers"] = size
    refused(content)


def test_tensors_have_to_be_those_of_the_program():
    tensors = written()[1]
    for name in tensors:
        rest = {key: t for key, t in tensors.items() if key != name}
        refused(program(), "no tensor", rest)
        for other in (
            tensors[name].to("meta"), tensors[name].to_sparse(), None, 3, "x",
            nn.Parameter(torch.ones(1)),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=r"\w"):
                read(program(), {**rest, name: other})
    wide = {**tensors, "fc.weight": tensors["fc.weight"].unsqueeze(0)}
    refused(program(), "no place in Linear", wide)
    refused(program(), "belongs to nothing", {**tensors, "x": torch.ones(1)})
    refused(program(), "belongs to nothing", {**tensors, 3: torch.ones(1)})
    huge = {**tensors, "conv.weight": torch.zeros(1).expand(2**40)}
    refused(program(), "more numbers than the file", huge)
    refused(program(), "missing", [])


@pytest.mark.parametrize(
    "key",
    [
        "version", "name", "inputs", "filters", "no_weight_decay", "modules",
        "parameters", "buffers", "steps", "output",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "value", [None, 0, -1, 1e9, "x y", [], {}, [None], [{}]]
)
def test_other_entries_are_refused(key, value):
    content = program()
    if content[key] == value:
        return
    content[key] = value
    if key == "filters" and value == []:
        return
    if key == "output" and value in (None, 0, -1, 1e9, "x y", [], [None]):
        # A model may return a constant, as useless as that is.
        read(content)
        return
    refused(content)
    content.pop(key)
    refused(content)


def test_a_later_version_says_so():
    content = program()
    content["version"] = 2
    refused(content, "version 2, and this version of dgl-lc reads version 1")


# Fuzzing: whatever the text says, it is read or it is a ValueError, and
# nothing is compiled, imported or opened.

_EVENTS: list[str] = []
_WATCHED = False


def _watch(event, args):
    if _WATCHED and event.partition(".")[0] in (
        "exec", "compile", "import", "open", "os", "subprocess", "socket",
        "pickle", "marshal", "ctypes",
    ):  # fmt: skip
        _EVENTS.append(f"{event} {args}")


@functools.cache
def _add_watch():
    sys.addaudithook(_watch)


def watched_read(text):
    """Read a program; return it, or None if it is refused."""
    global _WATCHED
    _add_watch()
    tensors = dict(written()[1])
    _EVENTS.clear()
    _WATCHED = True
    try:
        return read_program(text, tensors)
    except ValueError:
        return None
    finally:
        _WATCHED = False
        assert _EVENTS == []


def places(item, path=()):
    """List all places in a tree of JSON."""
    yield path
    if isinstance(item, dict):
        for key in item:
            yield from places(item[key], (*path, key))
    elif isinstance(item, list):
        for number, part in enumerate(item):
            yield from places(part, (*path, number))


def at(item, path):
    for key in path:
        item = item[key]
    return item


_HOSTILE = st.one_of(
    st.sampled_from([*NAMES, *PATHS]),
    st.sampled_from(sorted(CALLS)),
    st.integers(),
    st.floats(),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.one_of(
                    st.sampled_from(
                        ["tuple", "dict", "slice", "result", "dtype", "device",
                         "same_as", "class", "settings", "float", "complex"]
                    ),
                    st.text(max_size=5),
                ),
                inner, max_size=2,
            ),
        ),
        max_leaves=6,
    ),
)  # fmt: skip


@settings(max_examples=FUZZ)
@given(st.data())
def test_mutated_programs_are_read_or_refused(data):
    content = program()
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places(content))))
        if not path:
            continue
        owner, key = at(content, path[:-1]), path[-1]
        what = data.draw(st.sampled_from(["replace", "copy", "drop", "rename"]))
        if what == "replace":
            owner[key] = data.draw(_HOSTILE)
        elif what == "copy":
            other = data.draw(st.sampled_from(list(places(content))))
            owner[key] = copy.deepcopy(at(content, other))
        elif what == "drop":
            del owner[key]
        elif isinstance(owner, dict):
            owner[str(data.draw(_HOSTILE))] = owner.pop(key)
    found = watched_read(json.dumps(content))
    if found is not None:
        # It names allowed functions alone, of its own tensors and modules.
        assert all(
            find_call(step.call) or step.call in ("module", "tensor")
            for step in found._steps
        )


@settings(max_examples=FUZZ)
@given(st.data())
def test_damaged_texts_are_read_or_refused(data):
    text = json.dumps(program())
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 20)))
        text = text[:begin] + data.draw(st.text(max_size=4)) + text[end:]
    watched_read(text)
