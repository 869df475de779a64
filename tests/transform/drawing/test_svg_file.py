"""Files of pictures: written whole, and never over a user's file."""

import pytest
from dgl import DGLError

from dgl_lc.transform.drawing.svg_file import write_svg

SVG = "<svg/>\n"


def test_a_picture_replaces_an_earlier_one(tmp_path):
    path = tmp_path / "model.svg"
    assert write_svg(str(path), SVG) == path
    first = path.read_text()
    assert first.endswith(SVG)
    write_svg(path, "<svg></svg>\n")
    assert path.read_text().endswith("<svg></svg>\n")
    write_svg(path, SVG)
    assert path.read_text() == first
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.svg"]


def test_files_of_users_are_not_replaced(tmp_path):
    path = tmp_path / "model.svg"
    for content in ("<svg>mine</svg>", ""):
        path.write_text(content)
        with pytest.raises(DGLError, match=r"exists, .* another name"):
            write_svg(path, SVG)
        assert path.read_text() == content


def test_a_picture_that_was_changed_is_not_replaced(tmp_path):
    path = write_svg(tmp_path / "model.svg", SVG)
    changed = path.read_text().replace("<svg/>", "<svg>my arrow</svg>")
    path.write_text(changed)
    with pytest.raises(DGLError, match="not a picture as dgl-lc drew it"):
        write_svg(path, SVG)
    assert path.read_text() == changed


def test_links_and_folders_are_not_replaced(tmp_path):
    drawn = write_svg(tmp_path / "drawn.svg", SVG)
    link = tmp_path / "link.svg"
    link.symlink_to(drawn)
    lost = tmp_path / "lost.svg"
    lost.symlink_to(tmp_path / "nowhere.svg")
    folder = tmp_path / "folder.svg"
    folder.mkdir()
    for path in (link, lost, folder):
        with pytest.raises(DGLError, match="exists"):
            write_svg(path, SVG)
    assert link.is_symlink()
    assert lost.is_symlink()


@pytest.mark.parametrize("name", ["model.png", "model", "svg", ".svg", ""])
def test_only_svg_is_written(tmp_path, name):
    with pytest.raises(DGLError, match=r"does not end in \.svg"):
        write_svg(tmp_path / name, SVG)


def test_capitals_are_fine(tmp_path):
    assert write_svg(tmp_path / "MODEL.SVG", SVG).is_file()


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DGLError, match="nowhere is not a folder"):
        write_svg(tmp_path / "nowhere" / "model.svg", SVG)
