"""Errors: their codes, and the lines of the user's code that they name."""

import ast
import pickle
from pathlib import Path

import pytest
from dgl import nn as dglnn
from torch import nn
from transform.zoo import IN, OUT, Function, features, random_graph

from dgl_lc import LCError, lc_transform, transform
from dgl_lc.transform import causes
from dgl_lc.transform.refusals import Problem

#: Functions that make errors; all take a cause first.
MAKERS = {"refuse", "refusal", "refuse_value", "_refusal"}


def calls_in(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            yield name, node


def test_every_refusal_has_a_cause():
    room = Path(transform.__file__).parent
    found = 0
    for path in room.rglob("*.py"):
        for name, node in calls_in(path):
            if name == "LCError" and path.name != "refusals.py":
                assert ast.unparse(node.args[0]) == "problems", path
            if name not in MAKERS:
                continue
            first = ast.unparse(node.args[0])
            known = hasattr(causes, first.removeprefix("causes."))
            assert known or first == "cause", f"{path}:{node.lineno}"
            found += 1
    assert found > 50


def test_codes_are_unique_and_in_order():
    codes = list(causes.CAUSES)
    assert codes == sorted(codes)
    names = [cause for cause in vars(causes).values()
             if isinstance(cause, causes.Cause)]  # fmt: skip
    assert len(names) == len(codes)
    assert len({cause.name for cause in names}) == len(codes)


def gat(self, g, x):
    h = self.conv(g, x)  # the line
    return h.mean(1)


def caught(model):
    with pytest.raises(LCError) as error:
        lc_transform(model, random_graph(), features().float())
    return error.value


def test_an_error_names_the_line_of_the_users_forward():
    error = caught(Function(gat, conv=dglnn.GATConv(IN, OUT, 2)))
    (problem,) = error.problems
    assert problem.submodule == "conv"
    assert Path(problem.file) == Path(__file__)
    assert problem.line == gat.__code__.co_firstlineno + 1
    assert problem.text == "h = self.conv(g, x)  # the line"
    assert f"{Path(__file__).name}:{problem.line}" in str(error)
    assert str(error).startswith(problem.code)
    assert "\n" not in str(error)


def test_a_model_of_dgl_itself_has_a_line_of_dgl():
    (problem,) = caught(dglnn.GATConv(IN, OUT, 2)).problems
    assert Path(problem.file).name == "gatconv.py"
    assert problem.text


def test_the_line_is_not_that_of_the_call_of_lc_transform():
    model = nn.Sequential(nn.Linear(IN, OUT))
    model.g = random_graph()
    with pytest.raises(LCError) as error:
        lc_transform(model, features().float()[:, :2])
    assert error.value.problems[0].file == ""


def test_errors_are_pickled_with_all_problems():
    problems = [
        Problem("LC003", f"conv{i}", "mul", "why", "what", "a.py", i, "x")
        for i in range(6)
    ]
    error = LCError(problems)
    again = pickle.loads(pickle.dumps(error))
    assert again.problems == problems
    assert str(again) == str(error)
    assert (error.code, error.submodule) == ("LC003", "conv0")
    assert "conv3" in str(error)
    assert "conv4" not in str(error)
    assert "and 2 more" in str(error)


def test_one_problem_is_one_sentence_and_its_advice():
    problem = Problem("LC004", "", "softmax", "is learned", "Use sums")
    assert str(LCError(problem)) == (
        "LC004 in the model: softmax: is learned. Use sums."
    )
