"""The Triton kernel: in the interpreter, or on a GPU where there is one.

``tests/conftest.py`` asks Triton for its interpreter before anything imports
it. What a GPU would run is compiled too, for an old and a new architecture.
"""

import itertools
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from dgl import DGLError
from hypothesis import given, settings
from hypothesis import strategies as st
from night import NIGHT, cases, each
from torch.utils._python_dispatch import TorchDispatchMode

from dgl_lc.precompute.device import triton_spmm
from dgl_lc.precompute.device.hubs import LONGEST, hub_tails, scratch_rows
from dgl_lc.precompute.device.triton_spmm import spmm_add

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
#: Relative errors of rounding. The interpreter cuts bfloat16 off.
ROUNDING = {
    torch.float64: 2.0**-52,
    torch.float32: 2.0**-23,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-7,
}
KERNELS = ("_add_rows", "_sum_tails", "_add_tails")


def kernel_runs():
    if triton_spmm.triton is None or DEVICE == "cuda":
        return triton_spmm.triton is not None
    from triton.runtime import JITFunction

    return not isinstance(triton_spmm._add_rows, JITFunction)


needs_triton = pytest.mark.skipif(
    triton_spmm.triton is None, reason="Triton is not installed"
)
needs_kernel = pytest.mark.skipif(
    not kernel_runs(),
    reason="Triton is missing, or neither a GPU nor its interpreter is there",
)


@pytest.fixture
def sparse_tensor(tmp_path):
    """Makes tensors of many zeros, in files that take no room."""
    if DEVICE != "cpu":
        pytest.skip("files that take no room are in host memory")

    def make(name, size, dtype):
        path = str(tmp_path / name)
        try:
            return torch.from_file(path, shared=True, size=size, dtype=dtype)
        except RuntimeError as error:
            pytest.skip(f"no sparse file of this size here: {error}")

    return make


class Problem:
    """An edge block, rows to sum, and their float64 sum."""

    def __init__(self, seed, degrees, num_sources, width, kinds, factors):
        rng = np.random.default_rng(seed)
        self.kind_x, self.kind_out = kinds
        double = torch.float64 in kinds
        self.acc = torch.float64 if double else torch.float32
        n, m = len(degrees), sum(degrees)
        self.indptr = torch.tensor(np.cumsum([0, *degrees])).int()
        self.indices = torch.from_numpy(rng.integers(0, num_sources, m)).int()
        lengths = {"values": m, "left": n, "right": num_sources}
        for name, length in lengths.items():
            factor = torch.from_numpy(rng.normal(size=length)).float()
            setattr(self, name, factor if name in factors else None)
        self.x = self._strided(rng, num_sources, width, self.kind_x, torch.nan)
        unused = torch.ones(num_sources, dtype=torch.bool)
        unused[self.indices.long()] = False
        self.x[unused] = torch.nan
        # Even adding 0 to -0 would be seen.
        self.out = self._strided(rng, n, width, self.kind_out, -0.0)

    def _strided(self, rng, rows, width, kind, between):
        """Rows that lie apart; what is between them should not be used."""
        before, after = rng.integers(0, 4, 2)
        values = torch.full((rows, before + width + after), between)
        values[:, before : before + width] = torch.from_numpy(
            rng.normal(size=(rows, width))
        )
        return values.to(kind)[:, before : before + width]

    def expected(self):
        """The sums, and what their parts add up to without signs."""
        n = len(self.out)
        row = torch.arange(n).repeat_interleave(self.indptr.diff().long())
        rows = self.x.double()[self.indices.long()]
        if self.values is not None:
            rows = rows * self.values[:, None]
        if self.right is not None:
            rows = rows * self.right[self.indices.long(), None]
        if self.left is not None:
            rows = rows * self.left[row, None]
        out = self.out.double()
        return (
            out.index_add(0, row, rows),
            out.abs().index_add(0, row, rows.abs()),
        )

    def run(self, longest=None, cuts=()):
        """Sum block after block; longest is None for no tails."""
        base = torch.empty_like(self.out._base)
        base.copy_(self.out._base)
        base = base.to(DEVICE)
        out = base.as_strided(
            self.out.shape, self.out.stride(), self.out.storage_offset()
        )
        bounds = [0, *sorted(cuts), len(self.indices)]
        for first, end in itertools.pairwise(bounds):
            self._run_block(out, first, end, longest)
        between = torch.ones(base.shape, dtype=torch.bool, device=DEVICE)
        between.as_strided(out.shape, out.stride(), out.storage_offset())[:] = 0
        assert base[between].signbit().all()
        assert (base[between] == 0).all()
        return out.cpu()

    def _run_block(self, out, first, end, longest):
        indptr = self.indptr.clamp(first, end) - first
        tails = scratch = None
        if longest is not None:
            tails = hub_tails(indptr, longest)
            most = scratch_rows(end - first, longest)
            assert len(tails) <= most
            scratch = torch.full((most, out.shape[1] + 1), torch.nan)
            scratch = scratch.to(self.acc)
        part = slice(first, end)
        values = None if self.values is None else self.values[part]
        spmm_add(
            out,
            *on_device(indptr, self.indices[part], values, self.x),
            *on_device(self.left, self.right, tails, scratch),
            longest=longest or LONGEST,
        )


