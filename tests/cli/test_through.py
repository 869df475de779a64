"""From a prepared task to predictions: plan, precompute, train, predict."""

import csv
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch

from dgl_lc.cli import main
from dgl_lc.data import DiskData, NodeData, block_model, prepare, save_npz
from dgl_lc.precompute import block_aggregate, open_store
from dgl_lc.training import load_model, predict, write_predictions
from dgl_lc.training.task_store import open_task_store

DATA = block_model(300, num_classes=3, num_feats=8, seed=1)
EDGES = torch.stack(DATA.graph.edges()).numpy()


def run(*call):
    assert main([str(word) for word in call]) == 0


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def splits(ids):
    parts = {"train": DATA.train, "valid": DATA.valid, "test": DATA.test}
    return {name: ids[part.numpy()] for name, part in parts.items()}


def whole_way(root, task):
    """Run all commands; return the predictions of some nodes."""
    model, hops = root / "model.pt", root / "hops"
    data = ["--data", task]
    run("plan", *data, "--hops", 2, "--memory", "64MiB", "--out", hops)
    run("precompute", *data, "--hops", 2, "--out", hops, "--split-only",
        "--memory", "64MiB")  # fmt: skip
    run("train", *data, "--model", "LCGPRGNN", "--hops", 2, "--store", hops,
        "--epochs", 30, "--hid-feats", 16, "--lr", 0.05, "--save", model,
        "--history", root / "h.csv", "--plots", root / "plots")  # fmt: skip
    run("predict", *data, "--model", model, "--store", hops,
        "--out", root / "all.csv")  # fmt: skip
    return model, hops


def test_integer_ids_in_the_shell(tmp_path):
    ids = np.arange(300)[::-1] * 7 + 10**12
    data = prepare(
        edges=ids[EDGES], features=DATA.feat.numpy(), nodes=ids,
        labels=DATA.labels.numpy(), split=splits(ids), out=tmp_path / "task",
    )  # fmt: skip
    model, hops = whole_way(tmp_path, tmp_path / "task")
    title, *rows = read_csv(tmp_path / "all.csv")
    assert title == ["id", "class"]
    assert [int(row[0]) for row in rows] == ids.tolist()
    net = load_model(model)
    inputs = block_aggregate(DATA.graph, DATA.feat, 2)
    wanted = predict(net, inputs).argmax(1)
    assert [int(row[1]) for row in rows] == wanted.tolist()
    assert (wanted == data.labels).double().mean() > 0.5
    # Ids of some nodes, in an order of their own.
    (tmp_path / "ids.csv").write_text(f"id\n{ids[5]}\n{ids[299]}\n{ids[5]}\n")
    run("predict", "--data", tmp_path / "task", "--model", model, "--store",
        hops, "--nodes", tmp_path / "ids.csv", "--out",
        tmp_path / "some.csv")  # fmt: skip
    assert read_csv(tmp_path / "some.csv")[1:] == [
        [str(ids[node]), str(int(wanted[node]))] for node in (5, 299, 5)
    ]


