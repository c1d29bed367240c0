"""Run the command line by ``python -m gainbias.cli``."""

import sys

from gainbias.cli.verbs import main

if __name__ == "__main__":
    sys.exit(main())
