"""Tests of many small stores, which need not survive a power failure."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    """Do not wait for the disk, in the process of the tests."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