def test_texts_as_ids_and_classes_in_the_shell(tmp_path, refused):
    pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    ids = np.array([f"node {i}, ä" for i in range(300)], dtype=object)
    kinds = np.array(["blue", "green", "red"], dtype=object)
    names = kinds[DATA.labels.numpy()]
    with open(tmp_path / "edges.csv", "w", newline="") as file:
        csv.writer(file).writerows([("from", "to"), *ids[EDGES.T].tolist()])
    parts = np.empty(300, dtype=object)
    for name, part in splits(np.arange(300)).items():
        parts[part] = name
    with open(tmp_path / "nodes.csv", "w", newline="") as file:
        table = csv.writer(file)
        features = [f"x{column}" for column in range(8)]
        table.writerow(["id", "label", "split", *features])
        table.writerows(
            [ids[i], names[i], parts[i], *DATA.feat[i].tolist()]
            for i in range(300)
        )
    task = tmp_path / "task"
    prepare(tmp_path / "edges.csv", tmp_path / "nodes.csv", task)
    assert DiskData(task).class_names == kinds.tolist()
    model, hops = whole_way(tmp_path, task)
    rows = read_csv(tmp_path / "all.csv")[1:]
    assert [row[0] for row in rows] == ids.tolist()
    right = [row[1] == name for row, name in zip(rows, names, strict=True)]
    assert np.mean(right) > 0.5
    call = ["predict", "--data", task, "--model", model, "--store", hops]
    run(*call, "--out", tmp_path / "p.parquet", "--probabilities")
    table = parquet.read_table(tmp_path / "p.parquet")
    assert table.column_names == ["id", "class", "p_blue", "p_green", "p_red"]
    assert table["id"].to_pylist() == ids.tolist()
    assert table["class"].to_pylist() == [row[1] for row in rows]
    (tmp_path / "ids.txt").write_text(f'"{ids[3]}"\nnobody\n')
    flags = ["--nodes", tmp_path / "ids.txt", "--out", tmp_path / "x.csv"]
    assert "nobody" in refused(*call, *flags)


def test_a_task_without_labels_is_predicted_and_not_trained(tmp_path, refused):
    prepare(edges=EDGES, features=DATA.feat.numpy(), out=tmp_path / "bare")
    prepare(
        edges=EDGES, features=DATA.feat.numpy(), labels=DATA.labels.numpy(),
        split=splits(np.arange(300)), out=tmp_path / "task",
    )  # fmt: skip
    model, out = tmp_path / "m.pt", tmp_path / "p.npy"
    call = ["--model", "SGC", "--epochs", "2", "--save", model]
    message = refused("train", "--data", tmp_path / "bare", *call)
    assert "has no training nodes" in message
    run("train", "--data", tmp_path / "task", *call)
    run("predict", "--data", tmp_path / "bare", "--model", model, "--out", out)
    assert np.load(out).shape == (300,)
    flags = ["--model", model, "--out", tmp_path / "q.npy", "--nodes", "test"]
    message = refused("predict", "--data", tmp_path / "bare", *flags)
    assert "--nodes test" in message


def weighted():
    """The task with a weight for each edge, in memory."""
    graph = dgl.graph(DATA.graph.edges(), num_nodes=300)
    generator = torch.Generator().manual_seed(0)
    graph.edata["weight"] = torch.rand(graph.num_edges(), generator=generator)
    return NodeData(
        graph, DATA.feat, DATA.labels, DATA.train, DATA.valid, DATA.test,
        num_classes=3, name="weighted",
    )  # fmt: skip


def test_weights_of_edges_are_applied(tmp_path, monkeypatch):
    data = weighted()
    monkeypatch.setattr("dgl_lc.data.open_data", lambda *_, **__: data)
    model, hops = whole_way(tmp_path, "weighted")
    net = load_model(model)
    weight = data.graph.edata["weight"]
    inputs = block_aggregate(data.graph, data.feat, 2, edge_weight=weight)
    wanted = predict(net, inputs).softmax(1).numpy()
    # Neither what is computed nor what is stored leaves the weights out.
    for rows in (None, open_task_store(hops, net, data)):
        path = tmp_path / "p.npy"
        write_predictions(net, data, path, rows=rows, probabilities=True)
        np.testing.assert_allclose(np.load(path), wanted, atol=1e-5)
    plain = block_aggregate(data.graph, data.feat, 2, edge_weight=False)
    net.weighted = None
    other = predict(net, plain).softmax(1).numpy()
    assert abs(other - wanted).max() > 1e-3


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_store_without_the_weights_of_the_task_is_refused(
    on_disk, tmp_path, refused
):
    data, path = weighted(), tmp_path / "task.npz"
    save_npz(data, path)
    if on_disk:
        path = tmp_path / "task"
        edges = tmp_path / "edges.npz"
        np.savez(edges, edge_index=EDGES, edge_weight=data.edge_weight.numpy())
        data = prepare(
            edges=edges,
            features=DATA.feat.numpy(), labels=DATA.labels.numpy(),
            split=splits(np.arange(300)), out=path,
        )  # fmt: skip
    assert "weighted edges" in repr(data)
    plain, model = tmp_path / "plain", tmp_path / "model.pt"
    block_aggregate(data.graph, data.feat, 2, edge_weight=False, out=plain)
    call = ["--data", path, "--store", plain]
    flags = ["--model", "SGC", "--hops", 2, "--epochs", 1, "--save", model]
    message = refused("train", *call, *flags)
    assert "made without edge weights, but" in message
    run("train", "--data", path, *flags)
    flags = ["--model", model, "--out", tmp_path / "p.npy"]
    message = refused("predict", *call, *flags)
    assert "the model was trained with them" in message
    # Rows and hops that are added are of the filter of the store.
    run("store", "extend", plain, "--data", path, "--hops", 3)
    wanted = block_aggregate(data.graph, data.feat, 3, edge_weight=False)
    torch.testing.assert_close(open_store(plain)[3], wanted[3])


