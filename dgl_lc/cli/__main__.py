"""``python -m dgl_lc.cli``."""

import sys

from . import main

sys.exit(main())