def on_device(*tensors):
    return [None if t is None else t.to(DEVICE) for t in tensors]


def assert_sums(found, problem, roundings=1):
    expected, size = problem.expected()
    error = (found.double() - expected).abs()
    kind = found.dtype
    allowed = 32 * ROUNDING[problem.acc] * size
    if kind != problem.acc:
        # What was rounded on the way may have been larger.
        rounded = expected.abs() if roundings == 1 else roundings * size
        allowed += ROUNDING[kind] * rounded
        allowed += torch.finfo(kind).smallest_normal
    assert (error <= allowed).all(), (error / allowed).max()


@st.composite
def problems(draw):
    degrees = draw(st.lists(st.integers(0, 20), min_size=1, max_size=12))
    if draw(st.booleans()):
        degrees[draw(st.integers(0, len(degrees) - 1))] += 70
    if draw(st.booleans()):
        kinds = (torch.float64, torch.float64)
    else:
        kinds = tuple(draw(st.sampled_from(FLOATS)) for _ in range(2))
    names = st.sampled_from(["values", "left", "right"])
    return Problem(
        seed=draw(st.integers(0, 2**32 - 1)),
        degrees=degrees,
        num_sources=draw(st.integers(1, 9)),
        width=draw(st.sampled_from([1, 2, 3, 8, 17, 33, 64, 130])),
        kinds=kinds,
        factors=draw(st.sets(names)),
    )


@needs_kernel
@settings(max_examples=cases(10, 150))
@given(problems(), st.sampled_from([None, 1, 3, 16, LONGEST]))
def test_rows_are_summed_into_out(problem, longest):
    assert_sums(problem.run(longest), problem)


@needs_kernel
@settings(max_examples=cases(6, 100))
@given(problems(), st.sampled_from([None, 4]), st.data())
def test_edge_blocks_add_up_to_the_whole(problem, longest, data):
    cut = st.integers(0, len(problem.indices))
    cuts = data.draw(st.lists(cut, min_size=1, max_size=3))
    found = problem.run(longest, cuts)
    assert_sums(found, problem, roundings=len(cuts) + 1)


@needs_kernel
@pytest.mark.parametrize(
    ("kind", "width"),
    each([*FLOATS, torch.float64], [1, 4, 8, 16, 32, 64, 128]),
)
def test_all_factors_together(width, kind):
    factors = ("values", "left", "right")
    degrees = [0, 5, 41, 1, 0, 16, 33]
    problem = Problem(width, degrees, 30, width, (kind, kind), factors)
    assert_sums(problem.run(), problem)
    assert_sums(problem.run(longest=16), problem)


@needs_kernel
def test_a_row_without_edges_is_left_alone():
    out = torch.full((3, 2), torch.inf, device=DEVICE)
    indptr, indices = torch.zeros(4).int(), torch.zeros(0).int()
    x = torch.ones(1, 2)
    spmm_add(out, *on_device(indptr, indices, None, x, torch.zeros(3)))
    assert out.isinf().all()
    indptr, indices = torch.tensor([0, 0, 1, 1]).int(), torch.zeros(1).int()
    left = torch.tensor([torch.nan, 1, torch.nan])
    spmm_add(out, *on_device(indptr, indices, None, x, left))
    assert out.isinf().all()


