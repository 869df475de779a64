"""``dgl-lc calibrate``."""

from dgl_lc.cli import main


def test_an_unknown_device_is_named(refused):
    assert "--device 'foo'" in refused("calibrate", "--device", "foo")


def test_calibrate_prints_the_coefficients(capsys):
    assert main(["calibrate"]) == 0
    assert "beta_X" in capsys.readouterr().out
