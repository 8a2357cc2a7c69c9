"""Builds the documentation: `sphinx-build -W --keep-going -E -b html docs build/docs`, offline."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

project = "endcap"
author = "the endcap authors"
copyright = f"{author}, Apache-2.0"
version = release = importlib.metadata.version("endcap")

sys.path.insert(0, str(Path(__file__).parent))
extensions = ["generated", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
source_suffix = {".md": "markdown"}
exclude_patterns = ["README.md", "_generated"]

myst_heading_anchors = 3
myst_links_external_new_tab = False

# Docstrings are in Google's style; a single backtick means code in both.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# As they are, not as they are written: signatures with listed parameters have more than the source.
autodoc_preserve_defaults = False
autoclass_content = "class"
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_attr_annotations = False  # the signature shows them
python_maximum_signature_line_length = 80
add_module_names = False

nitpicky = True
# Other projects' types: their pages are not read, so that the build needs no network.
nitpick_ignore_regex = [
    (
        "py:.*",
        r"(numpy|np|npt|collections|contextlib|os|pathlib|types|typing|enum|fractions|PIL|ray)\..*",
    ),
    ("py:.*", r"(NDArray|ArrayLike|Sequence|Callable|Mapping|Iterator|PathLike|Path|Any|Literal)"),
    ("py:.*", r"(optional|default.*|dtype|float32|float64|int32|bool_|TracebackType)"),
    ("py:.*", r"(ndarray|dataclass|IntEnum|memoryview|bytearray)"),
    (
        "py:.*",
        r"(Image|Images|Array|Color|Head|Kind|Preset|SharedMemory|OnFull|VideoSource|Source|endcap\.client\.\w+\.(C|RetryPolicy|Threads|Tasks))",
    ),  # aliases
    ("py:.*", r"tuple\[str"),  # of a type that Sphinx cuts in two
]

highlight_language = "text"
smartquotes = False  # --json is an option, not a dash
pygments_style = "friendly"
pygments_dark_style = "github-dark"

html_theme = "furo"
html_title = f"endcap {release}"
html_static_path = ["_static"]
html_css_files = ["endcap.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_logo": "wordmark.svg",
    "dark_logo": "wordmark-dark.svg",
    "sidebar_hide_name": True,
    "navigation_with_keys": True,
    "light_css_variables": {
        "color-brand-primary": "#0b6e4f",
        "color-brand-content": "#0b6e4f",
    },
    "dark_css_variables": {
        "color-brand-primary": "#4fd1a5",
        "color-brand-content": "#4fd1a5",
    },
}
