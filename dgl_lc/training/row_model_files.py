"""What the file of an LC version holds: a row program and its tensors."""

from typing import Any

from .._common.nested import leaves
from ..row_programs.read_program import read_program
from ..row_programs.row_module import RowModule
from ..row_programs.row_program import RowProgram
from ..row_programs.verify_program import verify_program
from ..row_programs.write_program import write_program

#: Stands in the file where other models have the name of their class.
ROW_MODEL = "LC version"


def write_row_model(
    model: RowModule,
) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
    """Return what the file holds, and the sizes that names may have."""
    written = write_program(model)
    output = leaves(verify_program(model, written))[0]
    assert model._row_needs is not None
    content = {
        "name": ROW_MODEL,
        "program": written.text,
        "tensors": written.tensors,
    }
    sizes = {
        "class_names": {"columns of its output": output.shape[-1]},
        "feat_names": {
            f"columns of {entry.formula}": entry.shape[-1]
            for entry in model._row_needs.inputs
            if entry.shape
        },
    }
    return content, sizes


def read_row_model(content: dict[str, Any]) -> RowProgram:
    """Make the module that a file holds; a bad file is a ValueError."""
    return read_program(content.get("program"), content.get("tensors"))
