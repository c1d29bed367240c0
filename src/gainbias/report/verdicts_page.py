"""The page of verdicts, as Markdown: what was run, how often each claim held, and how to read it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pandas import DataFrame

from gainbias.algorithms.registry import short_title
from gainbias.experiments.reproduce import INSTANCES, PROTOCOLS, method_title, paper_tasks
from gainbias.report.data.results import PAPER_SCORES, MissingDataError, Paper, Printed
from gainbias.report.data.study_claims import STUDY_CLAIMS, StudyClaim
from gainbias.report.data.verdicts import NEAR, SCORES, judge, with_caveat
from gainbias.report.paper_tables import FIRST_INSTANCES
from gainbias.report.text import Sheet, TableCell, exact_text, markdown, range_text, ratio_text
from gainbias.tasks.registry import task_title

INTRODUCTION = """\
# Does the paper's study hold up?

Each empirical claim of "Bridging the Gap Between Average and Discounted TD Learning", and how often it held
in the stored runs. The protocol inferred was chosen to fit the paper's numbers; nothing else was tuned to
agree."""

FEWEST_FOR_BOOTSTRAP = 5
"""Fewest runs from which a bootstrap interval is shown."""

WHAT_COUNTS = (
    "A count such as 8 of 8 is of runs: in each run all tasks are run once more, with new features and "
    "paths, so it says that a result repeats on these tasks, not that it is general. Some claims follow from "
    "others, and intervals are not corrected for the number of claims."
)

HOW_TO_READ = f"""\
## How to read this page

- **literal**: what the paper's text says: one scale for all features, errors against the bias.
  **inferred**: what fits its numbers best: each feature row scaled to norm 1, errors against the paper's
  fixed point. Both score the paper's two algorithms by the full error and all others modulo constants, after
  equal numbers of steps.
- **fair**: one metric for all (full, centred by the stationary mean, or up to a constant: the quotient),
  errors against the bias, after equal numbers of transitions (a step of double chain uses two). The full
  error includes a constant that the baselines and variance-reduced TD do not try to find.
- *In brackets* after a verdict, or by a mark: a caveat without which it must not be quoted.
- *Runs*: in how many runs the claim held over the tasks, with a 95% Clopper-Pearson interval of the share.
  *Pairs*: share of pairs of run and task in which it held. *Ratio*: typical value (interquartile mean of the
  logarithm) of the ratio in the heading, which is below 1 where the claim holds. Intervals of both are 95%
  bootstrap intervals, stratified by task; fewer than {FEWEST_FOR_BOOTSTRAP} runs have none, because it would
  be too short.
- *Holds*, *fails*: the 95% Clopper-Pearson interval of the share of runs lies above, below one half.
- *Seems to*: there are too few runs for that, or the study was shortened. *Fails in a task*: in more than
  half of its runs.
- {WHAT_COUNTS}
- *Findings* are the numbered ones on the page "What we found in the paper" of the documentation."""

ONLY_CONDITIONS = "Distances depend on the number of steps: a shortened study judges condition numbers only."
ALL_EXPLAINED = f"None: ours is within a factor of {NEAR:g} of each under some choice."


HEADLINES = {"literal": "As the paper scores", "inferred": "As its numbers suggest that it scores"}
"""The paper's protocols, as they are called in the sentence that sums all up."""


