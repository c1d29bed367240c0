"""Results in a notebook: small tables of facts, escaped, for every record that a user holds."""

import dataclasses
import html.parser
import inspect
import re

import numpy as np
import pytest

import gainbias as gb
from gainbias.notebook import SHOWN_ROWS, Card, InNotebooks, card_of

CHAIN = [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.0, 0.6, 0.4]]
HOSTILE = "<b onmouseover=alert(1)>down</b>"

NOT_SHOWN = {
    "ActionFeatures", "Checkpoints", "Columns", "Constant", "Declared", "Form", "FourierBasis", "Harmonic",
    "Learning", "Markov", "ParameterRange", "Polynomial", "PolynomialBasis", "RadialBasis", "RequestLog",
    "Tabular", "TileCoding",
}  # fmt: skip
"""Public classes that describe what is asked: one line of text says all about them."""


class Reader(html.parser.HTMLParser):
    """Collects tags that are open, and all texts."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.texts = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def read(record):
    """Return the texts of a record in a notebook, after a look at its tags."""
    reader = Reader()
    reader.feed(record._repr_html_())
    reader.close()
    assert reader.open == []
    assert reader.seen <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    return reader.texts


def test_every_record_that_a_user_holds_has_one():
    """A new public class is shown in notebooks, or says here that it need not be."""
    public = {name: getattr(gb, name) for name in gb.__all__}
    records = {
        name
        for name, each in public.items()
        if inspect.isclass(each) and not issubclass(each, BaseException | Warning)
    }
    without = {name for name in records if not issubclass(public[name], InNotebooks)}
    assert without == NOT_SHOWN & without
    assert not NOT_SHOWN - records


@pytest.fixture(scope="module")
def mrp():
    return gb.MarkovRewardProcess(CHAIN, [0.0, 1.0, 2.0], labels=["idle", "busy", HOSTILE])


@pytest.fixture(scope="module")
def problem(mrp):
    return gb.Problem(mrp, gb.Tabular())


def test_names_cannot_become_programs(mrp):
    assert HOSTILE in read(gb.solve(mrp))


def test_a_solution(mrp):
    solution = gb.solve(mrp)
    texts = read(solution)
    assert texts[0] == "Solution"
    assert texts[texts.index("gain") + 1].startswith(f"{solution.gain:.10g} (error at most ")
    assert texts[texts.index("idle") + 1 :][:3] == [
        f"{solution.stationary[0]:.6g}",
        "0",
        f"{solution.bias[0]:.6g}",
    ]
    assert any(text.startswith("3 states, 7 transitions, dense, rewards from 0 to 2") for text in texts)


def test_a_large_solution_stays_small():
    solution = gb.solve(gb.task("boyan-chain", num_states=401).problem.mrp)
    assert f"and {401 - SHOWN_ROWS} more" in read(solution)
    assert len(solution._repr_html_()) < 12_000


def test_what_a_model_gives(mrp, problem):
    for record in (mrp, problem, mrp.structure, problem.condition_numbers, gb.hitting_times(mrp, [2])):
        assert read(record)[0] == type(record).__name__
    numbers = problem.condition_numbers
    texts = read(numbers)
    assert texts[texts.index("eta1") + 1] == f"{numbers.eta1:.6g}"
    ring = np.roll(np.eye(500), 1, axis=1)
    many = read(gb.hitting_times(gb.MarkovRewardProcess(ring, np.zeros(500)), [0]))
    assert many[1:3] == ["mean", "500 numbers from 0 to 499"]
    accuracy = read(gb.solve(mrp).accuracy())
    assert accuracy[1:6] == ["quantity", "value", "error", "kind", "where"]


def test_what_a_run_gives(problem):
    trace = gb.run("double-chain", problem, 100, 0.1, seeds=range(3))
    texts = read(trace)
    assert texts.count("finished") == 3
    curve = gb.exact_curve("double-chain", problem, 100, 0.1, sampling="iid")
    assert "exact: mean squared error" in " ".join(read(curve))


def test_a_bound_says_which_condition_fails(problem):
    bound = gb.bound("double-chain", problem, step_size=0.5, num_steps=100, sampling="iid")
    texts = read(bound)
    assert "says nothing: it is not certified" in texts
    assert texts[texts.index("step size") + 1] == "no"


def test_an_answer_is_marked_by_whether_it_can_be_trusted():
    numbers = np.random.default_rng(0).normal(size=4_000)
    steady = gb.evaluate_series(numbers, (0.5,))
    shifted = gb.evaluate_series(numbers + 5.0 * (np.arange(4_000) > 2_000), (0.5,))
    marks = {card._repr_html_().partition("solid ")[2][:7] for card in (steady, shifted)}
    assert len(marks) == 2
    assert any(text.endswith("independent ones for the mean") for text in read(steady))
    both = gb.GroupedSeries({HOSTILE: steady, "b": shifted})
    assert read(both)[:2] == ["2 series", "group"]
    assert HOSTILE in read(both)
    assert both._repr_html_().partition("solid ")[2][:7] == shifted._repr_html_().partition("solid ")[2][:7]


def test_an_estimate_and_a_comparison():
    compared = gb.compare("FrozenLake-v1", "random", [1] * 16, num_steps=2_000)
    texts = read(compared.first)
    assert texts[texts.index("gain") + 1].startswith(f"{compared.first.gain:.4f}"[:5])
    assert "difference" in read(compared)
    frame = compared.to_frame()
    assert frame.loc["difference", "value"] == compared.difference
    assert frame.loc["second", ["low", "high"]].tolist() == list(compared.second.gain_interval)


def test_values_as_people_read_them():
    @dataclasses.dataclass
    class Record(InNotebooks):
        flag: bool
        count: int
        share: float
        nothing: object
        few: tuple
        many: np.ndarray
        named: dict

    record = Record(True, 12345, 1 / 3, None, (), np.arange(1000.0), {"a": 1, "b": 0.5})
    said = read(record)[2::2]
    assert said == ["yes", "12,345", "0.333333", "-", "none", "1,000 numbers from 0 to 999", "a 1, b 0.5"]
    assert card_of(record).title == "Record"
    assert "and 5 more" in Card("", {}, [{"a": 1}] * (SHOWN_ROWS + 5)).html()


class TestTables:
    def test_values_of_observations(self):
        estimate = gb.evaluate("FrozenLake-v1", "random", num_steps=2_000)
        frame = estimate.to_frame()
        assert frame.index.tolist() == list(range(16))
        assert frame["value"].to_numpy() == pytest.approx(estimate.value(np.arange(16)), nan_ok=True)
        assert frame[["low", "high"]].to_numpy() == pytest.approx(
            estimate.value_interval(np.arange(16)), nan_ok=True
        )
        boxes = gb.evaluate("CartPole-v1", "random", num_steps=1_000)
        with pytest.raises(ValueError, match=r"there is no table of values: .* Ask for some with value"):
            boxes.to_frame()

    def test_series_and_groups(self):
        numbers = np.random.default_rng(0).normal(size=4_000)
        one = gb.evaluate_series(numbers, (0.5, 0.9999))
        frame = one.to_frame()
        assert frame.loc["mean"].tolist() == [one.mean, *one.interval]
        assert frame.loc["p99.99", ["low", "high"]].isna().all()
        both = gb.GroupedSeries({"a": one, "b": one}).to_frame()
        assert both.loc[("b", "p50"), "value"] == one.quantiles[0.5].value
        assert set(both["verdict"]) == {"steady"}


def test_numbers_of_a_table_stand_at_the_right():
    html = Card("x", {}, [{"state": "idle", "bias": 1.5}, {"state": "busy", "bias": -10.25}]).html()
    styles = {text: style for style, text in re.findall(r'<t[hd][^>]*style="([^"]*)">([^<]*)<', html)}
    assert [text for text, style in styles.items() if "right" in style.split(";")[0]] == [
        "bias",
        "1.5",
        "-10.25",
    ]