@needs_kernel
@pytest.mark.parametrize("longest", [None, 1, 2])
def test_halves_are_rounded_once(longest):
    """2048 + 1 is 2048 in float16: what is rounded on the way stays there."""
    out = torch.full((1, 3), 2048.0).half().to(DEVICE)
    indptr, indices = torch.tensor([0, 37]).int(), torch.zeros(37).int()
    tails = None if longest is None else hub_tails(indptr, longest)
    scratch = torch.full((37, 3), torch.nan)
    spmm_add(
        out,
        *on_device(indptr, indices, None, torch.ones(1, 3).half()),
        *on_device(None, None, tails, scratch),
        longest=longest or LONGEST,
    )
    assert out.tolist() == [[2048 + 36] * 3]


@needs_kernel
def test_rows_lie_past_2_31_elements(sparse_tensor):
    """Offsets of 32 bits would lead to zeros at the other end of the file."""
    size, stride = 2**32 + 2**14, 2**30 + 5
    make = [("x", torch.float16), ("out", torch.float16), ("scratch", None)]
    x, out, scratch = (
        sparse_tensor(name, size, kind or torch.float32).as_strided(
            (3, 4), (stride, 1), storage_offset=2**31
        )
        for name, kind in make
    )
    x.copy_(torch.arange(1, 4)[:, None])
    out.copy_(10 * torch.arange(1, 4)[:, None])
    indptr = torch.tensor([0, 1, 1, 2]).int()
    spmm_add(out, indptr, torch.tensor([2, 2]).int(), None, x)
    assert out[:, 0].tolist() == [13, 20, 33]
    indptr = torch.tensor([0, 0, 0, 6]).int()
    indices = torch.tensor([0, 2, 1, 1, 2, 2]).int()
    tails = hub_tails(indptr, 2)
    assert len(tails) == 3
    spmm_add(out, indptr, indices, None, x, None, None, tails, scratch, 2)
    assert out[:, 0].tolist() == [13, 20, 33 + 14]
    assert scratch[:, 0].tolist() == [4, 4, 6]


@needs_kernel
@pytest.mark.parametrize("longest", [None, 3])
def test_a_block_may_have_almost_2_31_edges(sparse_tensor, longest):
    """The last tile of entries leads past what 32 bits can count."""
    end = 2**31 - 1
    indices = sparse_tensor("indices", 2**32, torch.int32)[2**31 :][:end]
    indices[-7:] = 1
    indptr = torch.tensor([end - 7, end]).int()
    x, out = torch.tensor([[100.0], [1.0]]), torch.zeros(1, 1)
    tails = None if longest is None else hub_tails(indptr, longest)
    scratch = torch.empty(2, 1)
    spmm_add(
        out, indptr, indices, None, x, None, None, tails, scratch,
        longest=longest or LONGEST,
    )  # fmt: skip
    assert out.item() == 7


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=10),
    st.integers(1, 12),
    st.sampled_from([torch.int32, torch.int64]),
)
def test_tails_cover_every_entry_of_a_hub_once(degrees, longest, kind):
    indptr = torch.tensor(np.cumsum([0, *degrees])).to(kind)
    tails = hub_tails(indptr, longest)
    assert tails.dtype == torch.int32
    assert tails.shape == (len(tails), 3)
    assert len(tails) <= scratch_rows(sum(degrees), longest)
    assert tails.is_contiguous()
    found = [(row, e) for row, a, b in tails.tolist() for e in range(a, b)]
    assert found == [
        (row, e)
        for row, degree in enumerate(degrees)
        if degree > longest
        for e in range(indptr[row], indptr[row + 1])
    ]
    lengths = tails[:, 2] - tails[:, 1]
    assert ((lengths >= longest) & (lengths < 2 * longest)).all()


def test_tails_of_a_block_of_almost_2_31_edges():
    end = 2**31 - 1
    tails = hub_tails(torch.tensor([0, 5, end]))
    assert len(tails) == scratch_rows(end)
    assert tails[0, 1] == 5
    assert tails[-1, 2] == end
    assert (tails[1:, 1] == tails[:-1, 2]).all()


