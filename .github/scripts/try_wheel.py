"""Use the installed package outside of the clone, as a new reader does."""

import re
import runpy
from importlib import metadata
from pathlib import Path

import dgl_lc  # isort: skip  # before dgl
from dgl_lc.data import block_model
from dgl_lc.nn import LCGCN
from dgl_lc.training import fit, predict

data = block_model(2_000)
model = LCGCN(data.num_feats, 32, data.num_classes)
hops = model.precompute(data.graph, data.feat)
fit(model, hops, data.labels, data.train, data.valid, epochs=20)
logits = predict(model, hops, data.test)
accuracy = (logits.argmax(1) == data.labels[data.test]).float().mean().item()
print(f"dgl-lc {dgl_lc.__version__}: test accuracy {accuracy:.3f}")
assert accuracy > 0.6, "the features alone give about 60 %"

# The package's description is the README: its script has to run as pasted.
description = metadata.metadata("dgl-lc").get_payload()
(script,) = re.findall(r"^```python\n(.*?)^```", description, re.S | re.M)
Path("readme_script.py").write_text(script)
runpy.run_path("readme_script.py", run_name="__main__")
