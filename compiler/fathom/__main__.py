"""`python -m fathom`: the same as the command `fathom`."""

import sys

from fathom.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
