"""How the site is built, by ``make docs``.

Nothing is fetched, neither while building nor by the pages: they open without a network.
"""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import inventories  # noqa: E402  # docs/_ext/inventories.py

project = "scjko"
author = "scjko developers"
copyright = author
version = release = installed("scjko")
urls = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinxcontrib.bibtex",
    "sphinxext.opengraph",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",
    "reference",  # docs/_ext/reference.py
    "tutorials",  # docs/_ext/tutorials.py
]
exclude_patterns = ["_build", "_ext", "_static"]
highlight_language = "none"

# Every name that a page refers to must exist: those of this package, and those of others in docs/inventories.toml. The
# core and private modules have no pages.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"jax\.sharding\..*"),
    (r"py:.*", r"Array"),
    (r"py:.*", r"scjko\.(.*\.)?_.*"),
    (r"py:.*", r"scjko\.core\..*"),
]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are committed with their outputs
nb_output_stderr = "remove"  # log lines, of which tutorials print what matters
nb_ipywidgets_js = {}  # by default from a server elsewhere

autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
autodoc_type_aliases = {"Array": "numpy.ndarray"}
autosummary_generate = False
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 80
napoleon_google_docstring = False
napoleon_use_rtype = False
# The sections say in paragraphs and lists what comes back; napoleon would take each line for a type.
napoleon_custom_sections = ["Returns"]

intersphinx_mapping = inventories.mapping(HERE / "inventories.toml", HERE / "_build" / "inventories")

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"
bibtex_reference_style = "author_year"

ogp_site_name = "scjko"
ogp_site_url = urls["Documentation"]
ogp_image = "_static/home.png"
ogp_social_cards = {"enable": False}

mathjax_path = "mathjax/tex-chtml.js"  # put into _static by sphinx-mathjax-offline

html_theme = "sphinx_book_theme"
html_title = "scjko"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"  # browsers request one
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
html_use_index = False  # the API page lists every name
html_domain_indices = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "path_to_docs": "docs",
    "navbar_start": [],
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
