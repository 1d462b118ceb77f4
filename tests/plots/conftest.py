"""Axes that are closed again, and a sample whose confidences are known to be too large."""

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return plt.subplots()[1]


@pytest.fixture
def sample(overconfident):
    logits, labels = overconfident
    return logits.softmax(1), labels
