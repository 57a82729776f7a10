"""How the documentation site is built: ``make docs``.

The Markdown pages beside this file are read on GitHub too, so they hold no Sphinx syntax but for
tables of contents and cards; what GitHub cannot show (tutorials that were run, the API, the help of
every command) is made while the site is built and is never committed.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

# Before NumPy and torch are loaded: a build should leave the other cores to others.
os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from _cli_page import write_cli_page  # noqa: E402
from docutils import nodes  # noqa: E402
from latex2mathml.converter import convert  # noqa: E402
from pygments.lexers.special import TextLexer  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

import spdtokens  # noqa: E402

project = "spdtokens"
author = "The spdtokens developers"
project_copyright = f"2026, {author}"
version = release = spdtokens.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_templates", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.md5"]
templates_path = ["_templates"]

# Markdown: $x$ as on GitHub, ::: for cards, and anchors for links to headings.
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

# The API is written in docstrings. Types stand in their text, so signatures go without.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Tutorials are run in the order of their names. One that fails, fails the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("spdtokens",),
    "reference_url": {"spdtokens": None},
    "backreferences_dir": "api/generated/backreferences",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "image_srcset": ["2x"],
    "thumbnail_size": (480, 220),
    "capture_repr": (),  # what is printed is shown, not what the last line happens to return
}

html_math_renderer = "mathml"  # browsers render MathML without a script, and so without a network
html_theme = "pydata_sphinx_theme"
html_title = f"spdtokens {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "spdtokens"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_sidebars = {"index": []}
copybutton_exclude = ".linenos, .gp, .go"

#: Pages of the site for files outside of docs; all other files are offered for download.
PAGES = {
    "../CHANGELOG.md": "changelog.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../README.md": "index.md",
    "../examples": "gallery/index.rst",
}


def lead_inside(_app: Sphinx, _docname: str, source: list[str]) -> None:
    """Links that leave ``docs``, as GitHub needs them, lead to the site's own pages."""

    def page(match: re.Match[str]) -> str:
        target = match[1]
        tutorial = re.fullmatch(r"\.\./examples/(plot_\w+)\.py", target)
        return f"]({f'gallery/{tutorial[1]}.rst' if tutorial else PAGES.get(target, target)}"

    source[0] = re.sub(r"\]\((\.\./[^)#]+)", page, source[0])


def skip_plumbing(
    _app: Sphinx, _what: str, name: str, _thing: object, skip: bool, _options: object
) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    added = re.fullmatch(r"set_\w+_request|get_metadata_routing|set_output", name)
    return True if added else skip or None


def inline_math(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line as MathML."""
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block_math(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own as MathML."""
    translator.body.append(convert(node.astext(), display="block"))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.add_lexer("csv", TextLexer)  # GitHub knows it, Pygments does not
    app.connect("builder-inited", lambda _: write_cli_page(HERE / "api" / "generated" / "cli.md"))
    app.connect("source-read", lead_inside)
    app.connect("autodoc-skip-member", skip_plumbing)
