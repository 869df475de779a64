"""Sparse times dense through torch, on any device that torch has.

On CUDA that is cuSPARSE, so that DGL without CUDA is enough.
"""

import warnings

import torch
from dgl import DGLError

# torch says so once in every process; what is used here is old and simple.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support")


def spmm_add(
    out: torch.Tensor,
    indptr: torch.Tensor,
    indices: torch.Tensor,
    values: torch.Tensor,
    x: torch.Tensor,
) -> None:
    """``out += B x`` for a block B of edges in compressed rows.

    Nothing is allocated here except what the library takes for itself.
    """
    # On CUDA mixed index types are misread without a word.
    if indptr.dtype != torch.int32 or indices.dtype != torch.int32:
        raise DGLError(
            f"indptr and indices should both be int32, got {indptr.dtype} and "
            f"{indices.dtype}."
        )
    if len(indptr) != len(out) + 1 or out.shape[1] != x.shape[1]:
        raise DGLError(
            f"indptr has {len(indptr)} elements and x {x.shape[1]} columns, "
            f"but out has the shape {tuple(out.shape)}."
        )
    if out.dtype != x.dtype or values.dtype != x.dtype:
        raise DGLError(
            f"out, values and x should be of one type, got {out.dtype}, "
            f"{values.dtype} and {x.dtype}."
        )
    if len(indices) == 0 or out.device.type == "meta":
        return
    if x.device.type == "cpu" and x.element_size() < 4:
        # torch has no such product on the CPU.
        total = out.float()
        spmm_add(
            total, indptr, indices, values[: len(indices)].float(), x.float()
        )
        out.copy_(total)
        return
    block = torch.sparse_csr_tensor(
        indptr, indices, values[: len(indices)], (len(out), len(x)),
        device=values.device, check_invariants=False,
    )  # fmt: skip
    torch.addmm(out, block, x, out=out)


def workspace_bytes(num_entries: int, num_rows: int) -> int:
    """What the library takes for itself: a model, nobody has measured it.

    A few bytes for each row, an eighth of one for each edge, and a MiB,
    rounded as torch's allocator rounds.
    """
    size = 16 * num_rows + num_entries // 8 + 2**20
    return -(-size // (20 * 2**20)) * 20 * 2**20
