"""The data that all scripts of this folder load."""

import dgl_lc.data


def load_data(source):
    """Return the graph, features, labels and the ids of the three splits."""
    data = dgl_lc.data.load(source)
    splits = data.train, data.valid, data.test
    return data.graph, data.feat, data.labels, splits
