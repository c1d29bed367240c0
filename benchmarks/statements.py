"""Every statement of the paper on random chains and at the limits of its conditions.

    python -m benchmarks.statements --output docs/data/statements.json

Writes for each statement its verdict, how close it came to failing and in which case, what its wrong version
gave, and the case that refutes the printed form, if there is one. It takes about five minutes on one core.
"""

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import gainbias as gb
from gainbias.store import write_whole
from gainbias.theory.statements.cases import NUM_RANDOM, all_cases
from gainbias.theory.statements.registry import STATEMENTS
from gainbias.theory.statements.statement import Measure, StatementOutcome


def measured(outcome: StatementOutcome) -> dict[str, Any]:
    """Return what was found about a statement in plain values."""
    statement, check, refuted = outcome.statement, outcome.statement.check, outcome.refutation
    found: dict[str, Any] = {"label": statement.label, "kind": statement.kind, "verdict": outcome.verdict}
    if check is not None and outcome.worst is not None and outcome.wrong is not None:
        found |= {
            "measure": "missed" if check.identity else "ratio",
            "limit": check.limit,
            "cases": outcome.cases,
            "worst": outcome.worst.number,
            "worst_case": outcome.worst.case,
            "wrong_version": check.wrong,
            "wrong": outcome.wrong.number if math.isfinite(outcome.wrong.number) else "infinite",
            "wrong_is_seen": outcome.wrong_is_seen,
        }
    if refuted is not None:
        found["refuted"] = {"found": refuted.found, "promised": refuted.promised, "where": refuted.where}
    return found


def main() -> None:
    """Measure all statements and store what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    output = parser.parse_args().output
    cases, small = all_cases(), all_cases(small=True)
    remembered: dict[Measure | None, StatementOutcome] = {}
    rows = []
    for statement in STATEMENTS:
        measure = statement.check.measure if statement.check else None
        if measure is None or measure not in remembered:
            remembered[measure] = statement.measure(cases, small)
        known = remembered[measure]
        refutation = statement.refuted() if statement.refuted else None
        outcome = StatementOutcome(statement, refutation, known.worst, known.wrong, known.cases)
        rows.append(measured(outcome))
        print(f"{statement.label:50} {rows[-1]['verdict']:17} {rows[-1].get('worst', '')}", flush=True)
    print(dict(Counter(row["verdict"] for row in rows)))
    if output:
        stored = {"version": gb.__version__, "random_cases": NUM_RANDOM, "statements": rows}
        write_whole(output, (json.dumps(stored, indent=1, allow_nan=False) + "\n").encode())


if __name__ == "__main__":
    main()
