"""float16 without the machine's own instructions for it."""

import os
import subprocess
import sys

import pytest
from night import NIGHT

# All 65,536 float16 are widened; what is rounded lies between them, on them
# and beside the middles.
SCRIPT = """
import numpy as np
import torch
import dgl_lc
from dgl_lc._common.rows import bits
from dgl_lc.precompute.cpu.gather import sum_rows

def convert(values, kind_in, kind_out):
    x = values.reshape(-1, 16)
    out = torch.empty(x.shape, dtype=getattr(torch, kind_out))
    rows, ones = np.arange(len(x) + 1), np.ones(len(x), np.float32)
    kernel = sum_rows(16, kind_in, kind_out, False, False)
    kernel(rows, rows[:-1].astype(np.int32), ones, ones,
           bits(x), 0, bits(out), 0)
    assert "vcvtph2ps" not in "".join(kernel.inspect_asm().values())
    return out.reshape(-1)

def same(found, expected):
    return ((found == expected) | (found.isnan() & expected.isnan())).all()

halves = torch.arange(-2**15, 2**15).to(torch.int16).view(torch.float16)
wide = convert(halves, "float16", "float32")
assert same(wide, halves.float())

numbers = wide[wide.isfinite()].sort().values
middles = (numbers[:-1] + numbers[1:]) / 2
values = torch.cat([
    wide, middles, torch.nextafter(middles, torch.tensor(1e30)),
    torch.nextafter(middles, torch.tensor(-1e30)), wide * 3e38,
    torch.tensor([65519.996, 65520, 65536, 1e30, -1e30, 1e-30, -1e-45, 3e-8]),
])
values = values[: len(values) // 16 * 16]
assert same(convert(values, "float32", "float16"), values.half())
print("right")
"""


# By day, the one whose code could have such instructions.
@pytest.mark.parametrize(
    "cpu", ["generic", "haswell"] if NIGHT else ["haswell"]
)
def test_all_float16_are_converted_without_instructions_for_it(cpu, tmp_path):
    features = "+avx,+avx2,+fma,-f16c" if cpu == "haswell" else ""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True,
        env={
            **os.environ, "NUMBA_CPU_NAME": cpu,
            "NUMBA_CPU_FEATURES": features,
            "NUMBA_CACHE_DIR": str(tmp_path),
        },
    )  # fmt: skip
    assert found.stdout == "right\n", found.stderr[-2000:]
