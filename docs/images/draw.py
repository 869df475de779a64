"""Draw the pictures of docs/: run ``python docs/images/draw.py``."""

from pathlib import Path

import dgl
import torch
import torch.nn.functional as F
from dgl.nn import GraphConv
from torch import nn

import dgl_lc


class GCN(nn.Module):
    """The example of the README."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = GraphConv(128, 64)
        self.conv2 = GraphConv(64, 8)

    def forward(self, g: dgl.DGLGraph, x: torch.Tensor) -> torch.Tensor:
        """Compute the classes' scores of all nodes."""
        h = F.dropout(F.relu(self.conv1(g, x)), 0.5, self.training)
        return self.conv2(g, h)


class JKNet(nn.Module):
    """The example of docs/lc_transform.md."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = GraphConv(8, 16)
        self.conv2 = GraphConv(16, 16)
        self.out = nn.Linear(32, 3)

    def forward(self, g: dgl.DGLGraph, x: torch.Tensor) -> torch.Tensor:
        """Compute the classes' scores of all nodes."""
        h1 = F.relu(self.conv1(g, x))
        h2 = F.relu(self.conv2(g, h1))
        return self.out(torch.cat([h1, h2], dim=1))


def draw(folder: Path) -> list[Path]:
    """Draw all pictures into a folder."""
    g = dgl.add_self_loop(dgl.rand_graph(1000, 5000))
    drawn = []
    for model, columns in ((GCN(), 128), (JKNet(), 8)):
        lc = dgl_lc.lc_transform(model, g, torch.randn(1000, columns))
        drawn.append(lc.draw(folder / f"{type(model).__name__.lower()}.svg"))
    return drawn


if __name__ == "__main__":
    for path in draw(Path(__file__).parent):
        print(path)
