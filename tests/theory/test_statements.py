"""The registry of the paper's statements: complete, measured, and able to say no."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gainbias.model.problem import Problem
from gainbias.model.process import MarkovRewardProcess
from gainbias.theory.statements import one_chain
from gainbias.theory.statements.cases import ChainCase, all_cases, edge_case, edge_cases, random_cases
from gainbias.theory.statements.registry import STATEMENTS
from gainbias.theory.statements.statement import (
    Refutation,
    Statement,
    StatementCheck,
    StatementOutcome,
    Worst,
)
from gainbias.theory.statements.two_chains import PairMoments, constant
from tests.theory.flipping import double_chain, exact_errors, flipping
from tools.paper_statements import statements_of

DATA = Path(__file__).parents[2] / "docs" / "data"
CHECKED = [statement for statement in STATEMENTS if statement.check]
REFUTED = [statement for statement in STATEMENTS if statement.refuted]


def label_of(statement):
    return statement.label


@pytest.fixture(scope="module")
def stored():
    return json.loads((DATA / "statements.json").read_text(encoding="utf-8"))["statements"]


def test_every_labelled_statement_of_the_paper_has_a_row():
    listed = json.loads((DATA / "paper_statements.json").read_text(encoding="utf-8"))
    expected = [(entry["label"], entry["kind"]) for entry in listed if entry["kind"] != "step of a proof"]
    assert [(statement.label, statement.kind) for statement in STATEMENTS] == expected
    assert len({statement.label for statement in STATEMENTS}) == len(STATEMENTS)


def test_few_are_not_testable():
    assert sum(bool(statement.untestable) for statement in STATEMENTS) <= 0.15 * len(STATEMENTS)


def test_findings_that_are_named_exist():
    page = (DATA.parent / "paper.md").read_text(encoding="utf-8")
    for statement in STATEMENTS:
        for finding in statement.findings:
            assert f'<a id="{finding}"></a>' in page, (statement.label, finding)


def test_what_is_stored_is_about_the_registry_of_today(stored):
    assert [row["label"] for row in stored] == [statement.label for statement in STATEMENTS]
    for row, statement in zip(stored, STATEMENTS, strict=True):
        worst = Worst(row["worst"], "") if "worst" in row else None
        refutation = Refutation(**row["refuted"]) if "refuted" in row else None
        assert StatementOutcome(statement, refutation, worst, worst, 0).verdict == row["verdict"]
        assert (statement.check is None) == (worst is None)
        if statement.check:
            assert row["wrong_version"] == statement.check.wrong
            assert row["wrong_is_seen"]
            assert row["cases"] >= 100


@pytest.mark.parametrize("statement", CHECKED, ids=label_of)
def test_statements_hold_on_other_chains(statement):
    cases = random_cases(2, seed=5, small=statement.check.small)
    assert statement.check.worst(cases).number <= statement.check.limit


@pytest.mark.slow
@pytest.mark.parametrize("statement", CHECKED, ids=label_of)
def test_statements_hold_and_wrong_versions_do_not(statement):
    """On a hundred chains that are not those of the page, and at the edge."""
    cases = all_cases(100, seed=1, small=statement.check.small)
    assert statement.check.worst(cases).number <= statement.check.limit
    assert statement.check.worst(cases, wrong=True).number > statement.check.limit


@pytest.mark.parametrize("statement", REFUTED, ids=label_of)
def test_refutations_refute(statement, stored):
    found = statement.refuted()
    assert found.found > found.promised
    row = next(row for row in stored if row["label"] == statement.label)
    assert found.found == pytest.approx(row["refuted"]["found"], rel=1e-6)


def test_rows_that_change_something_say_what():
    for statement in REFUTED:
        assert statement.corrected or statement.label in ("l: contraction", "table: condition numbers")


PLAIN = Statement("l", "lemma", "x <= 1", "here", StatementCheck(lambda case, wrong: 0.5, "x <= 0"))
BAD = Refutation(2.0, 1.0, "somewhere")


@pytest.mark.parametrize(
    ("change", "worst", "refutation", "verdict"),
    [
        ({}, 1.0, None, "holds as printed"),
        ({}, 1.1, None, "fails"),
        ({}, np.inf, None, "fails"),
        ({}, 0.5, BAD, "fails"),
        ({"corrected": "x <= 2"}, 0.5, BAD, "holds corrected"),
        ({"corrected": "x <= 2"}, 0.5, None, "holds corrected"),
        ({"corrected": "x <= 2"}, 1.1, BAD, "fails"),
        ({"check": None, "refuted": lambda: BAD}, None, BAD, "fails"),
        ({"check": None, "untestable": "a picture"}, None, None, "not testable"),
    ],
)
def test_verdicts(change, worst, refutation, verdict):
    found = None if worst is None else Worst(worst, "")
    assert StatementOutcome(replace(PLAIN, **change), refutation, found, found, 1).verdict == verdict


def test_a_check_that_gives_no_number_fails():
    check = StatementCheck(lambda case, wrong: float("nan"), "")
    assert check.worst([edge_case("no rewards")]) == Worst(np.inf, "no rewards")


def test_cases_are_what_the_paper_allows():
    for small in (False, True):
        for case in all_cases(20, small=small):
            assert case.problem.mrp.is_ergodic
            assert case.problem.features.max_row_norm <= 1 + 1e-12
            assert case.n <= (3 if small else 5)
    in_span = [case.problem.ones_in_span for case in edge_cases()]
    assert True in in_span
    assert False in in_span


def test_moments_are_those_of_an_independent_recursion():
    """Both samplings, on the chain whose constants are known by hand."""
    problem = flipping()
    case, alpha, target = ChainCase("", problem), 0.3, problem.fixed_point
    moments = PairMoments(case, np.zeros(1))
    steps = [moments.error(now) for now in moments.along(constant(alpha), 6, 0, 0)]
    assert steps == pytest.approx(exact_errors(problem, alpha, 6, target, double_chain, "markov"), rel=1e-12)
    expected = exact_errors(problem, alpha, 6, target, double_chain, "iid")
    assert moments.independent(alpha, [0, 3, 6]) == pytest.approx([expected[t] for t in (0, 3, 6)], rel=1e-12)


def test_lasting_errors_are_those_after_many_steps():
    moments = PairMoments(edge_case("two states that swap"), np.zeros(2))
    after = [moments.error(now) for now in moments.along(constant(0.3), 400, 0, 1)][-1]
    assert moments.lasting(0.3) == pytest.approx(after, rel=1e-9)


def test_noise_is_the_mean_over_all_paths():
    """Of two chains by moments, and listed path by path."""
    case, alpha = edge_case("one feature of one state"), 0.2
    now = list(PairMoments(case, np.ones(1)).along(constant(alpha), 2, 0, 1))[-1]
    phi, r, P, mu = case.Phi[:, 0], case.R, case.P, case.mu
    g_sum = f_sum = 0.0
    for states in np.ndindex(2, 2, 2, 2):
        (a, b), (c, d) = states[:2], states[2:]
        chance = P[0, a] * P[a, b] * P[1, c] * P[c, d]
        theta = 1.0
        for s, after, other in ((0, a, 1), (a, b, c)):
            f = -(r[s] + phi[s] * theta) * phi[other]
            theta += alpha * (f + (r[s] + phi[after] * theta - phi[s] * theta) * phi[s])
        g = (r + P @ phi * theta - phi * theta) * phi
        f_now = -(r[b] + phi[b] * theta) * phi[d]
        away = theta - case.theta[0]
        g_sum += chance * away * (g[b] - mu @ g)
        f_sum += chance * away * (f_now + (mu @ (r + phi * theta)) * (mu @ phi))
    assert PairMoments(case, np.ones(1)).noise(now) == pytest.approx((g_sum, f_sum), rel=1e-12)


def test_the_mean_of_features_by_moments_and_by_paths():
    case = next(random_cases(1, seed=3, small=True))
    away = case.mean * 0.0
    walk = one_chain.paths(case, away, 1.0, constant(0.3), 1.0, 1)
    listed = [float(now.chance @ np.sum((now.w - case.mean) ** 2, axis=1)) for now in walk]
    assert listed == pytest.approx(list(one_chain.mean_errors(case, constant(0.3), len(listed) - 1, 1, away)))


def test_paths_have_all_probability_and_stay_in_the_ball():
    case = edge_case("opposite features")
    for now in one_chain.paths(case, np.array([0.5]), 0.5, constant(0.9), 1.0, 0):
        assert now.chance.sum() == pytest.approx(1.0)
        assert np.abs(now.theta).max() <= 0.5 + 1e-12


def test_a_lemma_that_is_false_is_found_out():
    """The printed order of eta1 and eta2, checked separately."""
    case = edge_case("two states that swap")
    numbers = case.problem.condition_numbers
    statement = replace(
        PLAIN, check=StatementCheck(lambda case, wrong: numbers.eta2 / numbers.eta1, "nothing", small=True)
    )
    assert statement.measure([], [case]).verdict == "fails"


def test_the_list_of_the_paper_is_made_by_its_structure():
    source = r"""
