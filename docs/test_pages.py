"""The built pages: links, formulas, search, and what is cut off on a desk or a phone.

    make docs          (builds the pages in docs/_build/html, then runs this)

Links are followed without a browser. The rest is seen by a headless Chromium; where there is none,
those tests are skipped, and say so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

HTML = Path(__file__).parent / "_build" / "html"
PAGES = sorted(p for p in HTML.rglob("*.html") if not {"_modules", "_static"} & {*p.parts})
WIDTHS = {"wide desk": 1400, "desk": 1280, "phone": 420}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SEARCHES = {
    "impute": "imputation.html",
    "imputation": "imputation.html",
    "anomaly": "imputation.html",
    "exogenous": "forecasting.html",
    "stacking": "ensemble.html",
    "GraFITi": "benchmarks.html",
    "classify": "classification.html",
}
GUIDES = "getting_started classification forecasting imputation streaming displays theory"
GUIDES += " inputs intervals crossings"
TASKS = [f"{name}.html" for name in GUIDES.split()]
# What is wrong with a page, as words that name the element.
FAULTS = """() => {
  const faults = [], root = document.documentElement;
  const name = e => e.tagName + ' ' + (e.innerText || e.src || '').trim().slice(0, 60);
  const content = document.querySelector('main') || document.body;
  if (root.scrollWidth > root.clientWidth + 1)
    faults.push(`the page scrolls sideways: ${root.scrollWidth} of ${root.clientWidth}`);
  const shown = 'h1, h2, h3, h4, pre, dt, .sd-card-title, .bd-toc a, .bd-links a';
  for (const e of document.querySelectorAll(shown)) {
    const text = document.createRange();
    text.selectNodeContents(e);
    const box = text.getBoundingClientRect();
    if (!box.width || !e.checkVisibility({visibilityProperty: true})) continue;
    if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth || box.right > root.clientWidth + 1)
      faults.push('cut off: ' + name(e));
  }
  for (const e of content.querySelectorAll('img'))
    if (e.offsetParent && e.complete && !e.naturalWidth) faults.push('no picture: ' + e.src);
  const formulas = content.querySelectorAll('span.math, div.math');
  if (formulas.length && content.querySelectorAll('mjx-container').length < formulas.length)
    faults.push('formulas do not show');
  for (const e of content.querySelectorAll('mjx-merror')) faults.push('formula: ' + name(e));
  return faults;
}"""


class Links(HTMLParser):
    """Where a page leads to, and the places in it that others can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value for key, value in attrs if value is not None}
        self.anchors |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.targets.append(values["href"])
        self.loaded += [values["src"]] if "src" in values else []
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(values["href"])


@cache
def links(page: Path) -> Links:
    return Links(page.read_text("utf-8"))


def leads_nowhere(page: Path, target: str) -> bool:
    parts = urlsplit(target)
    if parts.scheme:
        return parts.scheme not in ("http", "https", "mailto", "data")
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not file.is_file():
        return True
    return bool(parts.fragment and file.suffix == ".html") and (
        unquote(parts.fragment) not in links(file).anchors
    )


def test_there_are_pages() -> None:
    assert len(PAGES) > 50, "run make docs"


def test_links_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(HTML)}: {target}"
        for page in PAGES
        if page.name not in ("search.html", "genindex.html")
        for target in {*links(page).targets, *links(page).loaded} - {"#"}
        if leads_nowhere(page, target)
    ]
    assert not broken, "\n".join(broken)


def test_nothing_is_loaded_from_a_network() -> None:
    found = {url for page in PAGES for url in links(page).loaded if urlsplit(url).netloc}
    assert not found


@pytest.mark.parametrize("word", SEARCHES)
def test_pages_that_a_search_should_find_have_the_word(word: str) -> None:
    assert word[:6].lower() in (HTML / SEARCHES[word]).read_text("utf-8").lower()


@pytest.mark.parametrize("page", TASKS)
def test_pages_of_tasks_open_with_a_picture(page: str) -> None:
    text = (HTML / page).read_text("utf-8")
    assert 0 < text.find('src="_images/') < text.find("<h2")


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"pages are not looked at: none of {', '.join(BROWSERS)} is installed")
    with playwright.sync_playwright() as tools:
        chromium = tools.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield chromium
        chromium.close()


@pytest.mark.parametrize("device", WIDTHS)
def test_pages_show_everything(browser, device: str) -> None:
    page = browser.new_page(viewport={"width": WIDTHS[device], "height": 900})
    faults = []
    for path in PAGES:
        page.goto(path.as_uri(), wait_until="load")
        if page.query_selector("span.math, div.math"):
            page.evaluate("() => window.MathJax.startup.promise")
        faults += [f"{path.relative_to(HTML)}: {fault}" for fault in page.evaluate(FAULTS)]
    page.close()
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("word", SEARCHES)
def test_search_finds(browser, word: str) -> None:
    page = browser.new_page()
    page.goto((HTML / "search.html").as_uri() + f"?q={word}", wait_until="load")
    page.wait_for_selector("#search-results li a", timeout=20_000)
    found = page.eval_on_selector_all("#search-results li a", "es => es.map(e => e.href)")
    page.close()
    assert any(SEARCHES[word] in href for href in found[:5]), found[:5]
