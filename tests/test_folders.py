"""Where things lie, and at which commit the checkout is."""

import subprocess

import pytest

from calibkit import _folders


def test_the_commit_is_that_of_the_checkout():
    asked = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=_folders.PACKAGE, capture_output=True, text=True)
    if asked.returncode or not (_folders.PACKAGE.parent / ".git").exists():
        pytest.skip("no git checkout")
    assert _folders.commit() == asked.stdout.strip()


def test_without_git_the_commit_is_unknown(tmp_path, monkeypatch):
    """A training ends with this question: it is no reason to lose its epochs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _folders.commit() == "unknown"
    (tmp_path / "git").write_text("no program\n")
    (tmp_path / "git").chmod(0o755)
    assert _folders.commit() == "unknown"


def test_an_archive_has_not_the_commit_of_the_repository_that_it_was_unpacked_in(tmp_path, monkeypatch):
    stored = tmp_path / "calibkit-0.1.0" / "book" / "results"
    stored.mkdir(parents=True)
    (stored / "paper.csv").touch()
    monkeypatch.setattr(_folders, "PACKAGE", stored.parents[1] / "calibkit")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(tmp_path)]
    try:
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "theirs"]):
            subprocess.run([*git, *words], check=True)
    except FileNotFoundError:
        pytest.skip("no git")
    assert _folders.commit() == "unknown"
    (stored.parents[1] / ".git").write_text(f"gitdir: {tmp_path / '.git'}\n")  # as a worktree has it
    assert len(_folders.commit()) >= 7 and _folders.commit() != "unknown"
