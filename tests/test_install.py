"""What leaves the checkout: the files of a built package and of a source distribution, and that the former works."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import calibkit
from book.kit import results
from calibkit import __main__, networks

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = ("paper", "ours", "effects", "third_party", "claims", "networks")
NAME = "cifar10/resnet20-cross_entropy-s0"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with what a wheel would hold, and with the list of files of a source distribution."""
    pytest.importorskip("setuptools", "77")
    folder = tmp_path_factory.mktemp("built")
    steps = ["egg_info", "--egg-base", folder, "build_py", "--build-lib", folder / "lib"]
    command = [sys.executable, "setup.py", "-q", *map(str, steps)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run(built: Path, code: str) -> subprocess.CompletedProcess:
    """Python in a folder that is no checkout, with the built package."""
    elsewhere = built / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    code = f"import sys; sys.path.insert(0, {str(built / 'lib')!r}); {code}"
    return subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=elsewhere, env={"HOME": str(built)}, capture_output=True, text=True
    )


def test_package_has_its_modules_types_and_numbers(built):
    package = built / "lib" / "calibkit"
    files = {path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()}
    source = ROOT / "calibkit"
    modules = {path.relative_to(source).as_posix() for path in source.rglob("*.py")}
    orders = {f"data/orders/{name}.npz" for name in ("cifar10", "cifar100", "tiny_imagenet_20")}
    tables = {"data/published.csv", *orders, *(f"stored/{name}.csv" for name in NUMBERS)}
    assert files == modules | {"py.typed", "__init__.pyi"} | tables
    for name in ("paper.csv", "ours.csv"):
        assert (package / "stored" / name).read_bytes() == (ROOT / "book" / "results" / name).read_bytes()


def test_source_distribution_is_the_checkout(built):
    listed = {line for line in (built / "calibkit.egg-info" / "SOURCES.txt").read_text().splitlines()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    if len(tracked) < 2:
        pytest.skip("not a git checkout")
    held = {name for name in listed if "egg-info" not in name}
    assert {name for name in tracked if name and (ROOT / name).exists()} - held == set()


def test_installed_package_reads_its_numbers_and_lists_the_networks(built):
    code = "from calibkit import results, networks as n; print(len(results.load('paper')), len(results.load('ours')), "
    code += "len(results.compare('mbls', '1')), len(n.zoo()), n.index())"
    done = run(built, code)
    assert (done.returncode, done.stderr) == (0, "")
    paper, ours, compared, zoo, index = done.stdout.split(maxsplit=4)
    assert [int(paper), int(ours)] == [len(results.load("paper")), len(results.load("ours"))]
    assert (int(compared), int(zoo)) == (len(results.compare("mbls", "1")), 0)
    here = {name: (budget, round(accuracy, 4)) for name, (budget, accuracy) in networks.index().items()}
    assert eval(index) == here and set(here) == set(networks.zoo())


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (f"Network.parse({NAME!r}).logits()", "Expected `network` to be one whose logits are here (an installed"),
        (f"load_logits({NAME!r})", "Expected `logits` to be one whose logits are here (an installed package"),
        (
            "Network('digits', 'small_cnn', seed=99).logits()",
            "Expected `network` to be one of those that `calibkit networks` l",
        ),
    ],
)
def test_installed_package_says_where_the_logits_are(built, code, message):
    done = run(built, f"from calibkit.networks import Network, load_logits; {code}")
    assert done.stderr.splitlines()[-1].startswith(f"ValueError: {message}")


def test_installed_command_line_lists_and_does_not_write(built):
    refused = [["calibrate", "--all", "--record"], ["append", "rows.csv"]]
    code = f"from calibkit.__main__ import main; print([main(words) for words in [['networks'], *{refused}]])"
    done = run(built, code)
    *listed, statuses = done.stdout.splitlines()
    assert statuses == "[0, 1, 1]"
    assert next(line for line in listed if line.startswith(NAME)).endswith("in a checkout")
    for line in done.stderr.splitlines():
        assert line.endswith("used in a checkout, where book/results/ours.csv is, but got an installed package")


def test_console_command_and_version(capsys):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"calibkit": "calibkit.__main__:main"}
    with pytest.raises(SystemExit):
        __main__.main(["--version"])
    assert capsys.readouterr().out == f"calibkit {calibkit.__version__}\n"
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "calibkit.__version__"}
    assert f"\nversion: {calibkit.__version__}\n" in (ROOT / "CITATION.cff").read_text()
