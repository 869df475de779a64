"""Train a small model with the installed package, outside of the clone."""

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
