"""Open every page of the built site in headless Chromium and say what is broken.

Each page is opened at the width of a desktop and of a phone. It must load without an error in the console, without a
failed request and without any to another machine; its images must be there, its equations typeset, its links lead to
a page and an anchor that exist, and nothing but what scrolls on its own may be wider than the screen.

    python docs/check_pages.py [FOLDER] [--screenshots FOLDER]
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

from playwright.sync_api import Browser, Error, Page, sync_playwright

WIDTHS = {"desktop": 1280, "phone": 390}
HEIGHT = 844
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no other machine is reached
]

#: Waits for images and equations, and gives what only a browser knows of a page.
INSPECT = r"""
async width => {
  const images = [...document.images];
  for (const image of images) image.loading = "eager";
  await Promise.all(images.map(image => image.decode().catch(() => null)));
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  await document.fonts.ready;

  const article = document.querySelector("article") || document.body;
  const maths = [...document.querySelectorAll(".math")];
  const named = element => {
    const kind = element.tagName.toLowerCase() + [...element.classList].map(name => "." + name).join("");
    return `<${kind}> ${(element.innerText || element.getAttribute("src") || "").trim().slice(0, 60)}`;
  };

  // The text of the article without code, in which TeX may stand.
  const prose = article.cloneNode(true);
  for (const code of prose.querySelectorAll("pre, code, script, style, mjx-container")) code.remove();
  const tex = /\\\(|\\\[|\$\$|\\(?:frac|nabla|int|sum|begin|mathrm|lVert|operatorname)\b[^\s]*/;
  const raw = prose.textContent.match(tex);

  const scrolls = element => {
    for (let outer = element.parentElement; outer && outer !== document.body; outer = outer.parentElement) {
      const style = getComputedStyle(outer);
      if (style.overflowX !== "visible" && outer.getBoundingClientRect().right <= width + 1) return true;
    }
    return false;
  };
  const wide = [...article.querySelectorAll("*")].filter(element => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.right > width + 1 && !scrolls(element);
  });

  return {
    images: images.filter(image => image.naturalWidth === 0).map(image => image.getAttribute("src")),
    errors: [...document.querySelectorAll("mjx-merror, [data-mjx-error]")].map(
      error => error.getAttribute("data-mjx-error") || error.innerText),
    untypeset: maths.filter(element => !element.querySelector("mjx-container")).map(named),
    raw: raw ? [raw[0]] : [],
    wide: wide.length ? [named(wide[wide.length - 1])] : [],
    overflow: document.scrollingElement.scrollWidth - width,
    links: [...document.querySelectorAll("a[href]")].map(link => link.href),
    anchors: [...document.querySelectorAll("[id], a[name]")].flatMap(element => [element.id, element.name || ""]),
  };
}
"""


def main() -> int:
    """Check the site; the exit code says whether something is broken."""
    parser = argparse.ArgumentParser(description="Open every page of the built site in Chromium.")
    built = Path(__file__).parent / "_build" / "html"
    parser.add_argument("folder", nargs="?", type=Path, default=built, help="the built site (docs/_build/html)")
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER", help="keep a picture of every page")
    parsed = parser.parse_args()
    if not (parsed.folder / "index.html").exists():
        parser.error(f"there is no site in {parsed.folder}: run make docs")
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        parser.error(
            f"no browser found (looked for {', '.join(BROWSERS)}). Install Chromium, for instance with "
            "'apt-get install chromium' or 'dnf install chromium'."
        )
    with serve(parsed.folder) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        problems, n_pages = check(browser, parsed.folder, address, parsed.screenshots)
        browser.close()
    for problem in problems:
        print(problem)
    print(f"{n_pages} pages at {len(WIDTHS)} widths: {len(problems) or 'no'} problem{'s' * (len(problems) != 1)}.")
    return 1 if problems else 0


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine, and give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def check(browser: Browser, folder: Path, address: str, screenshots: Path | None) -> tuple[list[str], int]:
    """All problems of all pages, and the number of pages."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html") if "_static" not in path.parts)
    problems: list[str] = []
    anchors: dict[str, set[str]] = {}
    links: dict[str, list[str]] = {}
    for device, width in WIDTHS.items():
        context = browser.new_context(viewport={"width": width, "height": HEIGHT})
        for name in names:
            page = context.new_page()
            seen = listen(page, address)
            try:
                page.goto(f"{address}/{name}", wait_until="load")
                found = page.evaluate(INSPECT, width)
            except Error as error:
                problems.append(f"{name} ({device}): could not be opened: {error.message}")
                continue
            problems += [f"{name} ({device}): {said}" for said in [*seen, *shortcomings(found)]]
            anchors[name], links[name] = set(found["anchors"]), found["links"]
            if screenshots is not None:
                path = screenshots / device / f"{name.removesuffix('.html')}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=path, full_page=True)
            page.close()
        context.close()
    problems += [said for name in links for said in broken_links(name, links[name], anchors, folder, address)]
    return list(dict.fromkeys(problems)), len(names)


def listen(page: Page, address: str) -> list[str]:
    """A list that fills with what goes wrong while a page loads."""
    seen: list[str] = []

    def asked(request: Any) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            seen.append(f"asks another machine for {request.url}")

    def failed(request: Any) -> None:
        if request.url.startswith(address):
            seen.append(f"request failed: {request.url.removeprefix(address)} ({request.failure})")

    page.on("request", asked)
    page.on("console", lambda m: seen.append(f"error in the console: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda error: seen.append(f"error of a script: {error}"))
    page.on("requestfailed", failed)
    page.on(
        "response",
        lambda r: seen.append(f"status {r.status}: {r.url.removeprefix(address)}") if r.status >= 400 else None,
    )
    return seen


def shortcomings(found: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a page as the browser shows it."""
    for kind, said in (
        ("images", "broken image"),
        ("errors", "error in an equation"),
        ("untypeset", "equation that is not typeset"),
        ("raw", "TeX in the text"),
    ):
        yield from (f"{said}: {culprit}" for culprit in found[kind])
    yield from (f"wider than the screen: {culprit}" for culprit in found["wide"])
    if found["overflow"] > 1 and not found["wide"]:
        yield f"the page is {found['overflow']} pixels wider than the screen"


def broken_links(
    name: str, links: list[str], anchors: dict[str, set[str]], folder: Path, address: str
) -> Iterator[str]:
    """The links of a page to pages, files and anchors of the site that do not exist."""
    for link in dict.fromkeys(links):
        url, anchor = urldefrag(link)
        if not url.startswith(address):
            continue
        path = unquote(urlsplit(url).path).lstrip("/")
        path = f"{path}index.html" if path == "" or path.endswith("/") else path
        if not (folder / path).is_file():
            yield f"{name}: broken link to {path}"
        elif anchor and path in anchors and not _leads_somewhere(unquote(anchor), anchors[path]):
            yield f"{name}: broken anchor {path}#{anchor}"


def _leads_somewhere(anchor: str, there: set[str]) -> bool:
    # Browsers also take a part of the text for an anchor.
    return anchor in there or bool(re.match(r":~:text=", anchor))


if __name__ == "__main__":
    sys.exit(main())
