"""What leaves the checkout: the files of a wheel and of a source distribution, and that the former works."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import calibkit
from calibkit import __main__

ROOT = Path(__file__).resolve().parents[1]
NAME = "cifar10/resnet20-cross_entropy-s0"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with a wheel, unpacked in ``lib``, and a source distribution."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    zipfile.ZipFile(next(folder.glob("*.whl"))).extractall(folder / "lib")
    return folder


def run(built: Path, code: str) -> subprocess.CompletedProcess:
    """Python in a folder that is no checkout, with the built package."""
    elsewhere = built / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    code = f"import sys; sys.path.insert(0, {str(built / 'lib')!r}); {code}"
    return subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=elsewhere, env={"HOME": str(built)}, capture_output=True, text=True
    )


def test_a_wheel_is_the_package_and_small(built):
    files = {path.relative_to(built / "lib").as_posix() for path in (built / "lib").rglob("*") if path.is_file()}
    source = {path.relative_to(ROOT).as_posix() for path in (ROOT / "calibkit").rglob("*") if path.is_file()}
    assert {name for name in files if ".dist-info/" not in name} == {n for n in source if "__pycache__" not in n}
    assert {f"calibkit/{name}" for name in ("py.typed", "__init__.pyi", "data/orders/cifar10.npz")} < files
    assert next(built.glob("*.whl")).stat().st_size < 1.5e6


def test_a_source_distribution_builds_that_wheel(built):
    path = next(built.glob("*.tar.gz"))
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    source = {path.relative_to(ROOT).as_posix() for path in (ROOT / "calibkit").rglob("*.py")}
    assert source | {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} < held
    assert path.stat().st_size < 10e6


@pytest.mark.slow
def test_an_installed_package_says_where_the_logits_are(built):
    done = run(built, f"from calibkit.networks import load_logits; load_logits({NAME!r})")
    assert done.stderr.splitlines()[-1].startswith("ValueError: Expected `")
    assert "those of the book are in its checkout" in done.stderr


@pytest.mark.slow
def test_an_installed_package_works_in_a_checkout(built):
    """It reads the networks that are stored there."""
    (built / "elsewhere" / "book").mkdir(parents=True)
    (built / "elsewhere" / "book" / "results").symlink_to(ROOT / "book" / "results")
    done = run(built, f"from calibkit.__main__ import main; print(main(['networks'])); import calibkit.networks as n; "
                      f"print(n.load_logits({NAME!r}).n_classes)")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert NAME in done.stdout and done.stdout.splitlines()[-2:] == ["0", "10"]


def test_console_command_and_version(capsys):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"calibkit": "calibkit.__main__:main"}
    with pytest.raises(SystemExit):
        __main__.main(["--version"])
    assert capsys.readouterr().out == f"calibkit {calibkit.__version__}\n"
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "calibkit/__init__.py"
    assert f"\nversion: {calibkit.__version__}\n" in (ROOT / "CITATION.cff").read_text()