@needs_triton
def test_only_kernels_are_launched(monkeypatch):
    """No tensor is made, filled, or looked at on the way."""
    launched, ops = [], []

    class Kernel:
        def __init__(self, name):
            self.name = name

        def __getitem__(self, grid):
            return lambda *_, **__: launched.append(self.name)

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            ops.append(func)
            return func(*args, **(kwargs or {}))

    for name in KERNELS:
        monkeypatch.setattr(triton_spmm, name, Kernel(name))
    indptr, indices = torch.tensor([0, 9]).int(), torch.zeros(9).int()
    tails, scratch = hub_tails(indptr, 4), torch.zeros(2, 3)
    out, x, ones = torch.zeros(1, 3), torch.ones(1, 3), torch.ones(1)
    with Record():
        spmm_add(out, indptr, indices, None, x, ones, ones)
        spmm_add(out, indptr, indices, None, x, ones, ones, tails, scratch, 4)
    assert launched == ["_add_rows", *KERNELS]
    assert ops == []


@needs_triton
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("indptr", torch.zeros(4).long(), "indptr should be torch.int32"),
        ("indptr", torch.zeros(5).int(), r"indptr should have shape \(4,\)"),
        ("indices", torch.zeros(9).long(), "indices should be torch.int32"),
        ("indices", torch.zeros(18).int()[::2], "indices is strided"),
        ("values", torch.ones(9).double(), "values should be torch.float32"),
        ("values", torch.ones(8), r"values should have shape \(9,\)"),
        ("left", torch.ones(2), r"left should have shape \(3,\)"),
        ("right", torch.ones(3), r"right should have shape \(2,\)"),
        ("x", torch.ones(2, 8)[:, ::2], r"use x.contiguous\(\)"),
        ("x", torch.ones(2, 4).int(), "x is torch.int32"),
        ("x", torch.ones(4), "x should have shape"),
        ("x", torch.ones(2, 4).double(), "float64 goes with float64 only"),
        ("out", torch.ones(3, 5), r"out should have shape \(rows, 4\)"),
        ("tails", torch.ones(2, 3), "tails should be what hub_tails gives"),
        ("scratch", None, "without scratch"),
        ("scratch", torch.ones(1, 4), "scratch should have at least shape"),
        ("scratch", torch.ones(2, 3), "scratch should have at least shape"),
        ("scratch", torch.ones(2, 4).half(), "scratch should be torch.float32"),
        ("left", torch.ones(3, device="meta"), "left is on meta and x on cpu"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(name, value, message):
    arguments = {
        "out": torch.zeros(3, 4),
        "indptr": torch.tensor([0, 0, 9, 9]).int(),
        "indices": torch.zeros(9).int(),
        "values": torch.ones(9),
        "x": torch.ones(2, 4),
        "left": torch.ones(3),
        "right": torch.ones(2),
        "tails": torch.tensor([[1, 0, 4], [1, 4, 9]]).int(),
        "scratch": torch.ones(2, 4),
    }
    with pytest.raises(DGLError, match=message):
        spmm_add(**{**arguments, name: value}, longest=4)


@needs_triton
def test_on_the_cpu_it_says_where_it_runs(monkeypatch):
    from triton.runtime import JITFunction

    class Compiled(JITFunction):
        def __init__(self):
            pass

    monkeypatch.setattr(triton_spmm, "_add_rows", Compiled())
    indptr, indices = torch.tensor([0, 1]).int(), torch.zeros(1).int()
    with pytest.raises(DGLError, match="runs on GPUs, and x is on the CPU"):
        spmm_add(torch.zeros(1, 1), indptr, indices, None, torch.ones(1, 1))


def run_python(code, **env):
    env = {**os.environ, **env}
    env.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=env, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_without_triton_only_the_kernel_is_missing():
    run_python(
        """
        import sys
        sys.modules["triton"] = None
        import torch, dgl_lc
        from dgl import DGLError
        from dgl_lc.precompute.device.hubs import hub_tails
        from dgl_lc.precompute.device.triton_spmm import spmm_add
        indptr = torch.tensor([0, 1]).int()
        assert len(hub_tails(indptr)) == 0
        one = torch.ones(1, 1)
        try:
            spmm_add(one, indptr, torch.zeros(1).int(), None, one.clone())
        except DGLError as error:
            assert "pip install triton" in str(error)
        else:
            raise AssertionError
        """
    )


COMPILE = """
import json
import dgl_lc
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from dgl_lc.precompute.device import triton_spmm

POINTERS = {"indptr": "*i32", "indices": "*i32", "tails": "*i32"}
FACTORS = ("values", "left", "right")
RUNTIME = (
    "num_rows", "width", "out_stride", "x_stride", "scratch_stride", "longest",
)

def source(kernel, kind, width, factors, integers):
    double = kind == "fp64"
    rows, entries, columns = triton_spmm._tile(width)
    if kernel is triton_spmm._sum_tails:
        entries *= triton_spmm._TAIL_WARPS
    constants = {
        "ROWS": rows,
        "ENTRIES": entries,
        "COLUMNS": columns,
        "PARTS": triton_spmm._PARTS,
        "ACC": tl.float64 if double else tl.float32,
    }
    if integers == 1:
        constants.update(dict.fromkeys(RUNTIME, 1))
    if not factors:
        constants.update(dict.fromkeys(FACTORS))
    types = {
        **POINTERS,
        **dict.fromkeys(("x", "out"), "*" + kind),
        **dict.fromkeys(FACTORS, "*fp32"),
        **dict.fromkeys(RUNTIME, integers),
        "scratch": "*fp64" if double else "*fp32",
    }
    names = kernel.arg_names
    return ASTSource(
        fn=kernel,
        signature={
            n: "constexpr" if n in constants else types[n] for n in names
        },
        constexprs={n: constants[n] for n in names if n in constants},
    )

kinds = ("fp32", "fp16", "bf16", "fp64")
cases = [(kind, 32, True, "i32") for kind in kinds]
cases += [("fp16", 128, True, "i64"), ("bf16", 8, False, "i32")]
cases += [("fp32", 1, True, 1), ("fp32", 1, False, "i32")]
archs, names, some = %s
for arch in archs:
    for name in names:
        for case in cases[some]:
            warps = triton_spmm._TAIL_WARPS if name == "_sum_tails" else 1
            compiled = triton.compile(
                source(getattr(triton_spmm, name), *case),
                target=GPUTarget("cuda", arch, 32),
                options={"num_warps": warps},
            )
            made = {
                "case": (arch, name, *case),
                "ttir": compiled.asm["ttir"],
                "ptx": compiled.asm["ptx"],
                "cubin": len(compiled.asm["cubin"]),
            }
            print(json.dumps(made))
"""


@needs_triton
def test_it_compiles_for_old_and_new_gpus(tmp_path):
    """Also that products, which offsets of rows are, have 64 bits."""
    try:
        from triton import knobs

        assert knobs.nvidia.ptxas.version
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        pytest.skip(f"no ptxas: {error}")
    # By day, two cases for the newer one: a case takes half a second.
    some = slice(0, 8) if NIGHT else slice(2, 8, 4)
    tried = (70, 90) if NIGHT else (90,), KERNELS, some
    code = COMPILE % (tried,)
    lines = run_python(code, TRITON_CACHE_DIR=str(tmp_path)).splitlines()
    assert len(lines) == (2 * 3 * 8 if NIGHT else 3 * 2)
    for line in lines:
        made = json.loads(line)
        arch = made["case"][0]
        assert f".target sm_{arch}" in made["ptx"]
        assert made["cubin"] > 0
        for product in products(made["ttir"]):
            assert product.endswith("i64") or is_first_column(product), made
        # The interpreter does not show how bfloat16 is rounded.
        if made["case"] == [90, "_add_rows", "bf16", 32, True, "i32"]:
            assert "cvt.rn.bf16" in made["ptx"]
        assert "mul.lo.s32" not in made["ptx"]
        assert "mad.lo.s32" not in made["ptx"]


def products(ttir):
    """The integer products, without locations and with their types' ends."""
    for line in ttir.splitlines():
        if "arith.muli" in line:
            yield line.split(" loc(")[0].strip().rstrip(">")


def is_first_column(product):
    """The number of a tile of columns times its width."""
    return "arith.muli %column, %c" in product
