"""Maps of segmentation networks: a row a network, classes and confidence of the chosen images."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from calibkit._files import write_npz
from calibkit.notebook.maps import maps


@pytest.fixture
def path(tmp_path):
    predicted = np.arange(3 * 4, dtype=np.uint8).reshape(3, 2, 2)
    return write_npz(tmp_path / "maps.npz", {"predicted": predicted, "confidence": 255 - predicted})


def test_a_row_shows_classes_and_confidence_of_the_chosen_images(path):
    figure = maps({"CE": path, "MbLS": path}, images=(2,))
    *axes, bar = figure.axes
    assert [ax.get_ylabel() for ax in axes] == ["CE", "", "MbLS", ""] and bar.get_ylabel() == "confidence"
    classes, confidence = (ax.get_images()[0].get_array() for ax in axes[2:])
    np.testing.assert_array_equal(classes, [[8, 9], [10, 11]])
    np.testing.assert_allclose(confidence, (255 - classes) / 255)
    assert axes[3].get_images()[0].get_clim() == (0, 1)  # one scale for all: that of the bar
    plt.close(figure)


def test_no_network_is_refused():
    with pytest.raises(ValueError, match="Expected `networks` to be at least one"):
        maps({})
