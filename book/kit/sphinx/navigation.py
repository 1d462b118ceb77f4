"""Sphinx extension of what is around the pages: the index in the sidebar, and buttons that lead to the repository.

``book_repository`` in ``_config.yml`` is the public address of the repository. Where it is empty there are no buttons:
none is better than a dead one.
"""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config

BRANCH = "main"


def buttons(repository: str) -> dict[str, object]:
    """Options of the theme: source, edit and issue buttons on each page, Binder and Colab on each notebook."""
    if not repository:
        return {}
    launch = {"notebook_interface": "jupyterlab", "binderhub_url": "https://mybinder.org"}
    if repository.startswith("https://github.com/"):
        launch["colab_url"] = "https://colab.research.google.com"
    shown = ("use_repository_button", "use_edit_page_button", "use_issues_button")
    options = {"repository_url": repository, "repository_branch": BRANCH, "path_to_docs": "", "launch_buttons": launch}
    return options | dict.fromkeys(shown, True)


def add_buttons(app: Sphinx, config: Config) -> None:
    """Hand the options to the theme, and the title that stands beside the logo."""
    options = {"logo": {"text": config.html_title}, **buttons(config.book_repository)}
    config.html_theme_options = {**config.html_theme_options, **options}


def add_index(app: Sphinx, document: nodes.document) -> None:
    """Put the index at the end of the sidebar, which `_toc.yml` alone cannot."""
    if app.env.docname == app.config.root_doc:
        *_, last = document.findall(addnodes.toctree)
        last["entries"].append(("Index", "genindex"))


def setup(app: Sphinx) -> dict:
    """Register the option and both changes."""
    app.add_config_value("book_repository", "", "html", [str])
    app.connect("config-inited", add_buttons)
    app.connect("doctree-read", add_index, priority=400)  # before the tables of contents are collected
    return {"parallel_read_safe": True}
