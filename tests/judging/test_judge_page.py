"""What book/judge.md shows is run, in a folder of its own, and prints what the page says."""

import re
import shlex
from pathlib import Path

from calibkit.__main__ import main

PAGE = Path(__file__).resolve().parents[2] / "book" / "judge.md"


def test_the_example(tmp_path, monkeypatch, capsys):
    text = PAGE.read_text()
    code, command, printed = (re.search(f"```{kind}\n(.*?)```", text, re.S)[1] for kind in ("python", "bash", "text"))
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(code)
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == printed
