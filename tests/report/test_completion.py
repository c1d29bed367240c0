"""What shells complete: asked of the shells themselves, where they are installed."""

import shutil
import subprocess

import pytest

from gainbias import cli
from gainbias.cli import options
from gainbias.cli.completion import completion

KNOWN = {
    "algorithm": ["single-chain", "lstd"],
    "task": ["taxi", "frozen-lake"],
    "claims": ["splitting"],
    "engine": ["local", "dask"],
}


def offered(shell, words, tmp_path):
    """Return what a shell offers after some words, the last of which is being typed."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    script = tmp_path / "script"
    script.write_text(completion(options.parser(), shell, KNOWN))
    if shell == "fish":
        command = f"source {script}; complete -C {' '.join(words)!r}"
    else:  # those of zsh are completed by the same function
        array = " ".join(repr(word) for word in words)
        arrays = "setopt KSH_ARRAYS;" * (shell == "zsh")  # as zsh does when it completes like bash
        command = (
            f"source {script}; {arrays} COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; "
            f"_gainbias; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
    found = subprocess.run([shell, "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert found.stderr == ""
    offers = [line.split("\t")[0] for line in found.stdout.split("\n") if line]
    # zsh leaves out what does not match only when it shows the offers.
    return [word for word in offers if shell != "zsh" or word.startswith(words[-1])]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gainbias", "rep"], {"reproduce", "report"}),
        (["gainbias", "run", "fro"], {"frozen-lake"}),
        (["gainbias", "run", "--algorithm", "l"], {"lstd"}),
        (["gainbias", "reproduce", "--res"], {"--resume"}),
        (["gainbias", "claims", "spl"], {"splitting"}),
        (["gainbias", "list", "a"], {"algorithms"}),
        (["gainbias", "sweep", "--engine", "d"], {"dask"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_verbs_options_and_ids(shell, words, expected, tmp_path):
    assert set(offered(shell, words, tmp_path)) == expected


def test_where_nothing_is_known_files_are_offered(tmp_path):
    assert offered("bash", ["gainbias", "report", "resu"], tmp_path) == []
    assert "complete -o default" in completion(options.parser(), "bash", KNOWN)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_verb_knows_all_ids_and_verbs(shell, capsys):
    assert cli.main(["completion", shell]) == cli.DONE
    script = capsys.readouterr().out
    for word in ("single-chain", "frozen-lake", "reward-estimate", "inferred", *cli.VERBS):
        assert word in script
