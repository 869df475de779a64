"""Messages of the shell name flags, not arguments of Python."""

import argparse

import pytest

from dgl_lc.cli.shell_words import name_flags

ALL = argparse.Namespace(
    no_resume=False, id_type=None, header=None, id_column=None, split=None,
    feature_columns=None, add_reverse=False, memory="1MiB",
    not_shared=False,
)  # fmt: skip


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("again with resume=False.", "again with --no-resume."),
        ('pass id_type="text".', "pass --id-type text."),
        ("but id_type='int': omit", "but --id-type int: omit"),
        ("or omit id_type.", "or omit --id-type."),
        ("pass header=False if", "pass --no-header if"),
        ("pass columns={'id': ''} if", 'pass --id-column "" if'),
        ("with columns={'id': 'NAME'}, or", "with --id-column NAME, or"),
        ("with columns={'features': …}.", "with --feature-columns."),
        ("columns['source']: e.csv has", "--source-column: e.csv has"),
        ("columns['features']: e.csv has", "--feature-columns: e.csv has"),
        ("split['train']: t.csv has", "--split train: t.csv has"),
        ("and with add_reverse=True an", "and with --add-reverse an"),
        ("and omit add_reverse.", "and omit --add-reverse."),
        ("memory=1MiB is too small", "--memory=1MiB is too small"),
        ("--memory=x and --host-memory=y", "--memory=x and --host-memory=y"),
        ("split=(3, 1): the product", "--split 3x1: the product"),
        ("give split='edges', or", "give --split edges, or"),
        ("out='a' is not one", "--out='a' is not one"),
        ("share, or shared=False for", "share, or --not-shared for"),
        ("made with add_reverse=False", "made with add_reverse=False"),
    ],
)  # fmt: skip
def test_arguments_become_flags(python, shell):
    assert name_flags(python, ALL) == shell
    # A command that lacks the flags cannot name them.
    assert name_flags(python, argparse.Namespace()) == python
    assert name_flags(python, None) == python
