"""A file of one's own, which tests judge."""

import pytest


@pytest.fixture
def mine(tmp_path, monkeypatch, request):
    """The present folder, which holds ``MINE`` of the test's module as a file of one's own, and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(request.module.MINE)
    return tmp_path