\begin{table}[t] \label{table:early}
\caption{A caption. \label{tb:late}}
\end{table}
\begin{equation} \label{eq: free} x \end{equation}
\section{Something \label{sec: none}}
\noindent {\bf Remark:} This is one. % \label{eq: in a comment}
\begin{theorem} % no label
\begin{align} a \label{eq: part of it} \end{align}
\end{theorem}
\begin{proof}
\begin{lemma} \label{l: nested}
\end{lemma}
\begin{align*} b \label{eq: step} \end{align*}
\end{proof}
"""
    assert [(entry["label"], entry["kind"]) for entry in statements_of(source)] == [
        ("tb:late", "table"),
        ("eq: free", "equation"),
        ("remark at line 7", "remark"),
        ("theorem at line 8", "theorem"),
        ("l: nested", "lemma"),
        ("eq: step", "step of a proof"),
    ]


def test_a_problem_of_ones_own():
    chain = MarkovRewardProcess([[0.2, 0.8], [0.6, 0.4]], [1.0, 0.0])
    case = ChainCase("mine", Problem(chain, [[1.0], [0.5]]))
    numbers = {s.label: s.check.measure(case, False) for s in CHECKED if s.kind == "equation"}
    assert max(numbers.values()) <= 1.0 + 1e-9
