"""No test, doctest or notebook sees the data of the machine, but a test that names what it reads:
``@pytest.mark.data("cifar10", "weights/cifar10_resnet20.npz")``, data sets and files below ``$CALIBKIT_DATA``.

Without them it is skipped. For all others the data folder is an empty one, so that a machine with data tests what one
without them does.
"""

import tempfile

import pytest

from calibkit import _folders, data

VARIABLE, REAL = "CALIBKIT_DATA", pytest.StashKey[str]()


def pytest_configure(config):
    """From here on the folder is empty. A process of pytest-xdist inherits that, and is told of the real one."""
    if worker := getattr(config, "workerinput", None):
        config.stash[REAL] = worker[VARIABLE]
        return
    config.stash[REAL] = str(_folders.cache().absolute())
    empty, patch = tempfile.TemporaryDirectory(prefix="no-data-"), pytest.MonkeyPatch()
    patch.setenv(VARIABLE, empty.name)
    config.add_cleanup(patch.undo)
    config.add_cleanup(empty.cleanup)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Before such a process starts."""
    node.workerinput[VARIABLE] = node.config.stash[REAL]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """All of one test, the fixtures of its module that it is the first to ask for included."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("data"):
            patch.setenv(VARIABLE, item.config.stash[REAL])
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip a test whose data are not here."""
    names = [name for mark in item.iter_markers("data") for name in mark.args]
    absent = [name for name in names if not _is_here(name)]
    if absent:
        pytest.skip(f"no {', '.join(absent)} in ${VARIABLE}")


def _is_here(name: str) -> bool:
    return data.available(name) if name in data.DATASETS else (_folders.cache() / name).is_file()
