"""Where things lie, and at which commit the checkout is."""

import subprocess

import pytest

from calibkit import _folders


def test_the_commit_is_that_of_the_checkout():
    asked = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=_folders.PACKAGE, capture_output=True, text=True)
    if asked.returncode:
        pytest.skip("no git checkout")
    assert _folders.commit() == asked.stdout.strip()


def test_without_git_the_commit_is_unknown(tmp_path, monkeypatch):
    """A training ends with this question: it is no reason to lose its epochs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _folders.commit() == "unknown"
    (tmp_path / "git").write_text("no program\n")
    (tmp_path / "git").chmod(0o755)
    assert _folders.commit() == "unknown"
