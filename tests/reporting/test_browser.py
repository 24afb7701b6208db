"""The report as a browser shows it."""

from __future__ import annotations

import shutil

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; the extra 'doc' has it")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
EXECUTABLE = next(filter(None, map(shutil.which, BROWSERS)), None)
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"),
    *("--disable-quic", "--no-first-run", "--disable-component-update", "--disable-sync"),
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no other machine is reached
]
#: Milliseconds that a busy machine may take to open a page.
PATIENCE = 300_000
#: Waits for images, and gives what only a browser knows.
INSPECT = """
async width => {
  await Promise.all([...document.images].map(image => image.decode().catch(() => null)));
  const scrolls = element => {
    for (let outer = element; outer && outer !== document.body; outer = outer.parentElement)
      if (getComputedStyle(outer).overflowX !== "visible" && outer.getBoundingClientRect().right <= width + 1)
        return true;
    return false;
  };
  const wide = [...document.body.querySelectorAll("*")].filter(
    element => element.getBoundingClientRect().right > width + 1 && !scrolls(element));
  return {
    images: document.images.length,
    broken: [...document.images].filter(image => image.naturalWidth === 0).length,
    overflow: document.scrollingElement.scrollWidth - width,
    wide: wide.map(element => element.outerHTML.slice(0, 80)),
    scripts: document.scripts.length,
    hacked: window.hacked === undefined ? "no" : "yes",
    text: document.body.innerText,
    page: getComputedStyle(document.body).backgroundColor,
    card: getComputedStyle(document.querySelector(".card")).backgroundColor,
    links: [...document.querySelectorAll("nav a")].map(a => document.getElementById(a.hash.slice(1)) !== null),
  };
}
"""


@pytest.mark.skipif(EXECUTABLE is None, reason=f"no browser found (looked for {', '.join(BROWSERS)})")
def test_a_report_opens_in_chromium_on_a_desktop_and_a_phone(page, hostile):
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=EXECUTABLE, args=ARGUMENTS, timeout=PATIENCE)
        for width, scheme in ((1280, "light"), (390, "dark")):
            context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
            context.set_default_timeout(PATIENCE)
            opened, problems = context.new_page(), []
            opened.on("console", lambda message, seen=problems: seen.append(message.text))
            opened.on("pageerror", lambda error, seen=problems: seen.append(str(error)))
            opened.on("request", lambda r, seen=problems: r.url.startswith(("file:", "data:")) or seen.append(r.url))
            opened.goto(page.as_uri(), wait_until="load")
            found = opened.evaluate(INSPECT, width)
            assert problems == []
            assert found["images"] >= 3 and found["broken"] == 0
            assert found["overflow"] <= 0 and found["wide"] == []
            assert found["scripts"] == 0 and found["hacked"] == "no" and hostile[0] in found["text"]
            assert (found["page"] == "rgb(255, 255, 255)") == (scheme == "light")
            assert found["card"] == "rgb(255, 255, 255)", "figures stand on white"
            assert all(found["links"]) and len(found["links"]) >= 5
            context.close()
        browser.close()
