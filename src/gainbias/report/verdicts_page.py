"""The page of verdicts, as Markdown: what was run, how often each claim held, and how to read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
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

HOW_TO_READ = """\
## How to read this page

- **literal**: what the paper's text says: one scale for all features, errors against the bias.
  **inferred**: what fits its numbers best: each feature row scaled to norm 1, errors against the paper's
  fixed point. Both score the paper's two algorithms by the full error and all others modulo constants, after
  equal numbers of steps.
- **fair**: one metric for all (full, centred by the stationary mean, or modulo constants: the quotient),
  errors against the bias, after equal numbers of transitions (a step of double chain uses two). The full
  error includes a constant that the baselines and variance-reduced TD do not try to find.
- *In brackets* after a verdict: a caveat without which it must not be quoted.
- *Runs*: in how many runs the claim held over the tasks, with a 95% Clopper-Pearson interval of the share.
  *Pairs*: share of pairs of run and task in which it held. *Ratio*: typical value (interquartile mean of the
  logarithm) of the ratio in the heading, which is below 1 where the claim holds. Intervals of both are 95%
  bootstrap intervals, stratified by task; from 3 runs they are too short.
- *Seems to*: there are too few runs to tell their share from one half. *Fails in a task*: in more than half
  of its runs.
- *Findings* are the numbered ones on the page "What we found in the paper" of the documentation."""

ONLY_CONDITIONS = "Distances depend on the number of steps: a shortened study judges condition numbers only."
ALL_EXPLAINED = f"None: ours is within a factor of {NEAR:g} of each under some choice."


HEADLINES = {
    "fair, centred": "Fair (one error for all, equal numbers of transitions):",
    "literal": "Literal (what the paper's text says):",
    "inferred": "Inferred (what fits the paper's numbers best):",
}
"""Scores that are summed up first, one sentence each; the one that treats all methods alike comes first."""


def headline(table: DataFrame) -> list[tuple[str, str]]:
    """Return for each protocol in the table of verdicts a sentence on what held, and another on what did not.

    Each claim that did not hold comes with the number of runs in which it did, and with its caveat. The fair
    protocol has claims about one kind of error, and others to which no error matters.

    Examples
    --------
    >>> rows = [
    ...     ("a", "literal", "seems to hold", 3, 3, ""),
    ...     ("b", "literal", "seems to fail", 1, 3, "by our constants"),
    ... ]
    >>> columns = ["claim", "score", "word", "held", "of", "caveat"]
    >>> [(held, lost)] = headline(DataFrame(rows, columns=columns))
    >>> held.split("): ", 1)[1], lost
    ('1 of 2 claims seem to hold.', 'Not: b (1 of 3 runs, by our constants).')
    """
    sentences = []
    for score, words in HEADLINES.items():
        rows = _rows_of(table, score)
        if not rows:
            continue
        others = _rows_of(table, "fair") if score.startswith("fair,") else []
        lost = [
            f"{row.claim} ({', '.join(filter(None, (f'{row.held} of {row.of} runs', row.caveat)))})"
            for row in rows + others
            if not _holds_mostly(row)
        ]
        seems = any(row.word.startswith("seems") for row in rows + others if _holds_mostly(row))
        verb = "seem to hold" if seems else "hold in most runs"
        held, held_others = (sum(map(_holds_mostly, some)) for some in (rows, others))
        if others:
            said = (
                f"{held} of the {len(rows)} claims about centred errors {verb}; {held_others} "
                f"of the {len(others)} others."
            )
        else:
            said = f"{held} of {len(rows)} claims {verb}."
        sentences.append((f"{words} {said}", f"Not: {'; '.join(lost)}." if lost else ""))
    return sentences


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
        " ".join(sentence for both in headline(table) for sentence in both if sentence),
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
    pairs = f"{row.pairs:.0%} [{row.pairs_low:.0%}, {row.pairs_high:.0%}]"
    ratio = "-" if math.isnan(row.typical) else range_text(row.typical, row.typical_low, row.typical_high)
    return row.score, with_caveat(row.word, row.caveat), runs, pairs, ratio, row.reason or "-"


def _without_explanation(unexplained: DataFrame, manifest: Mapping[str, Any]) -> str:
    heading = "## Printed numbers that no choice explains"
    if manifest["shorten"] != 1:
        heading += f"\n\n{ONLY_CONDITIONS}"
    if unexplained.empty:
        return f"{heading}\n\n{ALL_EXPLAINED}"
    return f"{heading}\n\n{markdown(unexplained_sheet(unexplained))}"


def unexplained_sheet(unexplained: DataFrame) -> Sheet:
    """Lay out the printed numbers that no choice explains."""
    rows = []
    for row in unexplained.itertuples():
        is_eta = row.quantity.startswith("eta")
        name = row.quantity if is_eta else short_title(row.quantity)
        numbers = [f"{x:.2e}" if is_eta else f"{x:.3g}" for x in (row.paper, row.nearest)]
        cells = (task_title(row.task), name, row.choice, *numbers, ratio_text(row.factor))
        rows.append([[TableCell(text) for text in cells]])
    header = ["Task", "Number", "Nearest choice", "Paper", "Ours", "Off by a factor of"]
    note = (
        "Tried: every stored protocol, kind of error and target, in the Euclidean norm, which the paper "
        "names. There are many choices, so a number can agree with one of them by chance. Those above agree "
        "with none, and we know of no explanation."
    )
    caption = f"Further than a factor of {NEAR:g} from ours under every choice."
    return Sheet("unexplained", caption, header, rows, [note], text_columns=3)


WARNING = (
    "**This is a quick look, not the study.** Each run has 1/{shorten} of the paper's steps, so errors are "
    "larger than they would be, and neither numbers nor verdicts can be compared with the paper's."
)

PART = "**This is a part of the study.** It has {parts}. Verdicts and means are of this part only."


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
    """Return what a study lacks compared with the full one, as sentences in Markdown.

    Examples
    --------
    >>> from gainbias.experiments.reproduce import paper_tasks
    >>> protocols = {"literal": {"seeds": [0]}, "inferred": {"seeds": [0]}, "fair": {"seeds": [0, 1]}}
    >>> study = {"shorten": 1, "tasks": dict.fromkeys(paper_tasks()), "protocols": protocols}
    >>> shortfalls(study)[0][:91]
    '**This is a part of the study.** It has 2 of 30 instances of each task in the protocol fair'
    """
    protocols, parts = manifest["protocols"], []
    known = paper_tasks()
    if len(run := set(manifest["tasks"]) & set(known)) < len(known):
        parts.append(f"{len(run)} of the paper's {len(known)} tasks")
    if missing := [name for name in PROTOCOLS if name not in protocols]:
        parts.append(f"no protocol {' and no protocol '.join(missing)}")
    if "fair" in protocols and (count := len(protocols["fair"]["seeds"])) < INSTANCES:
        parts.append(f"{count} of {INSTANCES} instances of each task in the protocol fair")
    found = [WARNING.format(shorten=manifest["shorten"])] if manifest["shorten"] != 1 else []
    return [*found, PART.format(parts="; ".join(parts))] if parts else found


def study_facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what was run, each fact under its name."""
    versions = {"Python": manifest["python"], **manifest["packages"]}
    protocols = manifest["protocols"]
    return {
        "Command": manifest["command"],
        "Finished": f"{manifest['finished']}, after {_duration(manifest['seconds'])}{_reused(manifest)}",
        "Tasks": f"{len(manifest['tasks'])}" + _task_names(manifest["tasks"]),
        "Instances of each task": ", ".join(f"{len(p['seeds'])} {name}" for name, p in protocols.items()),
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
