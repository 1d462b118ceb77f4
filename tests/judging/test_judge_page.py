"""What book/judge.md shows is run, in a folder of its own, and prints what the page says."""

import re
import shlex
from pathlib import Path

import pytest

from calibkit.__main__ import main
from calibkit.judging import names_a_loss

PAGE = Path(__file__).resolve().parents[2] / "book" / "judge.md"


@pytest.mark.slow
def test_the_examples(tmp_path, monkeypatch, capsys):
    text = PAGE.read_text()
    codes, commands, printed = (re.findall(f"```{kind}\n(.*?)```", text, re.S) for kind in ("python", "bash", "text"))
    monkeypatch.chdir(tmp_path)
    for code in codes:
        Path(re.match("# (.*)", code)[1]).write_text(code)
    for command, said in zip(commands, printed, strict=True):
        assert main(shlex.split(command)[1:]) == 0
        assert capsys.readouterr().out == said
    assert names_a_loss("losses.py:Smoothed") and not names_a_loss("mine.py:BrierTemperature")
