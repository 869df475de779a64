"""The data of the scripts here."""

import dgl_lc.data


def load_data(source):
    """Graph, features, labels and the ids of the three splits."""
    data = dgl_lc.data.load(source)
    return (
        data.graph,
        data.feat,
        data.labels,
        data.train,
        data.valid,
        data.test,
    )
