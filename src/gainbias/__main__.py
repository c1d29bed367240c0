"""Run the command line by ``python -m gainbias``."""

import sys

from gainbias.cli import main

if __name__ == "__main__":
    sys.exit(main())
