"""One style on two papers, and a look for each method."""

import itertools
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.colors import to_rgb
from refusals import refused

from calibkit import plots
from calibkit.calibrators import CALIBRATORS
from calibkit.losses import LOSSES
from calibkit.objectives import OBJECTIVES
from calibkit.plots.style import ON_DARK, STYLE, is_dark


@pytest.fixture(autouse=True)
def restore():
    with mpl.rc_context():
        yield


def linear(color: str) -> np.ndarray:
    return np.array([c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)])


def contrast(one: str, other: str) -> float:
    """Of WCAG 2."""
    low, high = sorted(np.dot([0.2126, 0.7152, 0.0722], linear(color)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def seen(color: str, kind: str) -> np.ndarray:
    """Linear RGB as a dichromat sees it, of Viénot, Brettel & Mollon 1999."""
    r, g, b = linear(color)
    red, green, blue = {"protan": (0.11238, 0.88762, 0.00401), "deutan": (0.29275, 0.70725, -0.02234)}[kind]
    mixed = red * r + green * g
    return np.array([mixed, mixed, blue * (r - g) + b])


def test_style_is_ours_and_lasts_only_where_it_is_wanted():
    plots.use_style()
    assert mpl.rcParams["figure.dpi"] == 100 and not mpl.rcParams["axes.spines.top"]
    assert mpl.rcParams["axes.prop_cycle"].by_key()["color"] == list(plots.COLORS)
    with plots.styled(dark=True):
        assert is_dark() and mpl.rcParams["axes.facecolor"] == mpl.rcParams["savefig.facecolor"] == "#121212"
    assert not is_dark()
    light = dict(mpl.rcParams)
    plots.use_style(dark=True)
    assert dict(mpl.rcParams) != light and plots.color_of("cross_entropy") == mpl.rcParams["text.color"]
    plots.use_style()
    assert dict(mpl.rcParams) == light


def test_any_dark_style_is_dark_paper():
    mpl.style.use("dark_background")
    assert is_dark() and plots.color_of("temperature_scaling") == ON_DARK[plots.BLUE]


@pytest.mark.parametrize("dark", [False, True])
def test_colours_are_seen_on_their_paper_and_told_apart(dark):
    """On dark paper with the contrast of small text; on white Okabe and Ito's own colours are as light as they are."""
    plots.use_style(dark=dark)
    paper, colors = mpl.rcParams["figure.facecolor"], mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    assert contrast(mpl.rcParams["text.color"], paper) > 12
    assert min(contrast(color, paper) for color in colors) > (4.5 if dark else 2)
    for kind in ("protan", "deutan"):
        apart = [np.abs(seen(a, kind) - seen(b, kind)).max() for a, b in itertools.combinations(colors, 2)]
        assert min(apart) > 0.06


def test_each_registered_method_has_a_look_of_its_own():
    for registry in (CALIBRATORS, LOSSES, OBJECTIVES):
        assert len({tuple(plots.look_of(name).items()) for name in registry}) == len(registry)
    ts = plots.look_of("temperature_scaling")
    assert ts == plots.look_of("temperature_scaling:ece") == plots.look_of("temperature_scaling solver=sctl")
    for short, name in {"CE": "nll", "LS": "label_smoothing", "FL": "focal", "MbLS": "mbls", "TS": "ts"}.items():
        assert plots.look_of(short) == plots.look_of(name)
    assert plots.look_of("cts") == plots.look_of("class_temperature_scaling")
    assert plots.color_of("matrix_scaling") == plots.color_of("ms_odir") != plots.color_of("vector_scaling")


@pytest.mark.slow
def test_other_names_keep_their_look_in_another_process():
    code = "from calibkit import plots; print(plots.look_of('no such method'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(plots.look_of("no such method"))


@pytest.mark.parametrize("name", [3, 0.5, None, ("t", 1), int, np.ones(2)])
def test_a_look_is_that_of_a_text(name):
    refused("`name` to be text, but got ", plots.look_of, name)


def test_what_is_no_picture():
    for name, arguments in (
        *[("draw", (draw, (3, 2), "alt")) for draw in (3.0, "text", None)],
        *[("size", (str, size, "alt")) for size in (3, None, "ab", (3,), (0, 1), (3, float("nan")), (1e6, 1))],
        *[("alt", (str, (3, 2), alt)) for alt in (3, None, int, b"alt")],
    ):
        refused(f"`{name}` to be ", plots.svg, *arguments)


def test_words_of_a_picture_that_no_file_can_hold():
    assert 'aria-label="a ? &lt;b&gt;"' in plots.svg(str, (3, 2), "a \ud800 <b>")


def test_every_font_is_there_so_matplotlib_does_not_complain():
    assert set(STYLE["font.family"]) <= set(font_manager.get_font_names())


@pytest.mark.filterwarnings("error")
def test_a_letter_that_the_font_lacks_is_left_to_the_reader(monkeypatch):
    """As text, and not as a box; a name in Latin letters is drawn, and so looks the same everywhere."""
    monkeypatch.setitem(STYLE, "font.family", ["DejaVu Sans"])

    def labelled(name):
        return plots.svg(lambda figure: figure.subplots().set_yticks([0.5], [name]), (3, 2), "classes")

    assert ">日本語</text>" in labelled("日本語")
    assert "<text" not in labelled("Straße")
