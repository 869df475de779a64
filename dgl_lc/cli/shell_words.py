"""Messages of the package, in the words of the shell.

The package names arguments of Python in its messages; in the shell the same
things are flags.
"""

import argparse
import re

#: The name of a flag's value, what messages call it in Python, and the flag.
_PHRASES = (
    # Of dgl-lc train: --no-resume is not for stores there.
    (
        "soft_labels",
        r"\bwrite this one again with resume=False\b",
        "remove this one",
    ),
    ("soft_labels", r"\bas label_store\b", "as --label-store"),
    ("no_resume", r"\bresume=False\b", "--no-resume"),
    ("id_type", r"\bid_type=[\"']?(\w+)[\"']?", r"--id-type \1"),
    ("id_type", r"\bomit id_type\b", "omit --id-type"),
    ("header", r"\bheader=False\b", "--no-header"),
    (
        "feature_columns",
        r"\bcolumns=\{'features': [^}]*\}",
        "--feature-columns",
    ),
    ("feature_columns", r"\bcolumns\['features'\]", "--feature-columns"),
    ("id_column", r"\bcolumns=\{'(\w+)': ''\}", r'--\1-column ""'),
    ("id_column", r"\bcolumns=\{'(\w+)': '(\w+)'\}", r"--\1-column \2"),
    ("id_column", r"\bcolumns\['(\w+)'\]", r"--\1-column"),
    ("split", r"\bsplit\['(\w+)'\]", r"--split \1"),
    ("add_reverse", r"\badd_reverse=True\b", "--add-reverse"),
    ("add_reverse", r"\bomit add_reverse\b", "omit --add-reverse"),
    ("ranks", r"\bsplit=\((\d+), (\d+)\)", r"--split \1x\2"),
    ("ranks", r"\bsplit='(\w+)'", r"--split \1"),
    ("not_shared", r"\bsplit=\((\d+), (\d+)\)", r"--split \1x\2"),
    ("not_shared", r"\bsplit='(\w+)'", r"--split \1"),
    ("not_shared", r"\bshared=False\b", "--not-shared"),
    ("not_shared", r"(?<![-\w])out=", "--out="),
    ("host_disk", r"\bhost_disk=", "--host-disk="),
    ("memory", r"(?<![-\w])memory=", "--memory="),
)


def name_flags(message: str, args: argparse.Namespace | None) -> str:
    """Replace arguments of Python in a message by the flags of a command.

    Parameters
    ----------
    message : str
        The message.
    args : Namespace or None
        The values of the command's flags. What has no flag stays as it is.
    """
    for name, phrase, flag in _PHRASES:
        if hasattr(args, name):
            message = re.sub(phrase, flag, message)
    return message
