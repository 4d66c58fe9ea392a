"""Chromium without a window, for tests of pages that people look at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def opened() -> Iterator[Any]:
    """A driver of it, with logs of its console and its requests; tests skip where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    place = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if place is None or driver is None:
        pytest.skip("no chromium with its chromedriver was found (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = place
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))  # a given driver: none is looked for online
    yield opened
    opened.quit()


def visit(browser: Any, url: str, width: int, *, phone: bool = False, dark: bool = False) -> None:
    """Open a page; whatever the last one logged is forgotten."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": phone}
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    still = {"name": "prefers-reduced-motion", "value": "reduce"}  # a click does not wait for a page that glides
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(url)


def wait(browser: Any, question: str, *given: Any) -> None:
    """Until a script answers yes."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 20).until(lambda one: one.execute_script(question, *given))


def requested(browser: Any) -> set[str]:
    """Addresses that the page asked for since it was opened."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
