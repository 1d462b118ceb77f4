"""The papers that the book reproduces, a file each.

All that is particular to a paper stands in its file: what its methods are held against, which networks it trained, how
the front page shows it. The rest of the project reads :data:`PAPERS` and compares with no paper's name. What a wheel
needs stays in ``calibkit``: the recipes of trainings and the names of published logits; a record points to them.
"""

from importlib import import_module
from pkgutil import iter_modules

from book.papers._paper import Paper, framed

_RECORDS = {of.name: import_module(f"{__name__}.{of.name}").PAPER for of in iter_modules(__path__) if of.name[0] != "_"}
#: Name of a paper, which is that of its file, of its chapter and in the result files -> its record.
PAPERS: dict[str, Paper] = dict(sorted(_RECORDS.items(), key=lambda item: item[1].place))


def owner(published: str) -> str:
    """The paper on whose logits a published network was printed.

    Example:
        >>> owner("cts-cifar10-resnet50-brier")
        'class_temperature_scaling'
    """
    return next(name for name, paper in PAPERS.items() if paper.published and published.startswith(paper.published))


__all__ = ["PAPERS", "Paper", "framed", "owner"]