def headline(table: DataFrame, manifest: Mapping[str, Any]) -> str:
    """Return in a sentence how many claims held in most runs.

    The fair protocol comes first. It has claims about one kind of error, and others to which no error
    matters; a claim about the paper's own error cannot be tested under it.

    Examples
    --------
    >>> rows = [("a", "literal", "seems to hold", 3, 3), ("b", "literal", "seems to fail", 1, 3)]
    >>> table = DataFrame(rows, columns=["claim", "score", "word", "held", "of"])
    >>> headline(table, {"shorten": 10, "tasks": {}, "protocols": {}})
    'Partly, in this quick look. As the paper scores: 1 of 2 seems to hold.'
    """
    centred, others = _rows_of(table, "fair, centred"), _rows_of(table, "fair")
    sentences = []
    if fair := centred + others:
        parts = [
            f"{_holding(rows)} of {len(rows)} {words}"
            for rows, words in ((centred, "about centred errors"), (others, "others"))
            if rows
        ]
        verb = _verb(fair)
        sentences.append(
            f"Fair scoring: {_holding(fair)} of {len(fair)} tested claims {verb} ({', '.join(parts)})."
        )
    known = {words: rows for score, words in HEADLINES.items() if (rows := _rows_of(table, score))}
    counts = {words: f"{_holding(rows)} of {len(rows)} {_verb(rows)}" for words, rows in known.items()}
    if len(counts) == 2 and len(set(counts.values())) == 1:
        counts = {"As the paper scores, in both readings": next(iter(counts.values()))}
    sentences += [f"{words}: {said}." for words, said in counts.items()]
    judged = fair or [row for rows in known.values() for row in rows]
    if not judged:
        return "Not known: the stored runs are not enough to judge any claim."
    word = {0: "No", len(judged): "Yes"}.get(_holding(judged), "Partly")
    part = "in this quick look" if manifest["shorten"] != 1 else "in this part of the study"
    first = f"{word}, {part}." if shortfalls(manifest) else f"{word}."
    return " ".join([first, *sentences])


def _holding(rows: Sequence[Any]) -> int:
    return sum(map(_holds_mostly, rows))


def _verb(rows: Sequence[Any]) -> str:
    """Return the verb for the claims that held, one of which may only seem to."""
    seems = any(row.word.startswith("seems") for row in rows if _holds_mostly(row))
    one = "s" * (_holding(rows) == 1)
    return f"seem{one} to hold" if seems else f"hold{one}"


def _rows_of(table: DataFrame, score: str) -> list[Any]:
    return list(table[table["score"] == score].itertuples()) if len(table) else []


def _holds_mostly(row: Any) -> bool:
    return bool(2 * row.held > row.of)


def verdicts_page(
    table: DataFrame, unexplained: DataFrame, paper: Paper, manifest: Mapping[str, Any], findings: str
) -> str:
    """Return the page of verdicts.

    Parameters
    ----------
    table : DataFrame
        Of `verdict_table`.
    unexplained : DataFrame
        Of `verdicts.unexplained`.
    paper : Paper
        Claims are judged by its own tables, too.
    manifest : mapping
        How the study was made.
    findings : str
        Address of the page of findings about the paper, to which claims link; without it, they only name the
        page.
    """
    parts = [
        INTRODUCTION,
        f"**{headline(table, manifest)}**",
        study_summary(manifest),
    ]
    parts += ["## In short", _overview(table, paper), "## Claim by claim"]
    parts += [_section(claim, table[table["claim"] == claim.name], paper, findings) for claim in STUDY_CLAIMS]
    parts = [part for part in parts if part]
    return "\n\n".join([*parts, _without_explanation(unexplained, manifest), HOW_TO_READ]) + "\n"


def _overview(table: DataFrame, paper: Paper) -> str:
    texts = {
        (row.claim, row.score): with_caveat(f"{row.word}, {row.held} of {row.of}", row.caveat)
        for row in table.itertuples()
    }
    rows = []
    for claim in STUDY_CLAIMS:
        cells = [texts.get((claim.name, score), "-") for score in (*SCORES, "fair")]
        link = f"[{claim.text}](#{claim.name})"
        rows.append([[TableCell(text) for text in (link, in_the_paper(claim, paper), *cells)]])
    header = ["Claim", "The paper's table", *SCORES, "fair, no metric"]
    return markdown(Sheet("verdicts", "In how many runs each claim held.", header, rows, text_columns=8))


def in_the_paper(claim: StudyClaim, paper: Paper) -> str:
    """Return in words in how many tasks a claim holds by the paper's own numbers."""
    try:
        verdict = judge(claim, Printed(paper), PAPER_SCORES["literal"])
    except MissingDataError:
        return "-"
    return f"{round(verdict.pairs.estimate * verdict.num_tasks)} of {verdict.num_tasks} tasks"


