"""The command line: `gainbias VERB`.

Start reading in `verbs`: `main`, and one function for each verb. `options` says what may be typed,
`words` how that is understood and how help is shown, `arguments` turns words into objects, `show` puts
answers on a terminal, `completion` writes scripts for shells, `doctor` looks at the installation. Nothing
heavy is imported before a verb needs it.

Import `main`, the exit codes, `VERBS` and `parser` from here; the modules are only for the command line.
"""

from gainbias.cli.options import parser
from gainbias.cli.verbs import DONE, FAILED, VERBS, WRONG_INPUT, main

__all__ = ["DONE", "FAILED", "VERBS", "WRONG_INPUT", "main", "parser"]
