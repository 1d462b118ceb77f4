"""A file of one's own, which tests judge."""

import pytest


@pytest.fixture
def mine(here, request):
    """The present folder, which holds ``MINE`` of the test's module as a file of one's own, and nothing else."""
    (here / "mine.py").write_text(request.module.MINE)
    return here