def _section(claim: StudyClaim, table: DataFrame, paper: Paper, findings: str) -> str:
    links = ", ".join(_finding(name, findings) for name in claim.findings)
    lines = [f'<a id="{claim.name}"></a>', "", f"### {claim.text}", "", f"{claim.where}. Findings: {links}."]
    if claim.about == "conditions":
        lines += ["", FIRST_INSTANCES]
    printed = in_the_paper(claim, paper)
    if printed != "-":
        lines += ["", f"By the paper's own tables: in {printed}."]
    if table.empty:
        return "\n".join([*lines, "", "The stored runs are not enough to judge this."])
    rows = [[[TableCell(text) for text in verdict_texts(row)]] for row in table.itertuples()]
    sheet = Sheet(claim.name, "", verdict_header(claim), rows, text_columns=6)
    return "\n".join([*lines, "", markdown(sheet)])


def verdict_header(claim: StudyClaim) -> list[str]:
    """Return the header of the table of a claim's verdicts."""
    ratio = f"Ratio: {claim.measures}" if claim.measures else "Ratio"
    return ["Score", "Verdict", "Runs", "Pairs", ratio, "Why not"]


def _finding(name: str, findings: str) -> str:
    number = name.removeprefix("finding-")
    return f"[{number}]({findings}#{name})" if findings else number


def verdict_texts(row: Any) -> tuple[str, ...]:
    """Return the cells of a row of `verdict_table`, under `verdict_header`."""
    runs = f"{row.held} of {row.of} [{row.runs_low:.0%}, {row.runs_high:.0%}]"
    pairs, ratio = f"{row.pairs:.0%}", "-" if math.isnan(row.typical) else ratio_text(row.typical)
    if row.of >= FEWEST_FOR_BOOTSTRAP:
        pairs += f" [{row.pairs_low:.0%}, {row.pairs_high:.0%}]"
        if not math.isnan(row.typical):
            ratio = range_text(row.typical, row.typical_low, row.typical_high)
    return row.score, with_caveat(row.word, row.caveat), runs, pairs, ratio, row.reason or "-"


def _without_explanation(unexplained: DataFrame, manifest: Mapping[str, Any]) -> str:
    heading = "## Printed numbers that no choice explains"
    if manifest["shorten"] != 1:
        heading += f"\n\n{ONLY_CONDITIONS}"
    if unexplained.empty:
        return f"{heading}\n\n{ALL_EXPLAINED}"
    return f"{heading}\n\n{markdown(unexplained_sheet(unexplained))}"


SUBSCRIPTS = {"1": "₁", "2": "₂", "3": "₃"}
ETA2_READINGS = {"eta2": ", on the subspace", "eta2_literal": ", as printed"}
"""The two readings of the second condition number."""


def unexplained_sheet(unexplained: DataFrame) -> Sheet:
    """Lay out the printed numbers that no choice explains."""
    rows = []
    for row in unexplained.itertuples():
        is_eta = row.quantity.startswith("eta")
        name = f"η{SUBSCRIPTS[row.quantity[3:]]}" if is_eta else short_title(row.quantity)
        numbers = [f"{x:.2e}" if is_eta else f"{x:.3g}" for x in (row.paper, row.nearest)]
        choice = row.choice
        if is_eta:
            protocol, _, reading = choice.partition(", ")
            choice = protocol + ETA2_READINGS.get(reading, "")
        cells = (task_title(row.task), name, choice, *numbers, ratio_text(row.factor))
        rows.append([[TableCell(text) for text in cells]])
    header = ["Task", "Number", "Nearest choice", "Paper", "Ours", "Off by a factor of"]
    note = (
        "Tried: every stored protocol, kind of error and target, in the Euclidean norm, which the paper "
        "names. There are many choices, so a number can agree with one of them by chance. Those above agree "
        "with none, and we know of no explanation."
    )
    caption = f"Further than a factor of {NEAR:g} from ours under every choice."
    return Sheet("unexplained", caption, header, rows, [note], text_columns=3)


QUICK_LOOK = "**Quick look:** {parts}. Not comparable with the paper's numbers."
PART = "**A part of the study:** {parts}. Verdicts and means are of this part only."