def test_a_store_of_several_filters_can_not_be_extended(tmp_path, refused):
    save_npz(DATA, tmp_path / "task.npz")
    data, hops = tmp_path / "task.npz", tmp_path / "hops"
    run("train", "--data", data, "--model", "FSGNN", "--epochs", 1,
        "--hops-out", hops)  # fmt: skip
    for call in (
        ["store", "extend", hops, "--data", data, "--all"],
        ["update", hops, "--old-data", data, "--data", data],
    ):
        message = refused(*call)
        assert "is a store of several filters, which can't be" in message
        assert "precompute again into a new folder" in message


def test_a_store_of_a_folder_is_not_one_of_the_same_arrays(tmp_path, refused):
    data = prepare(
        edges=EDGES, features=DATA.feat.numpy(), labels=DATA.labels.numpy(),
        split=splits(np.arange(300)), out=tmp_path / "task",
    )  # fmt: skip
    block_aggregate(data.graph, data.feat, 2, out=tmp_path / "hops")
    save_npz(DATA, tmp_path / "task.npz")
    message = refused(
        "train", "--data", tmp_path / "task.npz", "--store", tmp_path / "hops",
        "--model", "SGC", "--hops", 2,
    )  # fmt: skip
    assert "a prepared folder and the other is not" in message


@pytest.mark.parametrize("name", ["FSGNN", "LCH2GCN"])
def test_a_model_of_several_filters(name, tmp_path, refused):
    save_npz(DATA, tmp_path / "task.npz")
    data = ["--data", tmp_path / "task.npz"]
    call = ["train", *data, "--model", name, "--epochs", 2, "--hid-feats", 8,
            "--save", tmp_path / "model.pt"]  # fmt: skip
    run(*call, "--hops-out", tmp_path / "hops")
    run(*call, "--store", tmp_path / "hops")
    call = ["predict", *data, "--model", tmp_path / "model.pt", "--out"]
    flags = ["--store", tmp_path / "hops", "--probabilities"]
    run(*call, tmp_path / "a.npy", *flags)
    run(*call, tmp_path / "b.npy", "--probabilities")
    np.testing.assert_allclose(
        np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"), atol=1e-5
    )
    call = ["train", *data, "--model", "SGC", "--store", tmp_path / "hops"]
    assert "does not suit the model" in refused(*call)


def test_outputs_are_where_they_were_asked_for(tmp_path):
    data = prepare(
        edges=EDGES, features=DATA.feat.numpy(), labels=DATA.labels.numpy(),
        split=splits(np.arange(300)), out=tmp_path / "task",
    )  # fmt: skip
    assert data.num_classes == 3
    whole_way(tmp_path, tmp_path / "task")
    found = sorted(path.name for path in Path(tmp_path).iterdir())
    assert found == ["all.csv", "h.csv", "hops", "model.pt", "plots", "task"]
    assert (tmp_path / "plots" / "training.png").exists()
