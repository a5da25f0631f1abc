"""Hooks of mkdocs: add the pages and files beside docs/ that pages link to, so that no link of the site is dead."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_PAGES = {
    "README.md": "project/readme.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
}
"""Pages of the repository's root, and where the site has them."""

_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, and each file outside of docs/ that a page links to, as plain text."""
    root = Path(config.config_file_path).parent
    for name, uri in _PAGES.items():
        files.append(File.generated(config, uri, content=(root / name).read_text(encoding="utf-8")))
    for page in [*files.documentation_pages()]:
        for _, target, _ in _LINK.findall(page.content_string):
            path = _in_repository(page.src_uri, target)
            uri = f"source/{path}.txt"
            if path and _moved(path) == uri and (root / path).is_file() and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=str(root / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links that leave docs/ to where the site has their targets."""
    here = posixpath.dirname(page.file.src_uri)

    def led(link: re.Match[str]) -> str:
        path = _in_repository(page.file.src_uri, link[2])
        return f"{link[1]}{posixpath.relpath(_moved(path), here or '.')}{link[3]}" if path else link[0]

    return _LINK.sub(led, markdown)


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Refuse a page with two anchors of one name: one of them can't be linked to.

    Raises:
        PluginError: names the page and the anchors.
    """
    anchors = Counter(re.findall(r'<h[1-6] id="([^"]+)"', html))
    if twice := [name for name, count in anchors.items() if count > 1]:
        raise PluginError(f"{page.file.src_uri}: two headings have the anchor {', '.join(twice[:5])}")
    return html


def _in_repository(page: str, target: str) -> str | None:
    """Return the path from the repository's root that a link of a page means; None for a URL."""
    if ":" in target:
        return None
    home = {uri: name for name, uri in _PAGES.items()}.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(home), target))


def _moved(path: str) -> str:
    """Return where the site has a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return _PAGES.get(path, f"source/{path}.txt")