def study_summary(manifest: Mapping[str, Any]) -> str:
    """Return what was run, by which command, with which versions, as Markdown.

    Parameters
    ----------
    manifest : mapping
        Of `gainbias.experiments.reproduce.make_manifest`.
    """
    parts = shortfalls(manifest)
    rows = [[[TableCell(words), TableCell(text)]] for words, text in study_facts(manifest).items()]
    parts.append(markdown(Sheet("study", "", ["What was run", ""], rows, text_columns=2)))
    parts.append("All of it, with the fingerprint of every instance, is in `manifest.json`.")
    return "\n\n".join(parts)


def shortfalls(manifest: Mapping[str, Any]) -> list[str]:
    """Return what a study lacks compared with the full one, in Markdown; nothing if it is the full one.

    Examples
    --------
    >>> from gainbias.experiments.reproduce import paper_tasks
    >>> protocols = {"literal": {"seeds": [0]}, "inferred": {"seeds": [0]}, "fair": {"seeds": [0, 1]}}
    >>> study = {"shorten": 1, "tasks": dict.fromkeys(paper_tasks()), "protocols": protocols}
    >>> shortfalls(study)
    ['**A part of the study:** 2 of 30 runs. Verdicts and means are of this part only.']
    >>> shortfalls({**study, "shorten": 10})
    ["**Quick look:** 1/10 of the paper's steps; 2 of 30 runs. Not comparable with the paper's numbers."]
    """
    protocols = manifest["protocols"]
    parts = [f"1/{manifest['shorten']} of the paper's steps"] if manifest["shorten"] != 1 else []
    known = paper_tasks()
    if len(run := set(manifest["tasks"]) & set(known)) < len(known):
        parts.append(f"{len(run)} of the paper's {len(known)} tasks")
    if missing := [name for name in PROTOCOLS if name not in protocols]:
        parts.append(f"no protocol {' and no protocol '.join(missing)}")
    if "fair" in protocols and (count := len(protocols["fair"]["seeds"])) < INSTANCES:
        parts.append(f"{count} of {INSTANCES} runs")
    words = QUICK_LOOK if manifest["shorten"] != 1 else PART
    return [words.format(parts="; ".join(parts))] if parts else []


def study_facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what was run, each fact under its name."""
    versions = {"Python": manifest["python"], **manifest["packages"]}
    protocols = manifest["protocols"]
    return {
        "Command": manifest["command"],
        "Finished": f"{manifest['finished']}, after {_duration(manifest['seconds'])}{_reused(manifest)}",
        "Tasks": f"{len(manifest['tasks'])}" + _task_names(manifest["tasks"]),
        "Runs": ", ".join(f"{len(p['seeds'])} {name}" for name, p in protocols.items())
        + "; each has one instance of every task",
        "Seeds": ", ".join(f"{_span(p['seeds'])} {name}" for name, p in protocols.items()),
        "Changed settings": _pairs(manifest["settings"]) or "none",
        **_own_step_sizes(protocols),
        "gainbias": manifest["code"],
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "Environments": ", ".join(_environments(manifest["tasks"])) or "none",
    }


def _own_step_sizes(protocols: Mapping[str, Any]) -> dict[str, str]:
    """Say how the methods that do not take the paper's step sizes are run."""
    return {
        method_title(name): (
            f"constant step size {exact_text(method['step_size'])}, {_pairs(method['params'])}"
        )
        for protocol in protocols.values()
        for name, method in protocol["methods"].items()
        if not isinstance(method["step_size"], str)
    }


def _pairs(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {exact_text(value)}" if isinstance(value, float) else f"{name} {value}"
        for name, value in settings.items()
    )


def _environments(tasks: Mapping[str, Any]) -> list[str]:
    found = [task["source"]["environment"] for task in tasks.values() if "environment" in task["source"]]
    return list(dict.fromkeys(found))


def _task_names(tasks: Mapping[str, Any]) -> str:
    return f": {', '.join(tasks)}" if len(tasks) < 15 else ""


def _reused(manifest: Mapping[str, Any]) -> str:
    if not manifest["reused"]:
        return ""
    return f"; {manifest['reused']} of {manifest['units']} instances had been stored before"


def _span(seeds: list[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
