"""Lets ``python -m dgl_lc`` run the command ``dgl-lc``."""

import sys

from .cli import main

sys.exit(main())
