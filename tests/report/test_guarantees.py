"""The command that prints a bound."""

import json

import pytest

import gainbias as gb
from gainbias import cli

WORDS = ["bound", "random-walk-50", "--algorithm", "double-chain"]


def answer_of(capsys, *words):
    assert cli.main([*words, "--json"]) == cli.DONE
    return json.loads(capsys.readouterr().out)


def test_a_certified_bound(capsys):
    assert cli.main([*WORDS, "--step-size", "1e-9", "--steps", "1000000", "--sampling", "iid"]) == cli.DONE
    shown = capsys.readouterr().out
    bound = gb.bound(
        "double-chain", gb.task("random-walk-50"), step_size=1e-9, num_steps=1_000_000, sampling="iid"
    )
    assert f"{bound.value:.6g}" in shown
    assert "not certified" not in shown
    for name, value in bound.constants.items():
        assert name in shown
        assert f"{value:.6g}" in shown


def test_a_violated_condition_is_named_with_what_would_satisfy_it(capsys):
    assert cli.main([*WORDS, "--step-size", "0.5", "--steps", "1000", "--sampling", "iid"]) == cli.DONE
    shown = " ".join(capsys.readouterr().out.split())
    eta = gb.task("random-walk-50").problem.condition_numbers.eta1
    for words in ("not certified", "alpha <= eta / 18", "0.5", f"{eta / 18:.6g}", "NO"):
        assert words in shown
    assert "of at most" in shown


def test_json(capsys):
    answer = answer_of(capsys, *WORDS)
    assert answer["value"] is None
    assert answer["certified"] is False
    assert any(not condition["holds"] and condition["remedy"] for condition in answer["conditions"])
    assert "xi = 1" in answer["theorem"]


def test_the_paper_to_the_letter(capsys):
    assert "L_1" in answer_of(capsys, *WORDS, "--as-printed")["constants"]
    assert "L_1" not in answer_of(capsys, *WORDS)["constants"]


def test_a_bound_that_says_nothing_is_called_so(capsys, monkeypatch):
    """The formula of single-chain gives 3e10 here; weights in the ball cannot be so far from theta*."""
    monkeypatch.setenv("COLUMNS", "200")
    words = ["bound", "frozen-lake", "--step-size", "1e-3", "--steps", "1000000"]
    assert cli.main(words) == cli.DONE
    shown = capsys.readouterr().out
    assert "NO: it says nothing: it is not below" in shown
    assert "what the projection alone gives" in shown
    answer = answer_of(capsys, *words)
    assert answer["certified"] is True
    assert answer["informative"] is False
    assert answer["value"] <= 4.0 * answer["constants"]["R_theta"] ** 2 < 1e-6 * answer["theorem_value"]
    assert answer["note"].startswith("says nothing")


def test_a_bound_that_says_something_is_called_so(capsys):
    words = ["bound", "machine-replacement", "--algorithm", "reward-estimate", "--steps", "1000000"]
    answer = answer_of(capsys, *words)
    assert answer["informative"] is True
    assert answer["note"] == ""
    assert cli.main(words) == cli.DONE
    assert "informative" in (shown := capsys.readouterr().out)
    assert "says nothing" not in shown


def test_parameters(capsys):
    single = ["bound", "random-walk-50", "--step-size", "1e-6", "--steps", "1000000"]
    answer = answer_of(capsys, *single, "--param", "mean-ratio=0.25")
    assert answer["constants"]["rho_0"] == 0.25


@pytest.mark.parametrize("sampling", ["iid", "markov"])
def test_the_average_of_rewards_needs_no_step_size(capsys, sampling):
    answer = answer_of(
        capsys, "bound", "random-walk-50", "--algorithm", "reward-estimate", "--sampling", sampling
    )
    assert answer["certified"] is True


def test_wrong_input(capsys):
    assert cli.main([*WORDS[:-1], "lstd"]) == cli.WRONG_INPUT
    assert "there are theorems about" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        cli.main([*WORDS, "--steps", "0"])
    assert caught.value.code == cli.WRONG_INPUT
    assert "--steps: must be a positive whole number" in capsys.readouterr().err
