"""Classes of one's own by a key: of a file, or of an entry point of another package."""

import sys

import numpy as np
import pytest
import torch
from scipy.special import softmax

from calibkit.__main__ import main
from calibkit._files import write_npz
from calibkit.calibrators import calibrator, load_calibrator
from calibkit.deploy import CalibratedModel
from calibkit.keys import Key
from calibkit.logits import Logits
from calibkit.losses import loss

MINE = """
import numpy as np
import helper
from calibkit import TemperatureScaling


class Sub(TemperatureScaling):
    pass


class Plain:
    def __init__(self, power=1.0):
        self.power = power

    def fit(self, logits, labels):
        self.shares = np.bincount(labels, minlength=logits.shape[1]) / len(labels)
        logits[:] = 0  # a copy

    def transform(self, logits):
        p = np.exp(logits - logits.max(1, keepdims=True)) * self.shares**self.power
        return p / p.sum(1, keepdims=True)


class Narrow(Plain):
    def transform(self, logits):
        return np.ones((len(logits), 1))


class Half:
    def fit(self, logits, labels):
        pass


class Halved:
    def __call__(self, logits, labels):
        return logits.sum() / 2
"""


@pytest.fixture
def mine(sample, here):
    """A folder with a file of one's own and a file of logits."""
    (here / "a folder").mkdir()
    (here / "a folder" / "mine.py").write_text(MINE)
    (here / "a folder" / "helper.py").write_text("")
    z, y = sample(600)
    Logits(z[:300], y[:300], z[300:], y[300:]).save("toy.npz")
    return z, y


def test_a_class_of_a_file_is_fitted_saved_and_loaded(mine):
    z, y = mine
    key = "a folder/mine.py:Plain power=2"
    assert str(Key.parse(key)) == key
    before = z.copy()
    fitted = calibrator(key).fit(z, y)
    np.testing.assert_array_equal(z, before)
    want = softmax(z, 1) * (np.bincount(y) / len(y)) ** 2
    np.testing.assert_allclose(fitted(z), want / want.sum(1, keepdims=True), rtol=1e-12)
    path = fitted.save("own.npz")
    again = load_calibrator(path, "a folder/mine.py:Plain")
    np.testing.assert_array_equal(again(z), fitted(z))
    with pytest.raises(ValueError, match="Expected `path` to be a file .*: that of Plain, .* or load_calibrator with"):
        load_calibrator(path)
    with pytest.raises(ValueError, match="that of Plain"):
        load_calibrator(path, "a folder/mine.py:Sub")
    with np.load(path) as arrays:
        other = {**arrays, "header": np.array(str(arrays["header"]).replace("{", '{"floor": "x", ', 1))}
    with pytest.raises(ValueError, match="Expected `floor` to be"):
        load_calibrator(write_npz("other.npz", other), "a folder/mine.py:Plain")
    assert repr(calibrator("a folder/mine.py:Sub:ece")) == "Sub(objective='ece')"
    assert loss("a folder/mine.py:Halved")(z, y) == z.sum() / 2


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("none.py:Plain", "PATH.py:CLASS of a file, but got 'none.py', where there is none"),
        ("a folder/mine.py:Other", "the name of a class, but got 'a folder/mine.py:Other', which is none"),
        ("a folder/mine.py:np", "the name of a class, but got 'a folder/mine.py:np', which is <module"),
        ("a folder/mine.py:Half", "a class with fit.* but got 'a folder/mine.py:Half', which lacks it"),
        ("a folder/mine.py:Plain bins=3", "with options among power, but got bins"),
        ("broken.py:X", "in a file that runs, but got 'broken.py': ZeroDivisionError: division by zero"),
        ("exits.py:X", "in a file that runs, but got 'exits.py': SystemExit: 3"),
        ("platt", "one of identity, .*, PATH.py:CLASS, but got 'platt'"),
    ],
)
def test_what_is_wrong_has_one_wording(mine, tmp_path, key, want):
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "exits.py").write_text("raise SystemExit(3)")
    with pytest.raises(ValueError, match=f"^Expected `calibrator` to be {want}"):
        calibrator(key)


def test_the_commands_take_it(mine, shell):
    key = "a folder/mine.py:Plain"
    assert main(["calibrate", "toy.npz", "--calibrator", key, "--out", "own.npz"]) == 0
    assert f"  {key} " in shell(["compare", "toy.npz", "--calibrators", key]).out
    np.save("new.npy", mine[0])
    assert "with `own` (--own), its PATH.py:CLASS" in shell(["apply", "own.npz", "new.npy", "--kind", "logits"], 1).err
    assert main(["apply", "own.npz", "new.npy", "--kind", "logits", "--own", key, "--out", "p.npy"]) == 0
    np.testing.assert_array_equal(np.load("p.npy"), load_calibrator("own.npz", key)(mine[0]))
    assert shell(["calibrate", "toy.npz", "--calibrator", "a folder/mine.py:Narrow"], 1).err.endswith(
        "Expected `probs` to be of shape (300, 3), as the logits, but got shape (300, 1)\n"
    )


def test_what_an_object_keeps_by_any_name_comes_back(tmp_path):
    """Also ``n_classes``; and in a module another object's state is refused, as only numbers would be taken over."""
    (tmp_path / "kept.py").write_text(
        "import numpy as np\nclass Kept:\n    def __init__(self, **options):\n        self.n_classes = 0\n"
        "    def fit(self, logits, labels):\n        self.n_classes, self.scale = logits.shape[1], logits.std()\n"
        "    def transform(self, logits):\n        p = np.exp(logits / self.scale / self.n_classes)\n"
        "        return p / p.sum(1, keepdims=True)\n"
    )
    z, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 3
    key = f"{tmp_path}/kept.py:Kept"
    one, other = (calibrator(f"{key} bias=1").fit(scale * z, y) for scale in (1, 2))
    assert repr(one) == "Kept(bias=1)"
    np.testing.assert_array_equal(load_calibrator(one.save(tmp_path / "own.npz"), key)(z), one(z))
    module, others = (CalibratedModel(torch.nn.Identity().eval(), each) for each in (one, other))
    assert "Kept(bias=1)" in repr(module)
    module.load_state_dict(module.state_dict())
    with pytest.raises(RuntimeError, match="whose class is your own|where its class is your own"):
        module.load_state_dict(others.state_dict())


def test_an_entry_point_is_a_key_and_its_files_are_loaded(mine, tmp_path, monkeypatch):
    z, y = mine
    (tmp_path / "site" / "others-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "site" / "others.py").write_text(MINE.replace("import helper", ""))
    (tmp_path / "site" / "others-1.0.dist-info" / "METADATA").write_text("Name: others\nVersion: 1.0\n")
    points = "[calibkit.calibrators]\nplain = others:Plain\n[calibkit.losses]\nhalved = others:Halved\n"
    (tmp_path / "site" / "others-1.0.dist-info" / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path / "site")
    fitted = calibrator("plain power=2").fit(z, y)
    np.testing.assert_array_equal(load_calibrator(fitted.save("own.npz"))(z), fitted(z))
    assert loss("halved")(z, y) == z.sum() / 2
    sys.modules.pop("others")
