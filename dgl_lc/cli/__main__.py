"""Lets ``python -m dgl_lc.cli`` run the command."""

import sys

from . import main

sys.exit(main())
