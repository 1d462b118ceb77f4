"""Maps of segmentation networks: a row a network, classes, confidence and mistakes of one image."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from book.kit.notebook.segmentation_maps import maps
from calibkit._files import write_npz

NAMES = [f"class {k}" for k in range(12)]


@pytest.fixture
def path(tmp_path):
    predicted = np.arange(3 * 4, dtype=np.uint8).reshape(3, 2, 2)[::-1]
    return write_npz(
        tmp_path / "maps.npz", {"predicted": predicted, "confidence": 255 - predicted, "right": predicted % 3}
    )


def test_a_row_shows_classes_confidence_and_mistakes_of_the_image(path):
    figure = maps({"CE": path, "MbLS": path}, NAMES)
    *axes, bar = figure.axes
    assert [ax.get_ylabel() for ax in axes] == ["CE", "", "", "MbLS", "", ""] and bar.get_ylabel() == "confidence"
    classes, confidence, right = (ax.get_images()[0].get_array() for ax in axes[3:])
    np.testing.assert_array_equal(classes, [[8, 9], [10, 11]])
    np.testing.assert_allclose(confidence, (255 - classes) / 255)
    np.testing.assert_array_equal(right, classes % 3)
    assert axes[4].get_images()[0].get_clim() == (0, 1)  # one scale for all: that of the bar


def test_the_legend_has_the_colour_of_each_class(path):
    figure = maps({"CE": path}, NAMES)
    image, (legend,) = figure.axes[0].get_images()[0], figure.legends
    for k, patch in enumerate(legend.get_patches()):
        assert legend.get_texts()[k].get_text() == NAMES[k]
        np.testing.assert_allclose(patch.get_facecolor(), image.cmap(image.norm(k)))


def test_no_network_and_too_few_names_are_refused(path):
    with pytest.raises(ValueError, match="Expected `networks` to be at least one"):
        maps({}, NAMES)
    with pytest.raises(ValueError, match="Expected `names` to be at least 12, one a class"):
        maps({"CE": path}, NAMES[:3])
    assert not plt.get_fignums()
